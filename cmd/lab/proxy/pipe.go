package proxy

import (
	"context"
	"net"
	"time"
)

const (
	// chunkBytes is what is read and written at once.
	chunkBytes = 64 << 10
	// pipeChunks bounds what is on its way in one direction of a connection:
	// 16 MiB carry 640 MB/s over 25 ms.
	pipeChunks = 256
)

// chunk is some bytes on their way, or the order to reset the connection when
// all before them has arrived.
type chunk struct {
	bytes []byte
	due   time.Time
	cut   bool
}

// pipe is one direction of a connection: bytes go in at once and come out when
// they are due.
type pipe struct {
	conn      *conn
	direction int
	queue     chan chunk // size pipeChunks: see there
}

func newPipe(c *conn, direction int) *pipe {
	return &pipe{conn: c, direction: direction, queue: make(chan chunk, pipeChunks)}
}

// send queues b, which it keeps; false when the connection has ended.
func (p *pipe) send(b []byte) bool { return p.put(chunk{bytes: b}) }

// cutWhenDone queues the order to reset the connection.
func (p *pipe) cutWhenDone() { p.put(chunk{cut: true}) }

func (p *pipe) put(ch chunk) bool {
	ch.due = time.Now().Add(p.conn.proxy.settings(p.direction).oneWay)
	select {
	case p.queue <- ch:
		return true
	case <-p.conn.done:
		return false
	}
}

// close says that nothing more is sent; what is queued still arrives.
func (p *pipe) close() { close(p.queue) }

// run writes chunks to dst until the pipe is closed or the connection ends.
func (p *pipe) run(ctx context.Context, dst net.Conn) error {
	for ch := range p.queue {
		if err := p.hold(ctx, ch); err != nil {
			return err
		}
		if ch.cut {
			p.conn.cut()
			return nil
		}
		if _, err := dst.Write(ch.bytes); err != nil {
			return err
		}
	}
	return nil
}

// discard takes chunks that nobody is there for any more.
func (p *pipe) discard() {
	for ch := range p.queue {
		if ch.cut {
			p.conn.cut()
			return
		}
	}
}

// hold waits until ch may arrive: delay, gate and bandwidth.
func (p *pipe) hold(ctx context.Context, ch chunk) error {
	if wait := time.Until(ch.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := p.conn.awaitGate(); err != nil {
		return err
	}
	if limit := p.conn.proxy.settings(p.direction).limit; limit != nil {
		return limit.WaitN(ctx, len(ch.bytes))
	}
	return nil
}
