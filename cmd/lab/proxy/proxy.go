package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Options say where a proxy listens and what is behind it.
type Options struct {
	Listen   string // address, with port 0 for any
	Upstream string // address of the broker; may be down
	Opaque   bool   // the traffic is encrypted: no frames, no hooks, no counts
}

// Mode is what a proxy does with connections as a whole.
type Mode int

const (
	// Pass forwards everything.
	Pass Mode = iota
	// Refuse lets open connections live and refuses new ones, as a host does on
	// which nothing listens.
	Refuse
	// Blackhole forwards nothing, in neither direction, but takes connections, as
	// a firewall that drops packets does. What was sent meanwhile goes on when the
	// mode ends, as TCP would have sent it again.
	Blackhole
)

// Proxy stands in front of one broker. Its methods may be called at any time
// and from several goroutines.
type Proxy struct {
	addr   string
	opaque bool
	conns  sync.WaitGroup // accept loops and connections

	listening sync.Mutex // held while the listener is opened or closed
	hooks     hookTable

	mu       sync.Mutex // guards what is below
	closed   bool
	mode     Mode
	gate     chan struct{} // closed while traffic passes
	listener net.Listener  // nil in mode Refuse
	upstream string
	rtt      time.Duration
	limits   [2]*rate.Limiter // per direction; nil is unlimited
	open     map[*conn]struct{}
	nextConn uint64
}

// Directions of traffic, as indexes.
const (
	toBroker = iota
	toClient
)

// Listen starts a proxy in mode Pass.
func Listen(o Options) (*Proxy, error) {
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{addr: l.Addr().String(), opaque: o.Opaque, upstream: o.Upstream, listener: l, gate: make(chan struct{}), open: map[*conn]struct{}{}}
	close(p.gate)
	p.conns.Go(func() { p.accept(l) })
	return p, nil
}

// Addr is where clients connect to; it never changes.
func (p *Proxy) Addr() string { return p.addr }

// SetUpstream sends new connections to another address.
func (p *Proxy) SetUpstream(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = addr
}

// SetMode changes the mode. The error is that the proxy could not listen on its
// address again after Refuse.
func (p *Proxy) SetMode(m Mode) error {
	p.listening.Lock()
	defer p.listening.Unlock()
	if err := p.setListening(m != Refuse); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if (p.mode == Blackhole) != (m == Blackhole) {
		if m == Blackhole {
			p.gate = make(chan struct{})
		} else {
			close(p.gate)
		}
	}
	p.mode = m
	return nil
}

// setListening opens or closes the listener; the caller holds p.listening.
func (p *Proxy) setListening(on bool) error {
	p.mu.Lock()
	l, closed := p.listener, p.closed
	p.mu.Unlock()
	if on == (l != nil) || closed {
		return nil
	}
	if !on {
		p.setListener(nil)
		return l.Close()
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("proxy: listen again: %w", err)
	}
	p.setListener(l)
	p.conns.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) setListener(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
}

// SetRTT makes every byte take half of d in each direction; 0 ends that. The
// throughput of a connection is not limited by it below 16 MiB per d/2.
func (p *Proxy) SetRTT(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rtt = d
}

// SetBandwidth limits each direction of all connections together, in bytes per
// second; 0 is no limit. It holds for what is sent from now on.
func (p *Proxy) SetBandwidth(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.limits {
		p.limits[i] = nil
		if bytesPerSecond > 0 {
			p.limits[i] = rate.NewLimiter(rate.Limit(bytesPerSecond), chunkBytes)
		}
	}
}

// CutAll resets every open connection (RST on both sides) and returns how many
// there were. New ones are taken as before.
func (p *Proxy) CutAll() int {
	p.mu.Lock()
	var open []*conn
	for c := range p.open {
		open = append(open, c)
	}
	p.mu.Unlock()
	for _, c := range open {
		c.cut()
	}
	return len(open)
}

// Connections counts the open ones.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Close resets all connections and ends the proxy. A hook that blocks must be
// let go by whoever made it, or Close waits for it.
func (p *Proxy) Close() error {
	p.listening.Lock()
	defer p.listening.Unlock()
	p.mu.Lock()
	l := p.listener
	p.listener, p.closed = nil, true
	p.mu.Unlock()
	var err error
	if l != nil {
		err = l.Close()
	}
	p.CutAll()
	p.conns.Wait()
	return err
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files, most likely: let others close some
			time.Sleep(acceptPause)
			continue
		}
		ctx, end := context.WithCancel(context.Background())
		c := p.admit(client.(*net.TCPConn), ctx.Done(), end)
		if c == nil {
			end()
			reset(client.(*net.TCPConn))
			continue
		}
		p.conns.Go(func() { c.run(ctx) })
	}
}

// acceptPause keeps a failing accept from spinning.
const acceptPause = 10 * time.Millisecond

// admit registers a connection; nil once the proxy is closed.
func (p *Proxy) admit(client *net.TCPConn, done <-chan struct{}, end func()) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.nextConn++
	c := &conn{proxy: p, id: p.nextConn, client: client, done: done, end: end}
	p.open[c] = struct{}{}
	return c
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

// settings are read once per chunk, so that changes meet running connections.
type settings struct {
	gate     <-chan struct{}
	oneWay   time.Duration
	limit    *rate.Limiter
	upstream string
}

func (p *Proxy) settings(direction int) settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return settings{gate: p.gate, oneWay: p.rtt / 2, limit: p.limits[direction], upstream: p.upstream}
}
