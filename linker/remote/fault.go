package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/state"
)

// Fault is an obstacle at a cluster. All are remote in the sense of the state
// table: trying again later is right.
type Fault struct {
	Op     string
	Reason state.Reason
	// Right is the missing right for NO_PERMISSION, as "Operation on resource".
	Right string
	Err   error
}

// Error says what was tried and what stood in the way.
func (f *Fault) Error() string {
	if f.Right != "" {
		return fmt.Sprintf("%s: missing right: %s: %v", f.Op, f.Right, f.Err)
	}
	return fmt.Sprintf("%s: %v", f.Op, f.Err)
}

// Unwrap returns the underlying error.
func (f *Fault) Unwrap() error { return f.Err }

// Classify turns what a client or an error code gave into a *Fault; right is the
// right that op needs. A stop of the caller, nil, and what is a *Fault already
// stay what they are.
func Classify(op, right string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var own *Fault
	if errors.As(err, &own) {
		return err
	}
	f := &Fault{Op: op, Reason: ReasonOf(err), Err: err}
	if f.Reason == state.NoPermission {
		f.Right = right
	}
	return f
}

// ReasonOf gives the reason for an error; TOPIC_REFUSED for answers of a broker
// that are about the request itself, and UNREACHABLE where none was understood.
func ReasonOf(err error) state.Reason {
	for _, c := range []struct {
		err    error
		reason state.Reason
	}{
		{kerr.TopicAuthorizationFailed, state.NoPermission},
		{kerr.ClusterAuthorizationFailed, state.NoPermission},
		{kerr.GroupAuthorizationFailed, state.NoPermission},
		{kerr.SaslAuthenticationFailed, state.Authentication},
		{kerr.UnsupportedSaslMechanism, state.Authentication},
		{kerr.IllegalSaslState, state.Authentication},
		{kerr.KafkaStorageError, state.StorageError},
		{kerr.NotEnoughReplicas, state.NotEnoughReplicas},
		{kerr.NotEnoughReplicasAfterAppend, state.NotEnoughReplicas},
		{kerr.LeaderNotAvailable, state.NoLeader},
		{kerr.NotLeaderForPartition, state.NoLeader},
		{kerr.InvalidReplicationFactor, state.TooFewBrokers},
		{kerr.RequestTimedOut, state.Unreachable},
		{kerr.UnknownTopicOrPartition, state.TopicMissing},
		{kerr.UnknownTopicID, state.TopicMissing},
	} {
		if errors.Is(err, c.err) {
			return c.reason
		}
	}
	var (
		cert   *tls.CertificateVerificationError
		alert  tls.AlertError
		record tls.RecordHeaderError
		broker *kerr.Error
	)
	switch {
	case errors.As(err, &cert), errors.As(err, &alert), errors.As(err, &record):
		return state.Authentication
	case errors.As(err, &broker):
		return state.TopicRefused
	default:
		// Refused and cut connections, names that do not resolve, time-outs:
		// kgo does not export all of these.
		return state.Unreachable
	}
}

// Right names a right the way it is granted: an operation on a resource.
func Right(operation, kind, name string) string {
	return operation + " on " + kind + " " + name
}

// WithMessage keeps the broker's own words beside its error code.
func WithMessage(err error, msg *string) error {
	if err == nil || msg == nil || *msg == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *msg)
}
