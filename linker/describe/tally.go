package describe

import (
	"math"

	"klink/linker/ledger"
)

// unbounded is above every offset.
const unbounded = math.MaxInt64

// tally brings an index forward: the recorded one first, then what the log
// shows, in the log's order, with the padded range at its place in it.
type tally struct {
	index *ledger.Index
	pad   *ledger.Range
	// recorded is true where there was an index to begin with.
	recorded    bool
	unexplained int64
	notes       []string
}

func newTally(tr trail) *tally {
	t := &tally{index: new(ledger.Index), pad: tr.pad, notes: []string{}}
	if tr.index == nil {
		return t
	}
	x, err := ledger.Decode(*tr.index)
	if err != nil {
		t.notes = append(t.notes, "the index on record cannot be read: "+err.Error())
		return t
	}
	t.index, t.recorded = x, true
	return t
}

// padBelow takes in the padded range where it begins below an offset.
func (t *tally) padBelow(offset int64) {
	if t.pad != nil && t.pad.From < offset {
		t.index.Add(*t.pad)
		t.pad = nil
	}
}

// reach takes in a padded range that follows without a hole, and returns the end
// of what is known then; ok is false where nothing is.
func (t *tally) reach() (end int64, ok bool) {
	if t.pad != nil && t.pad.From <= t.index.End() {
		t.recorded = true
		t.padBelow(unbounded)
	}
	return t.index.End(), t.recorded
}

// ledger returns what was taken in.
func (t *tally) ledger(d Detail) Ledger {
	l := Ledger{Totals: named(t.index.Totals()), Unexplained: t.unexplained, Notes: t.notes}
	if d != WithRanges {
		return l
	}
	l.Ranges = []Range{}
	for _, w := range t.index.Windows() {
		r := Range{From: w.From, End: w.End, Reason: Mixed, Counts: make(map[string]int64, len(w.Counts))}
		for _, c := range w.Counts {
			r.Counts[c.Reason.String()] += c.Offsets
		}
		if w.Exact() {
			r.Reason = w.Counts[0].Reason.String()
		}
		l.Ranges = append(l.Ranges, r)
	}
	return l
}

func named(m map[ledger.Reason]int64) map[string]int64 {
	out := make(map[string]int64, len(m))
	for r, n := range m {
		out[r.String()] += n
	}
	return out
}
