package admit

import (
	"strings"
	"testing"

	"klink/linker/control"
	"klink/linker/state"
)

// TestByLoop: what came from the target does not go back to it.
func TestByLoop(t *testing.T) {
	ours := control.Inflow{Link: "back", SourceTopic: "a", Begun: true, Clusters: control.NewClusters("DST")}
	of := func(edit func(*control.Inflow)) control.Inflow { i := ours; edit(&i); return i }
	for name, c := range map[string]struct {
		Loop
		want string
	}{
		"no mirror":                   {Loop{}, ""},
		"from another cluster":        {Loop{Inflow: of(func(i *control.Inflow) { i.Clusters = control.NewClusters("X") })}, ""},
		"from the target":             {Loop{Inflow: ours}, "link back mirrors it from topic a of cluster DST"},
		"under another name":          {Loop{Inflow: ours, Target: "other"}, "is a mirror"},
		"around a ring":               {Loop{Inflow: of(func(i *control.Inflow) { i.Clusters = control.NewClusters("X", "DST") })}, "of cluster X, where it came from this link's target cluster DST"},
		"both have begun":             {Loop{Inflow: ours, Begun: true}, "is a mirror"},
		"the other one only claims":   {Loop{Inflow: of(func(i *control.Inflow) { i.Begun = false }), Begun: true}, ""},
		"both only claim":             {Loop{Inflow: of(func(i *control.Inflow) { i.Begun = false })}, "is a mirror"},
		"after a failover":            {Loop{Inflow: of(func(i *control.Inflow) { i.Stopped = true })}, ""},
		"after one, copies drift":     {Loop{Inflow: of(func(i *control.Inflow) { i.Stopped = true }), Drifts: true}, "until it was stopped"},
		"after one, to another topic": {Loop{Inflow: of(func(i *control.Inflow) { i.Stopped = true }), Drifts: true, Target: "src.a"}, ""},
	} {
		c.TargetCluster = "DST"
		if c.Target == "" {
			c.Target = "a"
		}
		got := ByLoop(c.Loop)
		if (got != nil) != (c.want != "") || got != nil && (!strings.Contains(got.Detail, c.want) || got.Reason != state.TopicRefused || got.Hint == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
