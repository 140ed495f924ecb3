package appender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/leaders"
	"klink/linker/state"
)

// everyError lists all protocol errors this version of kerr knows.
func everyError() []*kerr.Error {
	var es []*kerr.Error
	for code := int16(-1); code < 1000; code++ {
		e := kerr.TypedErrorForCode(code)
		if code == 0 || e == nil || e.Code != code {
			continue
		}
		es = append(es, e)
	}
	return es
}

// A2: what is certain is listed here once more by hand, from the broker's
// source; every other error there is must be Unknown.
func TestClassifyEveryProtocolError(t *testing.T) {
	certain := map[*kerr.Error]Outcome{
		kerr.CorruptMessage: Refused, kerr.UnknownTopicOrPartition: Refused, kerr.MessageTooLarge: Refused,
		kerr.InvalidTopicException: Refused, kerr.RecordListTooLarge: Refused, kerr.NotEnoughReplicas: Refused,
		kerr.InvalidRequiredAcks: Refused, kerr.TopicAuthorizationFailed: Refused, kerr.ClusterAuthorizationFailed: Refused,
		kerr.InvalidTimestamp: Refused, kerr.UnsupportedVersion: Refused, kerr.InvalidRequest: Refused,
		kerr.UnsupportedForMessageFormat: Refused, kerr.PolicyViolation: Refused, kerr.InvalidTxnState: Refused,
		kerr.InvalidProducerIDMapping: Refused, kerr.TransactionalIDAuthorizationFailed: Refused,
		kerr.SaslAuthenticationFailed: Refused, kerr.UnsupportedCompressionType: Refused, kerr.InvalidRecord: Refused,
		kerr.UnknownTopicID: Refused, kerr.InconsistentTopicID: Refused,
		kerr.OutOfOrderSequenceNumber: OutOfOrder, kerr.UnknownProducerID: OutOfOrder,
		kerr.DuplicateSequenceNumber: Duplicate,
		kerr.InvalidProducerEpoch:    Fenced, kerr.ProducerFenced: Fenced,
	}
	if n := len(everyError()); n < 120 {
		t.Fatalf("only %d protocol errors found", n)
	}
	for _, e := range everyError() {
		v := classify(fmt.Errorf("wrapped: %w", e), true)
		want, ok := certain[e]
		if !ok {
			want = Unknown
		}
		if v.outcome != want {
			t.Errorf("%s: %v, want %v", e.Message, v.outcome, want)
		}
		if _, listed := appendVerdicts[e]; listed != !strings.HasPrefix(v.class, "unclassified_") {
			t.Errorf("%s: class %q", e.Message, v.class)
		}
		if v.class == "" || v.outcome == Appended || v.outcome == NotSent {
			t.Errorf("%s: %+v", e.Message, v)
		}
		if (v.outcome == Refused || v.outcome == Unknown) && v.reason == "" {
			t.Errorf("%s: nothing for status to show", e.Message)
		}
		if (v.reason == state.NoPermission) != (v.right != "") {
			t.Errorf("%s: right %q", e.Message, v.right)
		}
	}
	for e := range appendVerdicts {
		if kerr.ErrorForCode(e.Code) != error(e) {
			t.Errorf("%s is no error a broker can answer", e.Message)
		}
	}
}

func TestClassifyReasons(t *testing.T) {
	for _, c := range []struct {
		err    error
		reason state.Reason
		slow   bool
		moved  bool
	}{
		{kerr.RequestTimedOut, state.NotEnoughReplicas, true, false},
		{kerr.NotEnoughReplicasAfterAppend, state.NotEnoughReplicas, true, false},
		{kerr.NotEnoughReplicas, state.NotEnoughReplicas, false, false},
		{kerr.NotLeaderForPartition, state.NoLeader, false, true},
		{kerr.KafkaStorageError, state.StorageError, false, true},
		{kerr.MessageTooLarge, state.TooLarge, false, false},
		{kerr.RecordListTooLarge, state.TooLarge, false, false},
		{kerr.CorruptMessage, state.Corrupt, false, false},
		{kerr.InvalidRecord, state.Unfillable, false, false},
		{kerr.InvalidTimestamp, state.TopicRefused, false, false},
		{kerr.UnknownTopicID, state.TargetRecreated, false, true},
		{kerr.TopicAuthorizationFailed, state.NoPermission, false, false},
		{kerr.UnknownServerError, state.TopicRefused, false, false},
		{io.EOF, state.Unreachable, true, true},
		{context.DeadlineExceeded, state.Unreachable, true, true},
		{errors.New("anything else"), state.Unreachable, true, true},
	} {
		v := classify(c.err, true)
		if v.reason != c.reason || v.slow != c.slow || v.moved != c.moved {
			t.Errorf("%v: %+v", c.err, v)
		}
	}
}

