package plan

import (
	"fmt"
	"time"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/state"
)

// Evidence is what is known where a fetch brought no batch.
type Evidence struct {
	// LastStable is the end for read_committed consumers as the last answer told
	// it; feed.Unknown where it did not.
	LastStable int64
	// Alone: the last fetch asked for this partition and no other, so that its
	// first batch would have come whatever its size.
	Alone bool
	// Throttled is how long the broker held the last answer back for a quota; an
	// answer may be empty for nothing else.
	Throttled time.Duration
	// Empty counts the consecutive empty answers to fetches of the partition
	// alone from this position, the last one included.
	Empty int
	// LeaderEpochUnchanged: all of them came under LeaderEpoch, the epoch of the
	// leader now.
	LeaderEpochUnchanged bool
	LeaderEpoch          int32
}

// emptyAnswers is how many must say that nothing is there. One can come from a
// broker that has just started and reads while its ends are moving.
const emptyAnswers = 2

// settled tells whether the evidence shows a hole.
func (q Evidence) settled() bool {
	return q.Alone && q.Throttled == 0 && q.LeaderEpochUnchanged && q.Empty >= emptyAnswers
}

// Tail decides what it means that no batch comes at next: the end of the log, a
// busy broker, or a hole up to the end, which compaction leaves where it removed
// the last markers and tombstones.
func Tail(next int64, q Evidence, pol Policy, lim Limits) Step {
	switch {
	case q.LastStable == feed.Unknown || q.LastStable <= next:
		return Step{Kind: Wait, Base: next, End: next}
	case !q.settled():
		return Step{Kind: AskAlone, Base: next, End: next}
	case pol.Compaction == NotCompacted:
		return corruptGap(next, q.LastStable)
	case pol.Gaps == FillMarkers:
		end := min(q.LastStable, next+lim.maxFillOffsets())
		return Step{Kind: Fill, Base: next, End: end, Epoch: q.LeaderEpoch,
			Runs: []ledger.Run{{Count: end - next, Reason: ledger.Compacted}}}
	case pol.repeats():
		return Step{Kind: Wait, Base: next, End: next,
			Detail: fmt.Sprintf("no record to repeat follows offset %d yet", q.LastStable-1)}
	}
	return Step{Kind: Halt, Base: next, End: q.LastStable, Reason: state.Unfillable,
		Detail: fmt.Sprintf("offsets %d to %d, the last of the source's log, hold no record (removed by compaction)", next, q.LastStable-1)}
}
