package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"klink/cmd/config"
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer opens connections with what the files hold at that moment (K1).
type dialer struct {
	tls   config.TLS
	dial  DialFunc
	reset bool // connections are for markers or commits (K6)
}

// HandshakeError is a failed TLS handshake on a connection that was opened.
type HandshakeError struct{ Err error }

// Error says that it was the handshake, and what went wrong.
func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Dial opens a connection to address and, where configured, does the TLS
// handshake, all within dialTimeout.
func (d dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := d.open(ctx, network, address)
	if err == nil && d.reset {
		err = resetAtEnd(conn)
	}
	if err != nil {
		return nil, err
	}
	if !d.tls.Enabled {
		return conn, nil
	}
	cfg, err := clientTLS(d.tls, address)
	if err == nil {
		secure := tls.Client(conn, cfg)
		if err = secure.HandshakeContext(ctx); err == nil {
			if d.reset {
				return abrupt{secure, conn}, nil
			}
			return secure, nil
		}
		err = &HandshakeError{Err: err}
	}
	conn.Close()
	return nil, err
}

func (d dialer) open(ctx context.Context, network, address string) (net.Conn, error) {
	if d.dial != nil {
		return d.dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// speaksTLS tries a handshake without checking any certificate, to find out
// what kind of listener stands at address.
func (d dialer) speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	d.tls = config.TLS{Enabled: true, InsecureSkipVerify: true}
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func clientTLS(t config.TLS, address string) (*tls.Config, error) {
	name := t.ServerName
	if name == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("split %q: %w", address, err)
		}
		name = host
	}
	roots, err := t.Roots()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{ServerName: name, RootCAs: roots, InsecureSkipVerify: t.InsecureSkipVerify, MinVersion: tls.VersionTLS12}
	cert, err := t.Certificate()
	if err != nil {
		return nil, err
	}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	return cfg, nil
}
