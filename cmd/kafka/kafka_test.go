package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"klink/cmd/config"
	"klink/linker/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newCluster(t testing.TB, opts ...kfake.Opt) []string {
	t.Helper()
	return startCluster(t, opts...).ListenAddrs()
}

func startCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func secretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func linkTo(c config.Cluster) config.Link {
	l := config.DefaultLink()
	l.Name, l.Source, l.Target = "east", c, c
	return l
}

func ping(t testing.TB, c config.Cluster) error {
	t.Helper()
	s, err := OpenSource(Options{Link: linkTo(c), FetchMemory: 16 * config.MiB})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return s.Ping(ctx)
}

func wantCause(t testing.TB, err error, cause Cause, reason state.Reason) {
	t.Helper()
	var o *Obstacle
	if !errors.As(err, &o) {
		t.Fatalf("no obstacle: %v", err)
	}
	if o.Cause != cause || o.Reason != reason {
		t.Errorf("cause %d, reason %s, want %d, %s: %v", o.Cause, o.Reason, cause, reason, err)
	}
	if o.Broker == "" || o.Text == "" || (o.Hint == "" && o.Cause != Other) {
		t.Errorf("says too little: %+v", o)
	}
}

func TestPingPlaintext(t *testing.T) {
	addrs := newCluster(t)
	if err := ping(t, config.Cluster{Brokers: addrs}); err != nil {
		t.Error(err)
	}
	if err := ping(t, config.Cluster{Brokers: []string{"127.0.0.1:1", addrs[0]}}); err != nil {
		t.Errorf("one of two brokers answers: %v", err)
	}
}

func TestPingNobodyThere(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	closed.Close()
	wantCause(t, ping(t, config.Cluster{Brokers: []string{addr}}), Refused, state.Unreachable)
	wantCause(t, ping(t, config.Cluster{Brokers: []string{"no-such-host.invalid:9092"}}), NoSuchHost, state.Unreachable)
	tlsOn := config.TLS{Enabled: true, InsecureSkipVerify: true}
	wantCause(t, ping(t, config.Cluster{Brokers: []string{addr}, TLS: tlsOn}), Refused, state.Unreachable)
}

