package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/state"
)

// Errors that callers branch on.
var (
	// ErrNewer: a record was written by a newer klink than this one.
	ErrNewer = errors.New("control record of a newer version")
	// ErrOwned: the target topic belongs to another link or source topic.
	ErrOwned = errors.New("target topic belongs to another mirror")
	// ErrLost: the control topic was deleted, or another stands in its place.
	ErrLost = errors.New("the control topic was deleted")
)

// NewerError names the record that this klink is too old for. It is ErrNewer.
type NewerError struct {
	Kind    Kind
	Key     string
	Version int
	// Known is the newest version that this klink understands.
	Known int
}

// Error says which record, and what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("control record %s of kind %q has version %d, this klink knows up to %d: run a newer klink",
		e.Key, e.Kind, e.Version, e.Known)
}

// Is makes errors.Is(err, ErrNewer) true.
func (e *NewerError) Is(target error) bool { return target == ErrNewer }

// OwnedError names who owns a target topic. It is ErrOwned.
type OwnedError struct {
	Target string
	// Link and SourceTopic are the owner's.
	Link, SourceTopic string
}

// Error says who owns it.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("target topic %q already mirrors %q of link %q", e.Target, e.SourceTopic, e.Link)
}

// Is makes errors.Is(err, ErrOwned) true.
func (e *OwnedError) Is(target error) bool { return target == ErrOwned }

// Fault is what stands between klink and its control topic, in the words of the
// state table. All are remote: trying again later is right.
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

// classify turns what the client returned into a Fault. right is the right that
// op needs; a stop of the caller stays what it is.
func classify(op, right string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var own *Fault
	if errors.As(err, &own) {
		return err
	}
	f := &Fault{Op: op, Reason: reasonOf(err), Err: err}
	if f.Reason == state.NoPermission {
		f.Right = right
	}
	return f
}

func reasonOf(err error) state.Reason {
	for _, c := range []struct {
		err    error
		reason state.Reason
	}{
		{kerr.TopicAuthorizationFailed, state.NoPermission},
		{kerr.ClusterAuthorizationFailed, state.NoPermission},
		{kerr.SaslAuthenticationFailed, state.Authentication},
		{kerr.UnsupportedSaslMechanism, state.Authentication},
		{kerr.IllegalSaslState, state.Authentication},
		{kerr.KafkaStorageError, state.StorageError},
		{kerr.NotEnoughReplicas, state.NotEnoughReplicas},
		// The record is in the leader's log; by C2 writing it again is fine.
		{kerr.NotEnoughReplicasAfterAppend, state.NotEnoughReplicas},
		{kerr.LeaderNotAvailable, state.NoLeader},
		{kerr.NotLeaderForPartition, state.NoLeader},
		{kerr.InvalidReplicationFactor, state.TooFewBrokers},
		{kerr.UnknownTopicOrPartition, state.TopicMissing},
		{kerr.UnknownTopicID, state.TopicMissing},
		{kerr.PolicyViolation, state.TopicRefused},
		{kerr.InvalidConfig, state.TopicRefused},
	} {
		if errors.Is(err, c.err) {
			return c.reason
		}
	}
	var (
		cert    *tls.CertificateVerificationError
		alert   tls.AlertError
		record  tls.RecordHeaderError
		broker  *kerr.Error
		network net.Error
	)
	switch {
	case errors.As(err, &cert), errors.As(err, &alert), errors.As(err, &record):
		return state.Authentication
	case errors.As(err, &broker):
		return state.ControlUnwritable
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return state.Unreachable
	default:
		return state.ControlUnwritable
	}
}
