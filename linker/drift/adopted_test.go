package drift

import (
	"slices"
	"testing"

	"klink/translate/exact"
)

// TestRecoverAdopted: a map that was begun with another mirror's copies, which bear
// no sequence of this one.
func TestRecoverAdopted(t *testing.T) {
	others := exact.Run{Src: 40, Dst: 90, Count: 10} // ends at 100
	own := exact.Run{Src: 52, Dst: 105, Count: 5, Seq: 10}
	begun := Position{Src: 52, Dst: 105, Seq: 10}
	for name, c := range map[string]struct {
		recorded   []exact.Run
		cursor     Position
		start, end int64
		own        []OwnBatch
		want       []exact.Run
		at         Position
	}{
		"just begun":              {recorded: []exact.Run{others}, cursor: begun, end: 105, want: []exact.Run{others}, at: begun},
		"others wrote since":      {recorded: []exact.Run{others}, cursor: begun, end: 120, want: []exact.Run{others}, at: Position{Src: 52, Dst: 120, Seq: 10}},
		"planned, not written":    {recorded: []exact.Run{others, own}, cursor: begun, end: 105, want: []exact.Run{others}, at: begun},
		"copied on":               {recorded: []exact.Run{others, own}, cursor: begun, end: 110, own: []OwnBatch{{105, 5, 10}}, want: []exact.Run{others, own}, at: Position{Src: 57, Dst: 110, Seq: 15}},
		"cursor behind":           {recorded: []exact.Run{others, own}, cursor: Position{Src: 57, Dst: 110, Seq: 15}, end: 115, own: []OwnBatch{{105, 5, 10}, {110, 5, 15}}, want: []exact.Run{others, {Src: 52, Dst: 105, Count: 10, Seq: 10}}, at: Position{Src: 62, Dst: 115, Seq: 20}},
		"the target lost its end": {recorded: []exact.Run{others, own}, cursor: Position{Src: 57, Dst: 110, Seq: 15}, end: 95, want: []exact.Run{{Src: 40, Dst: 90, Count: 5}}, at: Position{Src: 45, Dst: 95, Seq: 5}},
		"retention took others'":  {recorded: []exact.Run{others, own}, cursor: begun, start: 107, end: 110, own: []OwnBatch{{105, 5, 10}}, want: []exact.Run{others, own}, at: Position{Src: 57, Dst: 110, Seq: 15}},
		"nothing was compared":    {cursor: Position{Src: 52, Dst: 105}, end: 105, at: Position{Src: 52, Dst: 105}},
	} {
		m := mapOf(t, c.recorded...)
		m.Adopt(40, 105)
		from := ScanFrom(m, c.cursor, c.start, c.end)
		if from < min(105, c.end) {
			t.Errorf("%s: reads from %d", name, from)
		}
		// The second scan is the one after ErrMoved.
		for _, from := range []int64{from, c.start} {
			got, at, err := Recover(m, c.cursor, Scan{From: from, Start: c.start, End: c.end, Own: c.own})
			if err != nil || at != c.at || !slices.Equal(allRuns(got), c.want) || got.Adopted() != 105 || got.Floor() != 40 {
				t.Errorf("%s: from %d: %+v %+v, %v; want %+v %+v", name, from, at, allRuns(got), err, c.at, c.want)
			}
		}
	}
}
