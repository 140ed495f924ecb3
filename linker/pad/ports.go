package pad

import (
	"context"
	"time"

	"klink/linker/state"
)

// Ports is what padding needs of the target partition, of the control topic and
// of the lease. Calls never overlap, and must end in bounded time. An error that
// is a *Fault keeps its reason; any other shows as UNREACHABLE.
type Ports interface {
	// Ends reads log start, high watermark and log end of the target's leader, in
	// that order and in one leader epoch.
	Ends(ctx context.Context) (Ends, error)
	// Append sends one batch of pads (batch.Pad) as one append of the link's
	// producer, never twice, and refuses where the topic is not the recorded one.
	Append(ctx context.Context, p Piece) Appended
	// Trim makes the log start at to (DeleteRecords), and returns nil once all
	// replicas that are alive have it.
	Trim(ctx context.Context, to int64) error
	// Policy reads the topic's cleanup.policy as the partition's leader knows it.
	Policy(ctx context.Context) (string, error)
	// SetPolicy sets it on the topic.
	SetPolicy(ctx context.Context, policy string) error
	// Siblings looks at what is on record of the topic's other partitions; what
	// Put wrote before, and all that was written before that, is seen.
	Siblings() Siblings
	// Put records how far the goal is and returns once that is acknowledged. With
	// an error it may have been recorded all the same.
	Put(ctx context.Context, r Record) error
	// Allowed returns until when the target may be changed, or why it may not.
	Allowed() (until time.Time, err error)
}

// Ends is what the leader says of a partition.
type Ends struct {
	Start, HighWatermark, End int64
	LeaderEpoch               int32
}

// Outcome is what became of an Append.
type Outcome int8

// The outcomes.
const (
	// NotSent: nothing left this process.
	NotSent Outcome = iota
	// Done: the answer has no error, whatever its base offset.
	Done
	// Refused: the broker answered and wrote nothing.
	Refused
	// Unknown: perhaps written, or later. Also a duplicate and a sequence out of
	// order: somebody with this identity wrote.
	Unknown
	// Fenced: a higher producer epoch was written. Padding cannot go on.
	Fenced
)

// Appended is what is known of an Append.
type Appended struct {
	Outcome Outcome
	// Base is the base offset of an answer without an error.
	Base int64
	// Reason and Err say why it is not Done.
	Reason state.Reason
	Err    error
}
