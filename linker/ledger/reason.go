package ledger

import "fmt"

// Reason is why offsets on the target are not a record-for-record copy of the
// source's.
type Reason uint8

// The reasons that a filler marker can carry: they fit ReasonBits (L1).
const (
	// None marks what stands for no offset of the source, such as a fence.
	None Reason = 0
	// Marker: the source has a transaction marker there.
	Marker Reason = 1
	// Aborted: the source has records of an aborted transaction there.
	Aborted Reason = 2
	// Compacted: the source's cleaner removed what was there.
	Compacted Reason = 3
	// Retention: the source's retention removed records before they were
	// mirrored, and the link's policy was to go on.
	Retention Reason = 4
)

// The reasons that are never in a marker.
const (
	// Padded: offsets below the source's start at the time the mirror began.
	Padded Reason = 8
	// Recoded: the records are equal, their batch was written anew.
	Recoded Reason = 9
	// Split: a batch above the target's limit was written as several.
	Split Reason = 10
	// Accepted: the target holds something else than the source, or what the source
	// does not hold, and an operator accepted that.
	Accepted Reason = 11
	// Doubled: in checkpoint mode, source offsets of which the target may hold a second
	// copy.
	Doubled Reason = 12
)

// ReasonBits is how many low bits of a marker's coordinator epoch hold its
// reason; the rest is its counter.
const ReasonBits = 3

// CounterLimit is the first number that no marker's counter reaches: brokers
// keep the coordinator epoch as an int32 that must not be negative.
const CounterLimit = 1 << (31 - ReasonBits)

// CoordinatorEpoch is what a filler marker carries: the counter, in
// [0, CounterLimit), above the reason, which must be InMarker (L1).
func CoordinatorEpoch(counter int32, r Reason) int32 { return counter<<ReasonBits | int32(r) }

// SplitEpoch is the inverse of CoordinatorEpoch.
func SplitEpoch(epoch int32) (counter int32, r Reason) {
	return epoch >> ReasonBits, Reason(epoch & (1<<ReasonBits - 1))
}

var names = map[Reason]string{None: "none", Marker: "marker", Aborted: "aborted", Compacted: "compacted",
	Retention: "retention", Padded: "padded", Recoded: "recoded", Split: "split",
	Accepted: "accepted", Doubled: "doubled"}

// String returns the reason's name as it stands in reports and metrics.
func (r Reason) String() string {
	if n, ok := names[r]; ok {
		return n
	}
	return fmt.Sprintf("reason-%d", uint8(r))
}

// InMarker reports whether a marker can carry the reason (L1).
func (r Reason) InMarker() bool { return r < 1<<ReasonBits }

// Run is a stretch of neighbouring offsets with one reason.
type Run struct {
	// Count of offsets, at least 1.
	Count  int64
	Reason Reason
}

// Range is the offsets [From, End) of a partition with one reason.
type Range struct {
	From, End int64
	Reason    Reason
}
