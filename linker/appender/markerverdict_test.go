package appender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/state"
)

// A2: what is certain is listed here once more by hand, from the broker's
// source; every other error there is must be MarkersUnknown.
func TestClassifyMarkersEveryProtocolError(t *testing.T) {
	certain := map[*kerr.Error]MarkerOutcome{
		kerr.NotEnoughReplicas: MarkersRefused, kerr.UnknownTopicOrPartition: MarkersRefused,
		kerr.UnsupportedForMessageFormat: MarkersRefused, kerr.MessageTooLarge: MarkersRefused,
		kerr.RecordListTooLarge: MarkersRefused, kerr.ClusterAuthorizationFailed: MarkersRefused,
		kerr.SaslAuthenticationFailed: MarkersRefused, kerr.UnsupportedVersion: MarkersRefused, kerr.InvalidRequest: MarkersRefused,
		kerr.TransactionCoordinatorFenced: MarkersCoordinatorFenced,
		kerr.InvalidProducerEpoch:         MarkersProducerFenced, kerr.ProducerFenced: MarkersProducerFenced,
	}
	whole := map[*kerr.Error]bool{kerr.ClusterAuthorizationFailed: true, kerr.SaslAuthenticationFailed: true,
		kerr.UnsupportedVersion: true, kerr.InvalidRequest: true}
	for _, e := range everyError() {
		want, ok := certain[e]
		if !ok {
			want = MarkersUnknown
		}
		v := classifyMarkers(fmt.Errorf("wrapped: %w", e), 1)
		if v.outcome != want {
			t.Errorf("%s: %v, want %v", e.Message, v.outcome, want)
		}
		// Of several, nothing is certain that is about one of them.
		if want == MarkersRefused && !whole[e] {
			want = MarkersUnknown
		}
		if v := classifyMarkers(e, 2); v.outcome != want {
			t.Errorf("%s of several: %v, want %v", e.Message, v.outcome, want)
		}
		if _, listed := markerVerdicts[e]; listed != !strings.HasPrefix(v.class, "unclassified_") || v.class == "" {
			t.Errorf("%s: class %q", e.Message, v.class)
		}
		if v.outcome != MarkersCoordinatorFenced && v.reason == "" {
			t.Errorf("%s: nothing for status to show", e.Message)
		}
		if (v.reason == state.NoPermission) != (v.right != "") {
			t.Errorf("%s: right %q", e.Message, v.right)
		}
	}
}

func TestClassifyMarkersWithoutAnswer(t *testing.T) {
	for _, c := range []struct {
		err   error
		class string
		slow  bool
	}{
		{io.EOF, "cut", true}, {errors.New("anything"), "cut", true}, {context.Canceled, "given_up", false},
		{context.DeadlineExceeded, "deadline", true}, {os.ErrDeadlineExceeded, "deadline", true},
	} {
		v := classifyMarkers(fmt.Errorf("wrapped: %w", c.err), 1)
		if v.outcome != MarkersUnknown || v.class != c.class || v.slow != c.slow || !v.moved || v.reason != state.Unreachable {
			t.Errorf("%v: %+v", c.err, v)
		}
	}
	for err, reason := range map[error]state.Reason{io.EOF: state.Unreachable, kerr.SaslAuthenticationFailed: state.Authentication, ErrUnsupported: state.Unfillable} {
		if v := unsentMarkers(err); v.outcome != MarkersNotSent || v.reason != reason || v.class != classNotSent {
			t.Errorf("%v: %+v", err, v)
		}
	}
	for o := MarkersNotSent; o <= MarkersUnknown; o++ {
		if o.String() == "invalid" {
			t.Errorf("outcome %d has no name", o)
		}
	}
}
