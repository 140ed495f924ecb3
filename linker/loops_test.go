package linker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// TestLooped: what came from the target does not go back to it.
func TestLooped(t *testing.T) {
	ours := control.Inflow{Link: "back", SourceTopic: "a", Begun: true, Clusters: control.NewClusters("DST")}
	of := func(edit func(*control.Inflow)) control.Inflow { i := ours; edit(&i); return i }
	for name, c := range map[string]struct {
		loop
		want string
	}{
		"no mirror":                   {loop{}, ""},
		"from another cluster":        {loop{inflow: of(func(i *control.Inflow) { i.Clusters = control.NewClusters("X") })}, ""},
		"from the target":             {loop{inflow: ours}, "link back mirrors it from topic a of cluster DST"},
		"under another name":          {loop{inflow: ours, name: "other"}, "is a mirror"},
		"around a ring":               {loop{inflow: of(func(i *control.Inflow) { i.Clusters = control.NewClusters("X", "DST") })}, "of cluster X, where it came from this link's target cluster DST"},
		"both have begun":             {loop{inflow: ours, begun: true}, "is a mirror"},
		"the other one only claims":   {loop{inflow: of(func(i *control.Inflow) { i.Begun = false }), begun: true}, ""},
		"both only claim":             {loop{inflow: of(func(i *control.Inflow) { i.Begun = false })}, "is a mirror"},
		"after a failover":            {loop{inflow: of(func(i *control.Inflow) { i.Stopped = true })}, ""},
		"after one, copies drift":     {loop{inflow: of(func(i *control.Inflow) { i.Stopped = true }), mode: Checkpoint}, "until it was stopped"},
		"after one, to another topic": {loop{inflow: of(func(i *control.Inflow) { i.Stopped = true }), mode: Checkpoint, name: "src.a"}, ""},
	} {
		c.target = "DST"
		if c.name == "" {
			c.name = "a"
		}
		got := looped(c.loop)
		if (got != nil) != (c.want != "") || got != nil && (!strings.Contains(got.Detail, c.want) || got.Reason != state.TopicRefused || got.Hint == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// memInflows are what klink has on record on the source.
type memInflows struct {
	mu  sync.Mutex // guards all below
	in  map[string]control.Inflow
	err error
}

func (m *memInflows) Inflows(context.Context) (map[string]control.Inflow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.in, m.err
}

func (m *memInflows) say(in map[string]control.Inflow, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in, m.err = in, err
}

// TestLoopIsRefused: nothing is made or written for a topic that came from the target,
// others are mirrored, and go on record with the clusters they came through.
func TestLoopIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, in := newWorld(), &memInflows{}
		w.add("a", 1, 1)
		w.add("b", 2, 1)
		in.say(map[string]control.Inflow{"a": {Link: "back", SourceTopic: "a", Begun: true, Clusters: "DST"}, "b": {Link: "more", SourceTopic: "b", Clusters: "X Y"}}, nil)
		l := w.link(t, "w")
		l.o.Inflows = in
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused)
		mustBe(t, topicReport(t, l, "b"), state.Active, "")
		if w.prepares("a") > 0 || w.records["b"].Origins != "X Y" {
			t.Errorf("prepared %d times, %+v", w.prepares("a"), w.records["b"])
		}

		in.say(nil, errors.New("not allowed")) // what cannot be seen is no loop
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if w.records["b"].Origins != "X Y" {
			t.Errorf("%+v", w.records["b"])
		}

		in.say(map[string]control.Inflow{"a": {Link: "back", SourceTopic: "a", Begun: true, Clusters: "X DST"}}, nil)
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused)
		before := w.log(w.dst, feed.Partition{Topic: "a"}).end
		w.log(w.src, feed.Partition{Topic: "a"}).write(records(10, 5, "a"), 0, 0)
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused)
		if end := w.log(w.dst, feed.Partition{Topic: "a"}).end; end != before {
			t.Errorf("mirrored up to %d, was %d", end, before)
		}
		end()
	})
}
