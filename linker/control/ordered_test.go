package control

import (
	"encoding/json"
	"strings"
	"testing"

	"klink/linker/intent"
	"klink/linker/state"
)

// TestReportShowsWhatIsOrdered: the states on record may be those of a klink that
// died before the order came.
func TestReportShowsWhatIsOrdered(t *testing.T) {
	states := []stored{
		{`{"kind":"link-state","link":"l"}`, `{"version":1,"state":"ACTIVE","mode":"mirror"}`},
		{`{"kind":"state","link":"l","topic":"a"}`, `{"version":1,"state":"ACTIVE","parts":1,"partitions":[{"partition":0,"state":"ACTIVE","target_end":7,"lag_records":2}]}`},
		{`{"kind":"state","link":"l","topic":"b"}`, `{"version":1,"state":"HALTED","reason":"FENCED","parts":1,"partitions":[{"partition":0,"state":"HALTED","reason":"FENCED"}]}`},
	}
	for name, c := range map[string]struct {
		orders []intent.Command
		link   state.State
		want   [2]state.State
		word   string
	}{
		"nothing ordered": {nil, state.Active, [2]state.State{state.Active, state.Halted}, ""},
		"one paused":      {[]intent.Command{command(1, "x", intent.Pause, "a")}, state.Active, [2]state.State{state.Paused, state.Halted}, "paused by ann@host"},
		"the link paused": {[]intent.Command{command(1, "x", intent.Pause)}, state.Paused, [2]state.State{state.Paused, state.Paused}, "the link was paused by ann@host"},
		"resumed":         {[]intent.Command{command(1, "x", intent.Pause, "a"), command(2, "y", intent.Resume, "a")}, state.Active, [2]state.State{state.Active, state.Halted}, ""},
		"failed over":     {[]intent.Command{command(1, "x", intent.Failover, "a", "b")}, state.Active, [2]state.State{state.Stopped, state.Stopped}, "failed over by ann@host"},
		"being promoted":  {[]intent.Command{command(1, "x", intent.Pend, "a")}, state.Active, [2]state.State{state.PendingStopped, state.Halted}, "stopped for a promotion"},
	} {
		all := states
		for _, o := range c.orders {
			k, v := encodeCommand(o, 0)
			key, err := k.encode()
			if err != nil {
				t.Fatal(err)
			}
			value, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all[:len(all):len(all)], stored{string(key), string(value)})
		}
		r, _ := viewOf(t, all...).LinkReport("l")
		l := r.Links[0]
		if got := [2]state.State{l.Topics[0].State, l.Topics[1].State}; l.State != c.link || got != c.want {
			t.Errorf("%s: link %s, topics %s", name, l.State, got)
		}
		a := l.Topics[0]
		if p := a.Partitions[0]; p.State != a.State || !strings.Contains(a.Detail, c.word) || *p.TargetEnd != 7 || (p.LagRecords == nil) != (c.word != "") {
			t.Errorf("%s: %+v", name, a)
		}
		if b := l.Topics[1].Partitions[0]; b.State == state.Stopped && b.Reason != string(state.Fenced) {
			t.Errorf("%s: the fence that was found is gone: %+v", name, b)
		}
	}
}
