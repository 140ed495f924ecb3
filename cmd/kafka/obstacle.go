package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/linker/state"
)

// Cause is what exactly stands between klink and a cluster. Higher ones say
// more: of several brokers' answers the highest is reported.
type Cause int

// The causes.
const (
	// GivenUp: klink itself did not wait for an answer, as it was stopped.
	GivenUp Cause = iota + 1
	// Other: an error that nobody foresaw.
	Other
	// TimedOut: no answer in time.
	TimedOut
	// NoRoute: the network has no way to the host.
	NoRoute
	// NoSuchHost: the name cannot be looked up.
	NoSuchHost
	// Refused: the host answers, and nothing listens on the port.
	Refused
	// ClosedAtOnce: something listens and hangs up at the first request.
	ClosedAtOnce
	// NotKafka: something listens and answers with other bytes.
	NotKafka
	// TLSWanted: the port wants TLS and klink speaks plaintext.
	TLSWanted
	// NotTLS: klink wants TLS and the port does not speak it.
	NotTLS
	// HandshakeFailed: TLS fails in another way.
	HandshakeFailed
	// CertificateRefused: the cluster does not take klink's certificate, or wants
	// one.
	CertificateRefused
	// CertificateExpired: the broker's certificate is not valid now.
	CertificateExpired
	// WrongName: the broker's certificate is for another name.
	WrongName
	// UnknownAuthority: the broker's certificate is signed by nobody klink trusts.
	UnknownAuthority
	// SecretUnusable: klink's own password, token, key or certificate cannot be
	// read.
	SecretUnusable
	// MechanismRefused: the cluster does not offer the SASL mechanism.
	MechanismRefused
	// LoginWanted: the cluster wants a login and klink has none configured.
	LoginWanted
	// LoginUnwanted: klink has a login configured, and the listener takes none.
	LoginUnwanted
	// LoginRefused: wrong user name, password or token.
	LoginRefused
	// Forbidden: logged in, and a right is missing.
	Forbidden
)

type aboutCause struct {
	reason state.Reason
	text   string
	hint   string
}

var causes = map[Cause]aboutCause{
	GivenUp:            {state.Unreachable, "stopped before it answered", ""},
	Other:              {state.Unreachable, "no usable answer", ""},
	TimedOut:           {state.Unreachable, "no answer in time", "check address, port and firewalls, and that the broker is not overloaded"},
	NoRoute:            {state.Unreachable, "no route to the host", "check the address and the network"},
	NoSuchHost:         {state.Unreachable, "the host name is not known", "check the spelling and DNS"},
	Refused:            {state.Unreachable, "nothing listens on that port", "check the port, and that the broker runs"},
	ClosedAtOnce:       {state.Unreachable, "the connection is closed at the first request", "the listener may want TLS (tls.enabled) or another login (sasl), or be no Kafka listener"},
	NotKafka:           {state.Unreachable, "the answer is not Kafka's", "check the port: it may belong to another service"},
	TLSWanted:          {state.Authentication, "the port wants TLS", "set tls.enabled: true, or use the plaintext listener's port"},
	NotTLS:             {state.Authentication, "the port does not speak TLS", "set tls.enabled: false, or use the TLS listener's port"},
	HandshakeFailed:    {state.Authentication, "the TLS handshake fails", "check TLS versions and certificates on both sides"},
	CertificateRefused: {state.Authentication, "the cluster refuses klink's certificate, or wants one", "set tls.cert_file and tls.key_file to a certificate that the cluster trusts"},
	CertificateExpired: {state.Authentication, "the broker's certificate is not valid now", "renew it, and check both clocks"},
	WrongName:          {state.Authentication, "the broker's certificate is for another name", "use a name that it carries in brokers, or set tls.server_name"},
	UnknownAuthority:   {state.Authentication, "the broker's certificate is signed by an authority klink does not know", "set tls.ca_file to that authority's certificate"},
	SecretUnusable:     {state.Authentication, "klink's own secret cannot be read", "make the named file or variable readable; klink reads it again at each login"},
	MechanismRefused:   {state.Authentication, "the cluster does not offer this SASL mechanism", "set sasl.mechanism to one that the listener has enabled"},
	LoginWanted:        {state.Authentication, "the cluster wants a login", "set sasl.mechanism, and user name and password or a token"},
	LoginUnwanted:      {state.Authentication, "the listener takes no login", "take sasl out of this cluster's settings, or use the port of a listener with SASL"},
	LoginRefused:       {state.Authentication, "the login is refused", "check user name and password, or the token; klink reads them again at each login"},
	Forbidden:          {state.NoPermission, "a right is missing", "grant it to klink's principal"},
}

