package kafka

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"klink/cmd/config"
)

// endSeenBy dials as a role does, closes, and returns how the other side's read
// ended.
func endSeenBy(t testing.TB, r role, tlsConfig config.TLS, server *tls.Config) error {
	t.Helper()
	ended := make(chan error, 1)
	addr := serve(t, func(c net.Conn) {
		var plain io.Reader = c
		if server != nil {
			secure := tls.Server(c, server)
			if err := secure.Handshake(); err != nil {
				t.Errorf("handshake: %v", err)
			}
			plain = secure
		}
		_, err := io.Copy(io.Discard, plain)
		ended <- err
	})
	m := newMaker(Options{Link: linkTo(config.Cluster{Brokers: []string{addr}, TLS: tlsConfig})},
		config.Cluster{Brokers: []string{addr}, TLS: tlsConfig})
	conn, err := r.dialer(m.dialer).Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("a request")); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	return <-ended
}

// K6.
func TestMarkerConnectionsEndWithReset(t *testing.T) {
	a := newAuthority(t)
	_, _, pair := a.issue("127.0.0.1", time.Now().Add(time.Hour))
	server := &tls.Config{Certificates: []tls.Certificate{pair}}
	trust := config.TLS{Enabled: true, CAFile: a.file()}
	for _, r := range []role{roleMarkers, roleMarkerBulks, roleCommit} {
		if err := endSeenBy(t, r, config.TLS{}, nil); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", r, err)
		}
		if err := endSeenBy(t, r, trust, server); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s with TLS: %v", r, err)
		}
	}
	if err := endSeenBy(t, roleProduce, config.TLS{}, nil); err != nil {
		t.Errorf("%s: %v", roleProduce, err)
	}
}
