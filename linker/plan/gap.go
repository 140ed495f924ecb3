package plan

import (
	"fmt"
	"math"

	"klink/linker/ledger"
	"klink/linker/state"
)

// uncovered tells of offsets before an entry that no batch covers although no
// cleaner can have removed any (P6).
func uncovered(next int64, e *Entry, pol Policy) bool {
	return e.base() > next && pol.Compaction == NotCompacted
}

func corruptGap(next, end int64) Step {
	return Step{Kind: Halt, Base: next, End: end, Reason: state.Corrupt,
		Detail: fmt.Sprintf("the source served no batch for offsets %d to %d (%d offsets), and the topic was never compacted", next, end-1, end-next)}
}

// fill gathers neighbouring gaps of one leader epoch: entries without visible
// records and offsets between entries.
func fill(next int64, entries []Entry, pol Policy, lim Limits) Step {
	g := gap{Step: Step{Kind: Fill, Base: next, End: next, Epoch: entries[0].epoch()}, limit: next + lim.maxFillOffsets()}
	g.gather(entries, pol)
	return g.Step
}

// repeat is fill for links that repeat the next surviving record: the gap is
// written together with the entry behind it, however long it is.
func repeat(next int64, entries []Entry) Step {
	g := gap{Step: Step{Kind: Repeat, Base: next, End: next}, limit: math.MaxInt64}
	for i := range entries {
		e := &entries[i]
		g.extend(e.base(), ledger.Compacted)
		reason, blank := e.blank()
		if !blank {
			g.Entries, g.End, g.Epoch = i+1, e.next(), e.epoch()
			return g.Step
		}
		g.extend(e.next(), reason)
	}
	return Step{Kind: Wait, Entries: len(entries), Base: next, End: next,
		Detail: fmt.Sprintf("no record to repeat follows offset %d yet", g.End-1)}
}

// gap is a Step that grows up to a limit.
type gap struct {
	Step
	limit int64
}

// gather takes what belongs to the gap that begins at the first entry.
func (g *gap) gather(entries []Entry, pol Policy) {
	for i := range entries {
		e := &entries[i]
		if e.epoch() != g.Epoch || uncovered(g.End, e, pol) || !g.extend(e.base(), ledger.Compacted) {
			return
		}
		reason, blank := e.blank()
		if !blank || !g.extend(e.next(), reason) {
			return
		}
		g.Entries++
	}
}

// extend covers the offsets up to end, or as many as the limit lets it, and
// tells whether that was all.
func (g *gap) extend(end int64, reason ledger.Reason) bool {
	to := min(end, g.limit)
	if n := to - g.End; n > 0 {
		g.Runs = addRun(g.Runs, ledger.Run{Count: n, Reason: reason})
		g.End = to
	}
	return end <= g.limit
}

// addRun appends a run, or lengthens the last one of the same reason (P5).
func addRun(runs []ledger.Run, r ledger.Run) []ledger.Run {
	if n := len(runs); n > 0 && runs[n-1].Reason == r.Reason {
		runs[n-1].Count += r.Count
		return runs
	}
	return append(runs, r)
}