// serve answers each connection with f and returns the address.
func serve(t testing.TB, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestPingWrongService(t *testing.T) {
	web := serve(t, func(c net.Conn) {
		c.Read(make([]byte, 4))
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	wantCause(t, ping(t, config.Cluster{Brokers: []string{web}}), NotKafka, state.Unreachable)
	hangsUp := serve(t, func(c net.Conn) { c.Read(make([]byte, 4)) })
	c := config.Cluster{Brokers: []string{hangsUp}, SASL: config.SASL{Mechanism: config.MechanismPlain, Username: "u", PasswordFile: secretFile(t, "p")}}
	wantCause(t, ping(t, c), ClosedAtOnce, state.Unreachable)
}

// refuseLogins makes a cluster answer wrong passwords as a broker does: with
// SASL_AUTHENTICATION_FAILED. kfake by itself hangs up.
func refuseLogins(c *kfake.Cluster, password string) {
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		sent := string(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)
		if strings.HasSuffix(sent, "\x00"+password) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
}

// A wrong password is told from a missing login; a renewed password file is
// read without a restart (K1).
func TestPingLogin(t *testing.T) {
	cluster := startCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "klink", "hunter2"))
	refuseLogins(cluster, "hunter2")
	file := secretFile(t, "wrong\n")
	c := config.Cluster{Brokers: cluster.ListenAddrs(), SASL: config.SASL{Mechanism: config.MechanismPlain, Username: "klink", PasswordFile: file}}
	s, err := OpenSource(Options{Link: linkTo(c)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantCause(t, s.Ping(t.Context()), LoginRefused, state.Authentication)
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("after the file was renewed: %v", err)
	}
	if _, err := s.Admin.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
		t.Errorf("the long-lived client: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wantCause(t, s.Ping(t.Context()), SecretUnusable, state.Authentication)

	c.SASL = config.SASL{}
	wantCause(t, ping(t, c), LoginWanted, state.Authentication)
	c.SASL = config.SASL{Mechanism: config.MechanismOAuthBearer, TokenFile: secretFile(t, "token")}
	wantCause(t, ping(t, c), MechanismRefused, state.Authentication)
}

func TestPingScram(t *testing.T) {
	for _, m := range []config.Mechanism{config.MechanismScramSHA256, config.MechanismScramSHA512} {
		addrs := newCluster(t, kfake.EnableSASL(), kfake.Superuser(string(m), "klink", "hunter2"))
		c := config.Cluster{Brokers: addrs, SASL: config.SASL{Mechanism: m, Username: "klink", PasswordFile: secretFile(t, "hunter2\n")}}
		if err := ping(t, c); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		refusing := startCluster(t, kfake.EnableSASL(), kfake.Superuser(string(m), "klink", "hunter2"))
		refuseLogins(refusing, "nothing is right")
		c.Brokers = refusing.ListenAddrs()
		wantCause(t, ping(t, c), LoginRefused, state.Authentication)
	}
}

// TestPingLoginUnwanted: a listener without SASL answers a handshake so.
func TestPingLoginUnwanted(t *testing.T) {
	c := startCluster(t)
	c.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return resp, nil, true
	})
	login := config.SASL{Mechanism: config.MechanismPlain, Username: "klink", PasswordFile: secretFile(t, "hunter2")}
	wantCause(t, ping(t, config.Cluster{Brokers: c.ListenAddrs(), SASL: login}), LoginUnwanted, state.Authentication)
}

func TestPingTLS(t *testing.T) {
	good, other := newAuthority(t), newAuthority(t)
	_, _, pair := good.issue("127.0.0.1", time.Now().Add(time.Hour))
	addrs := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	// A plaintext listener of Kafka takes the first bytes for a length of 370 MB,
	// above socket.request.max.bytes, and hangs up.
	plain := serve(t, func(c net.Conn) { c.Read(make([]byte, 4)) })
	_, _, old := good.issue("127.0.0.1", time.Now().Add(-time.Hour))
	expired := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{old}}))

	guarded := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}), kfake.EnableSASL(), kfake.Superuser("PLAIN", "klink", "hunter2"))
	trust := config.TLS{Enabled: true, CAFile: good.file()}
	if err := ping(t, config.Cluster{Brokers: addrs, TLS: trust}); err != nil {
		t.Error(err)
	}
	if err := ping(t, config.Cluster{Brokers: addrs, TLS: config.TLS{Enabled: true, InsecureSkipVerify: true}}); err != nil {
		t.Error(err)
	}
	named := trust
	named.ServerName = "kafka.example"
	for _, c := range []struct {
		name    string
		cluster config.Cluster
		cause   Cause
	}{
		{"no login", config.Cluster{Brokers: guarded, TLS: trust}, LoginWanted},
		{"unknown authority", config.Cluster{Brokers: addrs, TLS: config.TLS{Enabled: true, CAFile: other.file()}}, UnknownAuthority},
		{"wrong name", config.Cluster{Brokers: addrs, TLS: named}, WrongName},
		{"expired", config.Cluster{Brokers: expired, TLS: trust}, CertificateExpired},
		{"plaintext to TLS", config.Cluster{Brokers: addrs}, TLSWanted},
		{"TLS to plaintext", config.Cluster{Brokers: []string{plain}, TLS: trust}, NotTLS},
	} {
		t.Run(c.name, func(t *testing.T) { wantCause(t, ping(t, c.cluster), c.cause, state.Authentication) })
	}
}

// A renewed client certificate is used at the next handshake (K1).
func TestPingClientCertificate(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	_, _, pair := a.issue("127.0.0.1", time.Now().Add(time.Hour))
	addrs := newCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()}))

	none := config.TLS{Enabled: true, CAFile: a.file()}
	wantCause(t, ping(t, config.Cluster{Brokers: addrs, TLS: none}), CertificateRefused, state.Authentication)

	with := none
	with.CertFile, with.KeyFile, _ = stranger.issue("klink", time.Now().Add(time.Hour))
	s, err := OpenSource(Options{Link: linkTo(config.Cluster{Brokers: addrs, TLS: with})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantCause(t, s.Ping(t.Context()), CertificateRefused, state.Authentication)
	certFile, keyFile, _ := a.issue("klink", time.Now().Add(time.Hour))
	for from, to := range map[string]string{certFile: with.CertFile, keyFile: with.KeyFile} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("after the certificate was renewed: %v", err)
	}
}

