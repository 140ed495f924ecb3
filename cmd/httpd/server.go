package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"klink/linker/state"
)

const (
	// reportTimeout bounds waiting for a report. Reports are made from memory, so
	// one that takes longer means a stuck lock.
	reportTimeout = 2 * time.Second
	// readTimeout and writeTimeout free connections of peers that hang.
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	// closeTimeout bounds answering what is under way at the end.
	closeTimeout = time.Second
)

// Options are what the service shows.
type Options struct {
	// Listen is host:port; port 0 takes a free one.
	Listen  string
	Version string
	// Report returns the state of all links, from memory.
	Report func() state.Report
	// Alive returns an error while a loop is stuck; nil means that a report in
	// time is proof enough.
	Alive func() error
	// Metrics serves /metrics.
	Metrics http.Handler
}

// Server is the HTTP service.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// ListenError says that the address cannot be listened on.
type ListenError struct {
	Listen string
	Err    error
}

// Error names the address and the cause.
func (e *ListenError) Error() string {
	var op *net.OpError
	cause := e.Err
	if errors.As(e.Err, &op) {
		cause = op.Err
	}
	return fmt.Sprintf("http.listen: cannot listen on %s: %v; choose another address, or \"\" to switch the service off", e.Listen, cause)
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

// New listens; the error is a *ListenError. Requests wait until Run.
func New(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, &ListenError{Listen: o.Listen, Err: err}
	}
	return &Server{listener: l, http: &http.Server{
		Handler:           Handler(o),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}}, nil
}

// Addr returns the address listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends, answers what is under way, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1) // so that the server ends when Run left first
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.http.Shutdown(closing); err != nil {
		s.http.Close()
	}
	<-served
	return nil
}

// Close gives the address back where Run was never called.
func (s *Server) Close() error { return s.listener.Close() }
