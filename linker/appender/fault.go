package appender

import (
	"errors"
	"fmt"
	"strings"

	"klink/linker/state"
)

// Errors inside a Fault, beside kerr's and those of the network.
var (
	// ErrStopped: the appender's Run has ended.
	ErrStopped = errors.New("appender is stopped")
	// ErrBusy: the partition has an append under way; a fault of the caller.
	ErrBusy = errors.New("partition has an append under way")
	// ErrPredecessor: the append that this one was to follow did not succeed.
	ErrPredecessor = errors.New("the batch before it was not appended")
	// ErrBadBatch: the bytes are not one patched v2 data batch.
	ErrBadBatch = errors.New("not one record batch ready to be produced")
	// ErrTopicID: the topic of that name has another id.
	ErrTopicID = errors.New("topic id is not the expected one")
	// ErrNoLeader: the partition has no leader.
	ErrNoLeader = errors.New("partition has no leader")
	// ErrNoAnswer: the broker's answer does not mention the partition, or makes
	// no sense for it.
	ErrNoAnswer = errors.New("broker gave no usable answer for the partition")
	// ErrOffset: the answer's base offset is not the expected one.
	ErrOffset = errors.New("base offset is not the expected one")
	// ErrUnsupported: the broker does not know the request.
	ErrUnsupported = errors.New("broker does not support the request")
)

// Fault is the error of everything in this package.
type Fault struct {
	// Op is the act that failed: "append", "read log end", …
	Op     string
	Target Target
	// Broker is who was asked, -1 where nobody was.
	Broker int32
	// Reason is what status should show, "" where the fault is no state of the
	// cluster.
	Reason state.Reason
	// Right is the operation that is missing where Reason is NoPermission: on the
	// topic, IdempotentWrite and "Alter (or ClusterAction)" on the cluster.
	Right string
	// Detail is the broker's own text, if it sent one.
	Detail string
	Err    error
}

func (f *Fault) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, %s[%d]", f.Op, f.Target.Topic, f.Target.Partition)
	if f.Broker >= 0 {
		fmt.Fprintf(&s, " at broker %d", f.Broker)
	}
	fmt.Fprintf(&s, ": %v", f.Err)
	if f.Right != "" {
		on := "topic " + f.Target.Topic
		switch f.Right {
		case rightIdempotentWrite:
			on = "the cluster, or a broker from 2.8 on"
		case rightAlterCluster:
			on = "the cluster"
		}
		fmt.Fprintf(&s, " (missing right: %s on %s)", f.Right, on)
	}
	if f.Detail != "" {
		fmt.Fprintf(&s, " (broker says: %s)", f.Detail)
	}
	return s.String()
}

func (f *Fault) Unwrap() error { return f.Err }

// maxDetail keeps a broker's text from flooding status and logs.
const maxDetail = 300

func shorten(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return strings.ToValidUTF8(s[:maxDetail], "") + "…"
}
