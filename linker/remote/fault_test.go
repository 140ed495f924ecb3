package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/state"
)

func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want state.Reason
	}{
		"wrong password":     {fmt.Errorf("dial: %w", kerr.SaslAuthenticationFailed), state.Authentication},
		"unknown authority":  {&tls.CertificateVerificationError{Err: errors.New("x")}, state.Authentication},
		"plain text port":    {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, state.Authentication},
		"connection refused": {&net.OpError{Op: "dial", Err: errors.New("refused")}, state.Unreachable},
		"cut":                {io.ErrUnexpectedEOF, state.Unreachable},
		"no answer in time":  {context.DeadlineExceeded, state.Unreachable},
		"disk":               {kerr.KafkaStorageError, state.StorageError},
		"an error of Kafka":  {kerr.InvalidRequest, state.TopicRefused},
		"unforeseen":         {errors.New("x"), state.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			var f *Fault
			if err := Classify("do it", "Right", c.err); !errors.As(err, &f) || f.Reason != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %#v", err)
			}
		})
	}
	if err := Classify("do it", "", context.Canceled); err != context.Canceled {
		t.Errorf("a stop became %v", err)
	}
}
