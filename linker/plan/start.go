package plan

import (
	"fmt"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/state"
)

// Start is what is known of both logs where a mirror of a partition begins or
// goes on.
type Start struct {
	// SrcStart and SrcEnd are the ends of the source's log, [SrcStart, SrcEnd).
	SrcStart, SrcEnd int64
	// From is the offset that the link's start policy leads to: SrcStart for
	// earliest, SrcEnd for latest and for a time that no record has reached. It
	// is held to the source's log.
	From int64
	// DstStart and DstEnd are the ends of the target's log.
	DstStart, DstEnd int64
	// Goal is the pad goal on record, feed.Unknown where there is none. It is
	// recorded ahead of the first pad, so what the target holds below it is
	// padding and nothing else.
	Goal int64
}

// StartAt decides where the target's log has to begin. It returns a Pad to the
// goal End, to be recorded before it is acted on; a Wait where the log stands
// where it should; a Halt above the policy's PadLimit. A goal on record is held
// to, whatever the start policy says by now; while padding goes on it is raised
// where the source's start overtook it. A target that has records and no goal
// is not for this function to judge.
func StartAt(s Start, pol Policy) Step {
	goal := s.Goal
	switch {
	case goal == feed.Unknown && s.DstEnd > 0:
		goal = s.DstStart
	case goal == feed.Unknown:
		goal = min(max(s.From, s.SrcStart), max(s.SrcStart, s.SrcEnd))
	}
	if s.DstEnd >= goal && s.DstStart >= goal {
		return Step{Kind: Wait, Base: s.DstEnd, End: s.DstEnd}
	}
	if s.DstEnd <= goal {
		goal = max(goal, s.SrcStart)
	}
	base := min(s.DstEnd, goal)
	if base < goal && goal > pol.PadLimit {
		return overLimit(base, 0, goal, pol)
	}
	return Step{Kind: Pad, Base: base, End: goal, Epoch: feed.NoEpoch}
}

// Overrun decides what to do where the source's log starts beyond next, the
// target's log end: a Halt, or a PadOver. Where nothing was lost it is a Wait.
func Overrun(next, logStart int64, pol Policy) Step {
	lost := logStart - next
	switch {
	case lost <= 0:
		return Step{Kind: Wait, Base: next, End: next}
	case pol.Overrun != PadOverrun:
		return Step{Kind: Halt, Base: next, End: logStart, Reason: state.RetentionOverrun,
			Detail: fmt.Sprintf("the source deleted offsets %d to %d (%d offsets) before they were mirrored", next, logStart-1, lost)}
	case lost > pol.PadLimit:
		return overLimit(next, next, logStart, pol)
	}
	return Step{Kind: PadOver, Base: next, End: logStart, Epoch: feed.NoEpoch,
		Runs: []ledger.Run{{Count: lost, Reason: ledger.Retention}}}
}

// overLimit halts where [from, end) is more than may be padded; the target's log
// ends at base.
func overLimit(base, from, end int64, pol Policy) Step {
	return Step{Kind: Halt, Base: base, End: end, Reason: state.Unfillable,
		Detail: fmt.Sprintf("padding offsets %d to %d (%d offsets) is above pad_limit, which is %d", from, end-1, end-from, pol.PadLimit)}
}
