package linker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/drift"
	"klink/linker/fill"
	"klink/linker/ledger"
	"klink/linker/state"
)

// mostFlights is how many batches a partition has under way: the broker finds
// the second when it has answered the first, and never waits for klink. The
// second rests on the first by its sequence. So there is one alone where the
// broker may not remember what came before: the first of a position, and while
// UNGUARDED.
const mostFlights = 2

// flight is one batch that was handed to the appender and not settled yet.
type flight struct {
	pending   *appender.Pending
	base, end int64
	bytes     int
	began     time.Time
	// raw is what it was made from, to find out who broke it.
	raw [][]byte
	// why is set where it is no copy of one source batch or more (ledger).
	why ledger.Reason
	// batch is what was sent.
	batch []byte
	// spans and srcEnd tell, in checkpoint mode, which source records it holds copies
	// of, and the source offset that is reached with it.
	spans  []drift.Span
	srcEnd int64
	// scratch and chunk hold its bytes; they are given back when it is settled.
	scratch *[]byte
	chunk   *feed.Chunk
}

// scratches are buffers for merged batches.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// send hands one batch to the appender, for where the log will end once all
// that is under way has landed.
func (p *partition) send(ctx, hard context.Context, f flight, b []byte) *stop {
	h, err := batch.ParseHeader(b)
	if err != nil {
		return halt(state.Corrupt, "batch for offset %d: %v", p.sent, err)
	}
	if err := batch.Patch(b, batch.Fields{Identity: p.identity, BaseSequence: p.seq}); err != nil {
		return halt(state.Corrupt, "batch for offset %d: %v", p.sent, err)
	}
	if s := p.ready(hard); s != nil {
		return s
	}
	if s := p.lookWhileUnguarded(ctx, h.MaxTimestamp); s != nil {
		return s
	}
	p.launch(hard, f, b, h)
	p.lastTimestamp = h.MaxTimestamp
	return nil
}

// launch gives a batch to the appender, for where the log will end, behind the last
// one under way.
func (p *partition) launch(hard context.Context, f flight, b []byte, h batch.Header) {
	f.base, f.end, f.bytes, f.batch, f.began = p.sent, p.sent+int64(h.Count), len(b), b, time.Now()
	var after *appender.Pending
	if n := len(p.flights); n > 0 {
		after = p.flights[n-1].pending
	}
	f.pending = p.target.Begin(hard, p.dst, appender.Batch{Bytes: b, Expect: f.base, Follow: p.follow, After: after})
	p.flights = append(p.flights, f)
	p.sent, p.seq = f.end, appender.NextSequence(p.seq, h.Count)
}

// ready waits until another batch may be sent; see mostFlights.
func (p *partition) ready(hard context.Context) *stop {
	room := mostFlights - 1
	if !p.remembered || p.unguarded(time.Now()) {
		room = 0
	}
	return p.landUntil(hard, room)
}

// landUntil waits until at most n flights are left.
func (p *partition) landUntil(hard context.Context, n int) *stop {
	for len(p.flights) > n {
		if s := p.landed(hard, p.flights[0].pending.Wait(hard)); s != nil {
			return s
		}
	}
	return nil
}

// landed settles the first flight as the mode asks for.
func (p *partition) landed(hard context.Context, r appender.Result) *stop {
	if p.drift != nil {
		return p.landDrift(hard, r)
	}
	return p.land(r)
}

// land settles the first flight by its result.
func (p *partition) land(r appender.Result) *stop {
	f := p.flights[0]
	defer p.drop()
	count := f.end - f.base
	p.noted(r.Outcome)
	if r.Outcome != appender.Appended {
		s := onAppend(r, f.base, count)
		if s.reason == state.TooLarge {
			s.detail = fmt.Sprintf("the batch at offsets %d to %d takes %d bytes: %s", f.base, f.end-1, f.bytes, s.detail)
		}
		return p.findGuilty(s, f.raw)
	}
	p.next, p.remembered = f.end, true
	p.confirmed, p.confirmedAt = p.next, time.Now()
	p.shown.sawTarget(feed.Unknown, p.next, p.confirmedAt)
	p.gaps.trust, p.gaps.doubt = fill.Trust{Known: true, LeaderEpoch: r.Leader.Epoch}, false
	if f.why != ledger.None {
		p.book.add(ledger.Range{From: f.base, End: f.end, Reason: f.why})
	}
	p.entered.Store(p.next)
	if r.Retimed {
		return halt(state.Diverged, "the target gave its own time to offsets %d to %d: its message.timestamp.type is LogAppendTime", f.base, f.end-1)
	}
	took := p.confirmedAt.Sub(f.began)
	p.count.appended(p.src, &p.tally, f, len(p.flights) == 1, took)
	if took > mostFlights*slow && p.memory.Contended() {
		return reprobe("the target takes over %s an append while others wait for memory: read again later", slow)
	}
	return nil
}

// drop forgets the first flight and gives back what it held.
func (p *partition) drop() {
	f := p.flights[0]
	copy(p.flights, p.flights[1:])
	p.flights[len(p.flights)-1] = flight{}
	p.flights = p.flights[:len(p.flights)-1]
	if f.scratch != nil {
		scratches.Put(f.scratch)
	}
	if f.chunk != nil {
		f.chunk.Release() // K4
	}
}

// drain settles all flights when a position is given up for a cause. Those
// behind one that failed come back unsent (A8), so the first failure tells most.
func (p *partition) drain(hard context.Context, cause *stop) *stop {
	failed := false
	for len(p.flights) > 0 {
		r := p.flights[0].pending.Wait(hard)
		if failed {
			p.drop()
			continue
		}
		if s := p.landed(hard, r); s != nil {
			failed = true
			if cause == nil || cause.event == "" {
				cause = s
			}
		}
	}
	return cause
}
