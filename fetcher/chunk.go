package fetcher

import (
	"slices"
	"sync/atomic"
	"time"

	"klink/fetcher/feed"
)

// bundle makes the chunks of an answer and accounts for their bytes. All slices
// of an answer share one buffer, so a small chunk that is kept pins all of it.
// The buffer is therefore held until the last of its chunks is released, in full
// (B1); and once such buffers fill half the budget, chunks that share an answer
// are copied out and held one by one, so that what slow receivers pin beyond
// their own bytes is at most that half (B3).
func (f *Fetcher) bundle(parts []part, x exchange) {
	var chunks, kept int
	for i := range parts {
		if p := &parts[i]; p.err == nil && p.bytes > 0 {
			chunks++
			kept += p.bytes
		}
	}
	if chunks == 0 {
		f.budget.settle(x.reserved, 0)
		return
	}
	whole := &pin{budget: f.budget, bytes: int64(x.bytes)}
	whole.shared = chunks > 1 || kept < x.bytes/2
	apart := whole.shared && f.budget.Usage().Shared > f.budget.limit/2
	switch {
	case apart:
		f.budget.settle(x.reserved, int64(kept))
	case whole.shared:
		f.budget.share(x.reserved, int64(x.bytes))
	default:
		f.budget.settle(x.reserved, int64(x.bytes))
	}
	whole.chunks.Store(int32(chunks))
	for i := range parts {
		p := &parts[i]
		if p.err != nil || p.bytes == 0 {
			continue
		}
		c := p.makeChunk()
		held := whole
		if apart {
			c.Batches = copied(c.Batches, c.Bytes)
			held = &pin{budget: f.budget, bytes: int64(c.Bytes)}
			held.chunks.Store(1)
		}
		s := p.s
		c.OnRelease(func() {
			held.drop()
			f.released(s)
		})
		p.chunk = c
	}
}

// pin is memory that one chunk has or several share.
type pin struct {
	budget *Budget
	bytes  int64
	shared bool // its chunks may be far smaller than it is (Usage.Shared)
	chunks atomic.Int32
}

func (p *pin) drop() {
	switch {
	case p.chunks.Add(-1) > 0:
	case p.shared:
		p.budget.share(0, -p.bytes)
	default:
		p.budget.release(p.bytes)
	}
}

// copied returns the batches in a buffer of their own.
func copied(batches [][]byte, bytes int) [][]byte {
	buf := make([]byte, 0, bytes)
	for i, b := range batches {
		at := len(buf)
		buf = append(buf, b...)
		batches[i] = slices.Clip(buf[at:])
	}
	return batches
}

func (p *part) makeChunk() *feed.Chunk {
	c := &feed.Chunk{Next: p.from, Batches: p.batches, Bytes: p.bytes, LeaderEpoch: p.epoch, SeenAt: time.Now(),
		LogStart: p.resp.LogStartOffset, LastStable: p.resp.LastStableOffset, HighWatermark: p.resp.HighWatermark}
	for _, a := range p.resp.AbortedTransactions {
		c.Aborted = append(c.Aborted, feed.Aborted{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	// The broker notes the ends before it reads, so that the batches may reach
	// further; they are never beyond the ends of their own moment.
	c.LastStable, c.HighWatermark = max(c.LastStable, p.next), max(c.HighWatermark, p.next)
	return c
}

// released notes that a receiver is done with a chunk.
func (f *Fetcher) released(s *reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.out--
	f.readyLocked(s)
	if s.out <= 1 && s.home != nil && (s.ready || s.lane != nil) {
		s.home.wakeLocked() // a request that waits to read ahead must wait less, or no more
	}
}
