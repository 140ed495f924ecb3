package feed

import "fmt"

// Kind tells what stands in the way of reading a partition.
type Kind int

// The kinds of faults. Those marked (remote) are temporary: the reader goes on
// trying by itself and tells of the end by delivering chunks again.
const (
	// Unreachable: no answer from the leader or from any broker (remote).
	Unreachable Kind = iota + 1
	// Authentication: the cluster refused the login (remote).
	Authentication
	// Unauthorized: a right is missing (remote).
	Unauthorized
	// Storage: the broker cannot read its disk (remote).
	Storage
	// NoLeader: the partition has no leader at the moment (remote).
	NoLeader
	// Gone: the topic does not exist any more.
	Gone
	// Recreated: a topic of the same name with another id stands there now.
	Recreated
	// Overrun: the source's log start lies above the wanted offset.
	Overrun
	// Diverged: the source's log has another history below the wanted offset
	// (DivergingEpoch), or ends below it for good.
	Diverged
	// Corrupt: the bytes do not hold together (lengths, CRC).
	Corrupt
	// Unexpected: an error nobody foresaw; the text tells.
	Unexpected
)

var kindNames = map[Kind]string{
	Unreachable: "unreachable", Authentication: "authentication", Unauthorized: "unauthorized",
	Storage: "storage", NoLeader: "no-leader", Gone: "gone", Recreated: "recreated",
	Overrun: "overrun", Diverged: "diverged", Corrupt: "corrupt", Unexpected: "unexpected",
}

// String returns the kind's name as used in logs and metrics.
func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind-%d", int(k))
}

// Temporary reports whether the fault can end without a person's doing.
func (k Kind) Temporary() bool {
	switch k {
	case Unreachable, Authentication, Unauthorized, Storage, NoLeader:
		return true
	default:
		return false
	}
}

// Fault is an obstacle to reading one partition, with the numbers a person
// needs. It is an error.
type Fault struct {
	Kind      Kind
	Partition Partition
	// Next is the offset that was wanted.
	Next int64
	// LogStart and LogEnd are what the source reported, or Unknown.
	LogStart, LogEnd int64
	// DivergingEpoch and DivergingEnd are the broker's answer for Diverged: the
	// largest epoch not above the asked one and where it ends; NoEpoch and
	// Unknown otherwise.
	DivergingEpoch int32
	DivergingEnd   int64
	// Broker is the node id asked, or -1.
	Broker int32
	// Err is the underlying error, if any.
	Err error
}

// Error says what happened and where.
func (f *Fault) Error() string {
	s := fmt.Sprintf("%s: %s at offset %d", f.Partition, f.Kind, f.Next)
	if f.LogStart != Unknown || f.LogEnd != Unknown {
		s += fmt.Sprintf(" (source log start %d, end %d)", f.LogStart, f.LogEnd)
	}
	if f.Kind == Diverged && f.DivergingEnd != Unknown {
		s += fmt.Sprintf(" (epoch %d ends at %d there)", f.DivergingEpoch, f.DivergingEnd)
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Unwrap returns the underlying error.
func (f *Fault) Unwrap() error { return f.Err }

// NewFault returns a fault with all numbers unknown.
func NewFault(kind Kind, p Partition, next int64, err error) *Fault {
	return &Fault{Kind: kind, Partition: p, Next: next, LogStart: Unknown, LogEnd: Unknown,
		DivergingEpoch: NoEpoch, DivergingEnd: Unknown, Broker: -1, Err: err}
}