// A listener that takes connections and never answers is told from a closed
// port.
func TestClassifySilence(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, fmt.Errorf("dial: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded})} {
		if o := Classify(err); o.Cause != TimedOut || o.Reason != state.Unreachable {
			t.Errorf("%v: %+v", err, o)
		}
	}
	if o := Classify(&HandshakeError{Err: io.EOF}); o.Cause != NotTLS {
		t.Errorf("%+v", o)
	}
	if Classify(nil) != nil {
		t.Error("nil is an obstacle")
	}
	if o := Classify(errors.New("odd")); o.Cause != Other {
		t.Errorf("%+v", o)
	}
	known := &Obstacle{Cause: Forbidden, Reason: state.NoPermission}
	if o := Classify(fmt.Errorf("list: %w", known)); o != known {
		t.Errorf("%+v", o)
	}
}

func TestEveryCauseHasText(t *testing.T) {
	for c := GivenUp; c <= Forbidden; c++ {
		a := causes[c]
		if a.text == "" || !a.reason.Remote() {
			t.Errorf("cause %d: %+v", c, a)
		}
	}
}

func TestClientsByRole(t *testing.T) {
	addrs := newCluster(t, kfake.SeedTopics(1, "orders"))
	var log bytes.Buffer
	link := linkTo(config.Cluster{Brokers: addrs})
	link.Limits.ConnectionsPerBroker = 3
	link.Groups.Include = []string{"*"}
	o := Options{Link: link, FetchMemory: 16 * config.MiB, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	target, err := OpenTarget(o)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if len(target.Lanes) != 3 {
		t.Errorf("%d lanes", len(target.Lanes))
	}
	// A topic may be in checkpoint mode by its record alone.
	if target.Maps == nil || target.Checkpoints != nil {
		t.Errorf("of a link in mirror mode: maps %v, checkpoints %v", target.Maps, target.Checkpoints)
	}
	source, err := OpenSource(o)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if len(target.Commits) != commitConnections {
		t.Errorf("%d clients for commits", len(target.Commits))
	}
	all := slices.Concat(target.Lanes, target.Commits, []*kgo.Client{target.Slow, target.Admin, target.Control, target.Markers,
		target.MarkerBulks, target.Groups, source.Fetch, source.Short, source.Admin, source.Groups, source.Follow})
	for i, cl := range all {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = false
		if _, err := cl.Request(t.Context(), req); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("kgo is loud at info level:\n%s", &log)
	}
}

// An unreachable cluster is no reason to fail, and kgo stays silent about it.
func TestOpenDialsNothing(t *testing.T) {
	dialled := false
	o := Options{Link: linkTo(config.Cluster{Brokers: []string{"nowhere.invalid:9092"}}),
		Dial: func(context.Context, string, string) (net.Conn, error) { dialled = true; return nil, io.EOF }}
	s, err := OpenSource(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	target, err := OpenTarget(o)
	if err != nil {
		t.Fatal(err)
	}
	target.Close()
	if dialled {
		t.Error("dialled")
	}
}

// No log line, no error and no printed value holds a secret (K3).
func TestSecretsStayInside(t *testing.T) {
	const secret = "hunter2-wrong"
	cluster := startCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "klink", "other"))
	refuseLogins(cluster, "other")
	var log bytes.Buffer
	c := config.Cluster{Brokers: cluster.ListenAddrs(), SASL: config.SASL{Mechanism: config.MechanismPlain, Username: "klink", PasswordFile: secretFile(t, secret)}}
	o := Options{Link: linkTo(c), Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s, err := OpenSource(o)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Ping(t.Context())
	s.Close()
	if err == nil || log.Len() == 0 {
		t.Fatalf("error %v, log %q", err, &log)
	}
	for name, text := range map[string]string{
		"log": log.String(), "error": fmt.Sprintf("%v %+v %#v", err, err, err), "options": fmt.Sprintf("%v %+v", o, s.maker),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the secret:\n%s", name, text)
		}
	}
}
