package ownlog

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
	"klink/linker/state"
)

// Fault is what stands between klink and a topic of its own; see remote.Fault.
type Fault = remote.Fault

// ErrLost: the topic was deleted, or another stands in its place.
var ErrLost = errors.New("the topic was deleted")

// Classify is remote.Classify, but what a broker answered about the request
// itself concerns klink's own topic here and no topic of a user.
func Classify(op, right string, err error) error {
	err = remote.Classify(op, right, err)
	var f *Fault
	if errors.As(err, &f) && f.Reason == state.TopicRefused {
		f.Reason = state.ControlUnwritable
	}
	return err
}

// MayProduce asks for a producer id before a producer does: a producer that is
// refused one fails for good, also when the right is granted later. Any topic
// that may be written gives the right (KIP-679).
func (t *Log) MayProduce(ctx context.Context) error {
	op, right := "write "+t.topic, "Write on topic "+t.topic
	resp, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, t.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return Classify(op, right, err)
}