// Obstacle says why a cluster cannot be used. It is an error.
type Obstacle struct {
	Cause Cause
	// Reason is the state's reason that shows for it.
	Reason state.Reason
	// Broker is the address asked, or "".
	Broker string
	// Text says what it is, Hint what to do; Hint may be "".
	Text, Hint string
	Err        error
}

// Error says where, what, and the underlying error.
func (o *Obstacle) Error() string {
	s := o.Text
	if o.Broker != "" {
		s = o.Broker + ": " + s
	}
	if o.Err != nil {
		s += fmt.Sprintf(" (%v)", o.Err)
	}
	return s
}

// Unwrap returns the underlying error.
func (o *Obstacle) Unwrap() error { return o.Err }

// Classify tells what an error of any client of this package means. It returns
// nil for nil.
func Classify(err error) *Obstacle {
	if err == nil {
		return nil
	}
	var known *Obstacle
	if errors.As(err, &known) {
		return known
	}
	return newObstacle(cause(err), err)
}

func newObstacle(c Cause, err error) *Obstacle {
	a := causes[c]
	return &Obstacle{Cause: c, Reason: a.reason, Text: a.text, Hint: a.hint, Err: err}
}

// cause goes from what is certain to what is a guess.
func cause(err error) Cause {
	var secret *config.SecretError
	var handshake *HandshakeError
	switch {
	case errors.As(err, &secret):
		return SecretUnusable
	case isAny(err, kerr.SaslAuthenticationFailed):
		return LoginRefused
	case isAny(err, kerr.UnsupportedSaslMechanism):
		return MechanismRefused
	case isAny(err, kerr.IllegalSaslState): // the answer of a listener without SASL to a handshake
		return LoginUnwanted
	case isAny(err, kerr.ClusterAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.DelegationTokenAuthorizationFailed):
		return Forbidden
	}
	if c := certificateCause(err); c != 0 {
		return c
	}
	if errors.As(err, &handshake) {
		return handshakeCause(handshake.Err)
	}
	return networkCause(err)
}

func certificateCause(err error) Cause {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var op *net.OpError
	switch {
	case errors.As(err, &authority):
		return UnknownAuthority
	case errors.As(err, &name):
		return WrongName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return CertificateExpired
	case errors.As(err, &invalid):
		return UnknownAuthority
	case errors.As(err, &op) && op.Op == "remote error":
		// crypto/tls reports an alert of the other side so. With TLS 1.3 the refusal
		// of a client certificate comes only with the first read after the handshake.
		return CertificateRefused
	default:
		return 0
	}
}

func handshakeCause(err error) Cause {
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		return NotTLS
	case isTimeout(err):
		return TimedOut
	case isAny(err, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE):
		// A plaintext listener of Kafka takes the first TLS bytes for a huge length
		// and hangs up.
		return NotTLS
	default:
		return HandshakeFailed
	}
}

func networkCause(err error) Cause {
	var dns *net.DNSError
	var first *kgo.ErrFirstReadEOF
	switch {
	case errors.As(err, &dns):
		return NoSuchHost
	case isAny(err, syscall.ECONNREFUSED):
		return Refused
	case isAny(err, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN):
		return NoRoute
	case isTimeout(err):
		return TimedOut
	case errors.As(err, &first), isAny(err, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed):
		return ClosedAtOnce
	case isAny(err, context.Canceled):
		return GivenUp
	default:
		return Other
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return isAny(err, context.DeadlineExceeded, os.ErrDeadlineExceeded, kerr.RequestTimedOut) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
