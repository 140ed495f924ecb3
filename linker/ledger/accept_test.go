package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAcceptedTakesThePlaceOfOthers: totals stay exact, and nothing below the range
// is touched but where it is not known what lies there.
func TestAcceptedTakesThePlaceOfOthers(t *testing.T) {
	mixed := Window{From: 30, End: 40, Counts: []Count{{Marker, 2}, {Aborted, 3}}}
	before := []Window{{From: 5, End: 10, Counts: []Count{{Padded, 5}}}, {From: 20, End: 22, Counts: []Count{{Marker, 2}}}, mixed}
	accepted := func(from int64) Window { return Window{From: from, End: 50, Counts: []Count{{Accepted, 50 - from}}} }
	for name, c := range map[string]struct {
		from int64
		want []Window
	}{
		"behind all":        {45, []Window{before[0], before[1], mixed, accepted(45)}},
		"between":           {25, []Window{before[0], before[1], accepted(25)}},
		"within a mixture":  {35, []Window{before[0], before[1], accepted(30)}},
		"within a range":    {21, []Window{before[0], {From: 20, End: 21, Counts: []Count{{Marker, 1}}}, accepted(21)}},
		"at a window's end": {22, []Window{before[0], before[1], accepted(22)}},
		"from the start":    {0, []Window{accepted(0)}},
	} {
		x := &Index{end: 42, windows: append([]Window(nil), before...)}
		x.Accept(Range{From: c.from, End: 50, Reason: Accepted})
		if diff := cmp.Diff(c.want, x.Windows()); diff != "" || x.End() != 50 {
			t.Errorf("%s: end %d, %s", name, x.End(), diff)
		}
		if end, ok := x.Accepted(); !ok || end != 50 {
			t.Errorf("%s: accepted up to %d, %v", name, end, ok)
		}
		again, err := Decode(x.Encode())
		if diff := cmp.Diff(x.Windows(), again.Windows()); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", name, err, diff)
		}
	}
	if _, ok := new(Index).Accepted(); ok {
		t.Error("nothing was accepted")
	}
}
