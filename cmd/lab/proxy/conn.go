package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// dialTime bounds the way to a broker on the same machine.
const dialTime = 5 * time.Second

var errEnded = errors.New("proxy: the connection has ended")

// conn is one client connection and the one to the broker that belongs to it.
type conn struct {
	proxy  *Proxy
	id     uint64
	client *net.TCPConn

	done <-chan struct{} // closed when the connection has ended
	end  func()          // closes done

	mu      sync.Mutex // guards what is below
	server  *net.TCPConn
	pending []pending // requests that the broker has not answered yet, in order
}

// pending is a forwarded request and what was decided for its answer.
type pending struct {
	frame  Frame
	action Action
}

// run serves the connection until either side or a fault ends it.
func (c *conn) run(ctx context.Context) {
	defer c.proxy.forget(c)
	defer c.cut()
	server, err := c.dial(ctx)
	if err != nil {
		return
	}
	up, down := newPipe(c, toBroker), newPipe(c, toClient)
	var all sync.WaitGroup
	all.Go(func() {
		defer up.close()
		c.readRequests(up)
	})
	all.Go(func() {
		defer down.close()
		c.readAnswers(server, down)
	})
	all.Go(func() {
		if err := up.run(ctx, server); err != nil {
			c.cut()
		} else if !c.draining() {
			c.endOrderly()
		}
	})
	all.Go(func() {
		// The client's end must not keep the broker from a request in hand.
		if down.run(ctx, c.client) != nil && c.draining() {
			down.discard()
		}
		c.endOrderly()
	})
	all.Wait()
}

// dial connects to the broker once traffic passes.
func (c *conn) dial(ctx context.Context) (*net.TCPConn, error) {
	if err := c.awaitGate(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	server, err := new(net.Dialer).DialContext(limited, "tcp", c.proxy.settings(toBroker).upstream)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = server.(*net.TCPConn)
	if ctx.Err() != nil { // cut while we dialed: nobody else closes it
		reset(c.server)
		return nil, errEnded
	}
	return c.server, nil
}

func (c *conn) awaitGate() error {
	select {
	case <-c.proxy.settings(toBroker).gate:
		return nil
	case <-c.done:
		return errEnded
	}
}

// cut resets both sides at once. What is on its way is lost.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	reset(c.client)
	if c.server != nil {
		reset(c.server)
	}
}

// endOrderly closes both sides as a peer that is done does (FIN).
func (c *conn) endOrderly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// reset closes with RST instead of FIN. Errors are of no use: the connection
// may be closed already.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// readRequests forwards what the client sends, and acts on it.
func (c *conn) readRequests(up *pipe) {
	r := bufio.NewReaderSize(c.client, chunkBytes)
	if c.proxy.opaque {
		copyChunks(r, up)
		return
	}
	for {
		frame, head, rest, err := readRequestHead(r)
		if errors.Is(err, errNotKafka) {
			c.cut()
		}
		if err != nil || c.awaitGate() != nil {
			return
		}
		frame.Conn, frame.Client = c.id, c.client.RemoteAddr().String()
		frame.Nth = c.proxy.hooks.count(frame.Key)
		hooks := c.proxy.hooks.matching(&c.proxy.hooks.request, frame.Key)
		if len(hooks) == 0 {
			c.expect(pending{frame: frame})
			if !up.send(head) || !copyBody(r, up, rest) {
				return
			}
			continue
		}
		whole := make([]byte, len(head)+rest)
		copy(whole, head)
		if _, err := io.ReadFull(r, whole[len(head):]); err != nil {
			return
		}
		frame.body, frame.ClientID = whole[4:], clientID(whole[len(head):])
		if !c.act(decide(hooks, frame), frame, whole, up) {
			return
		}
	}
}

// act carries out what was decided for a request; false when it was the
// connection's last.
func (c *conn) act(action Action, frame Frame, whole []byte, up *pipe) bool {
	switch action {
	case CutBefore:
		c.cut()
		return false
	case Swallow:
		_, _ = io.Copy(io.Discard, c.client) // until it ends
		return false
	}
	frame.body = nil
	c.expect(pending{frame: frame, action: action})
	if !sendAll(up, whole) {
		return false
	}
	if action == CutSent {
		reset(c.client) // readAnswers ends the rest when the broker has answered
		return false
	}
	return true
}

// expect notes a request before it is forwarded, since the answer may be quick.
func (c *conn) expect(p pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, p)
}

// draining says whether a request is out whose answer is waited for although
// the client is gone (CutSent).
func (c *conn) draining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		if p.action == CutSent {
			return true
		}
	}
	return false
}

// answered finds the request of an answer. Brokers answer a connection's
// requests in order; those before it have none (produce with acks 0).
func (c *conn) answered(correlationID int32) (pending, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.pending {
		if p.frame.CorrelationID == correlationID {
			c.pending = c.pending[i+1:]
			return p, true
		}
	}
	return pending{}, false
}

// readAnswers forwards what the broker sends, and acts on it.
func (c *conn) readAnswers(server net.Conn, down *pipe) {
	r := bufio.NewReaderSize(server, chunkBytes)
	if c.proxy.opaque {
		copyChunks(r, down)
		return
	}
	for {
		correlationID, head, rest, err := readAnswerHead(r)
		if err != nil {
			if errors.Is(err, errNotKafka) {
				c.cut()
			}
			return
		}
		p, known := c.answered(correlationID)
		if known && p.action == Forward {
			if head, rest, err = c.judge(&p, head, rest, r); err != nil {
				return
			}
		}
		switch p.action {
		case Forward, CutAfter:
			if !sendAll(down, head) || !copyBody(r, down, rest) {
				return
			}
			if p.action == CutAfter {
				down.cutWhenDone()
				<-c.done
				return
			}
		case Mute:
			_, _ = io.Copy(io.Discard, server) // until it ends
			return
		default:
			down.cutWhenDone() // after the answers before this one (X2)
			<-c.done
			return
		}
	}
}

// judge asks the hooks about an answer, which is read to its end if there are
// any. It returns what of the answer has been read, and how much has not.
func (c *conn) judge(p *pending, head []byte, rest int, r io.Reader) ([]byte, int, error) {
	hooks := c.proxy.hooks.matching(&c.proxy.hooks.answer, p.frame.Key)
	if len(hooks) == 0 {
		return head, rest, nil
	}
	whole := make([]byte, len(head)+rest)
	copy(whole, head)
	if _, err := io.ReadFull(r, whole[len(head):]); err != nil {
		return nil, 0, err
	}
	p.frame.answer = whole[4:]
	p.action = decide(hooks, p.frame)
	return whole, 0, nil
}

// sendAll queues b, which it keeps, in chunks.
func sendAll(to *pipe, b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), chunkBytes)
		if !to.send(b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// copyBody forwards n bytes; false when the connection has ended.
func copyBody(r io.Reader, to *pipe, n int) bool {
	for n > 0 {
		b := make([]byte, min(n, chunkBytes))
		if _, err := io.ReadFull(r, b); err != nil {
			return false
		}
		if !to.send(b) {
			return false
		}
		n -= len(b)
	}
	return true
}

// copyChunks forwards whatever comes.
func copyChunks(r io.Reader, to *pipe) {
	b := make([]byte, chunkBytes)
	for {
		n, err := r.Read(b)
		if n > 0 && !to.send(append([]byte(nil), b[:n]...)) {
			return
		}
		if err != nil {
			return
		}
	}
}