func TestClassifyNotSent(t *testing.T) {
	for _, c := range []struct {
		err    error
		reason state.Reason
	}{
		{&net.OpError{Op: "dial", Err: io.EOF}, state.Unreachable},
		{context.DeadlineExceeded, state.Unreachable},
		{fmt.Errorf("login: %w", kerr.SaslAuthenticationFailed), state.Authentication},
		{kerr.UnsupportedSaslMechanism, state.Authentication},
		{fmt.Errorf("handshake: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), state.Authentication},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, state.Authentication},
		{tls.AlertError(42), state.Authentication},
		{tls.RecordHeaderError{}, state.Authentication},
		// Even a protocol error is certain if the request never left.
		{kerr.NotLeaderForPartition, state.Unreachable},
	} {
		if v := classify(c.err, false); v.outcome != NotSent || v.reason != c.reason || v.class != "not_sent" {
			t.Errorf("%v: %+v", c.err, v)
		}
	}
}

func TestJudgeOffset(t *testing.T) {
	for _, c := range []struct {
		base, expect int64
		want         Outcome
	}{
		{0, 0, Appended}, {7, 7, Appended}, {8, 7, Misplaced}, {6, 7, Duplicate}, {0, 7, Duplicate},
		{-1, 7, Unknown}, {-1, 0, Unknown}, {1 << 40, 1<<40 - 1, Misplaced},
	} {
		if v := judgeOffset(c.base, c.expect); v.outcome != c.want {
			t.Errorf("base %d, expected %d: %v, want %v", c.base, c.expect, v.outcome, c.want)
		}
	}
}

func TestReadVerdicts(t *testing.T) {
	for _, c := range []struct {
		err    error
		reason state.Reason
		right  string
		again  bool
	}{
		{kerr.FencedLeaderEpoch, state.NoLeader, "", true},
		{kerr.UnknownLeaderEpoch, state.NoLeader, "", true},
		{kerr.NotLeaderForPartition, state.NoLeader, "", true},
		{kerr.OffsetNotAvailable, state.NoLeader, "", true},
		{ErrNoLeader, state.NoLeader, "", true},
		{fmt.Errorf("%w: %w", ErrNoLeader, leaders.ErrBroken), state.StorageError, "", true},
		{ErrNoAnswer, state.NoLeader, "", true},
		{kerr.UnknownTopicOrPartition, state.TopicMissing, "", true},
		{kerr.TopicAuthorizationFailed, state.NoPermission, "the right", false},
		{kerr.KafkaStorageError, state.StorageError, "", true},
		{ErrTopicID, state.TargetRecreated, "", true},
		{ErrUnsupported, "", "", false},
		{io.EOF, state.Unreachable, "", true},
		{context.DeadlineExceeded, state.Unreachable, "", false},
		{kerr.SaslAuthenticationFailed, state.Authentication, "", true},
	} {
		reason, right, again := readVerdict(fmt.Errorf("wrapped: %w", c.err), "the right")
		if reason != c.reason || right != c.right || again != c.again {
			t.Errorf("%v: %q %q %v", c.err, reason, right, again)
		}
	}
}

func TestFaultText(t *testing.T) {
	f := &Fault{Op: "append", Target: Target{Topic: "orders", Partition: 3}, Broker: 2, Right: rightWrite,
		Detail: "no", Err: kerr.TopicAuthorizationFailed}
	for _, part := range []string{"append, orders[3] at broker 2", "TOPIC_AUTHORIZATION_FAILED", "missing right: Write on topic orders", "broker says: no"} {
		if !strings.Contains(f.Error(), part) {
			t.Errorf("%q lacks %q", f.Error(), part)
		}
	}
	if s := shorten(strings.Repeat("ü", 400)); len(s) > maxDetail+4 {
		t.Errorf("%d bytes of detail", len(s))
	}
}
