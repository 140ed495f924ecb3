package fill

import (
	"context"
	"time"

	"klink/linker/state"
)

// Ports is what a fill needs of the target partition, of the control topic and
// of the lease. Calls never overlap.
type Ports interface {
	// Ends reads the high watermark and then the log end (OffsetForLeaderEpoch of
	// the current epoch) of the target's leader, both in one leader epoch: equal
	// means that all was replicated when the log end was read. It must end in
	// bounded time.
	Ends(ctx context.Context) (Ends, error)
	// Write sends one WriteTxnMarkers request (v1, COMMIT) for the partition with
	// these coordinator epochs, in order, to the leader, and never twice. Where
	// the leader is known to have another epoch than leaderEpoch, the topic's id
	// is not the expected one, or ctx has ended, it must be NotSent. ctx has a
	// deadline. The slice is the callee's.
	Write(ctx context.Context, leaderEpoch int32, epochs []int32) Written
	// Settle returns nil when nothing that was sent before can still be queued at
	// the leader: a request on a new connection was answered.
	Settle(ctx context.Context) error
	// Reserve records, ahead, n counters above all that were ever recorded and
	// all that the target shows for the producer, and returns the first. The
	// error is ErrSpent where fewer than n are left.
	Reserve(ctx context.Context, n int32) (first int32, err error)
	// Allowed returns until when markers may be written, or why they may not.
	Allowed() (until time.Time, err error)
}

// Ends is what the leader says of a partition.
type Ends struct {
	// LogEnd is the offset the next append gets, HighWatermark the end of what
	// all in-sync replicas have.
	LogEnd, HighWatermark int64
	LeaderEpoch           int32
	// Reason is what status should show with an error.
	Reason state.Reason
}

// Outcome is what became of a Write.
type Outcome int8

// The outcomes. Only about a single marker are Done, Refused, CoordinatorFenced
// and ProducerFenced exact; about several they say no more than that the request
// was answered, so nothing of it is still to come.
const (
	// NotSent: nothing left this process.
	NotSent Outcome = iota
	// Done: the answer has no error.
	Done
	// Refused: the broker answered and wrote nothing, such as NOT_ENOUGH_REPLICAS
	// or UNKNOWN_TOPIC_OR_PARTITION.
	Refused
	// CoordinatorFenced: TRANSACTION_COORDINATOR_FENCED, the counter was too low.
	CoordinatorFenced
	// ProducerFenced: INVALID_PRODUCER_EPOCH, the producer's epoch was raised.
	ProducerFenced
	// Unknown: perhaps written, or partly, or later. No answer, NOT_LEADER,
	// REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, and all that is not
	// understood.
	Unknown
)

var outcomeNames = [...]string{"not_sent", "done", "refused", "coordinator_fenced", "producer_fenced", "unknown"}

// String returns the outcome's name as it stands in logs and metrics.
func (o Outcome) String() string {
	if o >= 0 && int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "invalid"
}

// Written is what is known of a Write.
type Written struct {
	Outcome Outcome
	// LeaderEpoch is the one under which it was sent, -1 where it is not known.
	LeaderEpoch int32
	// Reason and Err say why it is not Done.
	Reason state.Reason
	Err    error
}
