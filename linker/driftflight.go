package linker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/drift"
	"klink/linker/state"
	"klink/translate/exact"
)

// ship hands one batch to the appender once its runs are on record; see send.
func (p *partition) ship(ctx, hard context.Context, f flight, b []byte) *stop {
	h, err := batch.ParseHeader(b)
	if err != nil {
		return halt(state.Corrupt, "batch of source offset %d: %v", p.drift.sent, err)
	}
	if err := batch.Patch(b, batch.Fields{Identity: p.identity, BaseSequence: p.seq}); err != nil {
		return halt(state.Corrupt, "batch of source offset %d: %v", p.drift.sent, err)
	}
	if s := p.ready(hard); s != nil {
		return s
	}
	if s := p.lookForOwn(ctx, h.MaxTimestamp); s != nil {
		return s
	}
	if !p.drift.onRecord {
		if err := p.putMap(ctx); err != nil {
			return p.unmapped(err)
		}
	}
	p.launch(hard, f, b, h)
	p.lastTimestamp = max(p.lastTimestamp, h.MaxTimestamp)
	p.drift.sent, p.drift.plan = f.srcEnd, behind(p.drift.plan, int64(h.Count))
	p.drift.shipped++
	return nil
}

// behind is what is left of spans without their first n records.
func behind(spans []drift.Span, n int64) []drift.Span {
	for n > 0 && len(spans) > 0 {
		if spans[0].Count > n {
			return append([]drift.Span{{Src: spans[0].Src + n, Count: spans[0].Count - n}}, spans[1:]...)
		}
		n -= spans[0].Count
		spans = spans[1:]
	}
	return spans
}

// landDrift settles the first flight by its result. Where others wrote in between it
// lies higher than expected, and what is behind it will too.
func (p *partition) landDrift(hard context.Context, r appender.Result) *stop {
	f := &p.flights[0]
	count := f.end - f.base
	p.noted(r.Outcome)
	landed := r.Outcome == appender.Appended || r.Outcome == appender.Misplaced
	if r.Outcome == appender.NotSent && errors.Is(r.Err, appender.ErrPredecessor) && !p.drift.ending {
		return p.sendAgain(hard)
	}
	if !landed || r.Base < f.base {
		raw, size, base := f.raw, f.bytes, f.base
		p.drop()
		if landed {
			return reprobe("append expected at target offset %d: answered %d", base, r.Base)
		}
		s := onAppend(r, base, count)
		if s.reason == state.TooLarge {
			s.detail = fmt.Sprintf("the batch at target offsets %d to %d takes %d bytes: %s", base, base+count-1, size, s.detail)
		}
		return p.findGuilty(s, raw)
	}
	defer p.drop()
	p.shift(r.Base - f.base)
	if s := p.mapped(f); s != nil {
		return s
	}
	p.next, p.remembered, p.drift.next, p.drift.scanned = f.end, true, f.srcEnd, f.end
	p.confirmed, p.confirmedAt = p.next, time.Now()
	p.shown.sawTarget(feed.Unknown, p.next, p.confirmedAt)
	p.gaps.doubt = false
	if r.Retimed {
		return halt(state.Diverged, "the target gave its own time to offsets %d to %d: its message.timestamp.type is LogAppendTime", f.base, f.end-1)
	}
	took := p.confirmedAt.Sub(f.began)
	p.count.appended(p.src, &p.tally, *f, len(p.flights) == 1, took)
	if took > mostFlights*slow && p.memory.Contended() {
		return reprobe("the target takes over %s an append while others wait for memory: read again later", slow)
	}
	return nil
}

// shift moves what is under way, the first flight on, by what others wrote before it.
func (p *partition) shift(by int64) {
	if by == 0 {
		return
	}
	for i := range p.flights {
		p.flights[i].base, p.flights[i].end = p.flights[i].base+by, p.flights[i].end+by
	}
	p.sent += by
	p.drift.onRecord = false
}

// mapped enters the copies of a flight.
func (p *partition) mapped(f *flight) *stop {
	dst, seq := f.base, p.seqLanded()
	for _, s := range f.spans {
		r := exact.Run{Src: s.Src, Dst: dst, Count: s.Count, Seq: seq}
		if err := p.drift.copies.landed(r); err != nil {
			return halt(state.Corrupt, "copies of source offset %d at target offset %d: %v", s.Src, dst, err)
		}
		dst, seq = r.DstEnd(), r.SeqEnd()
	}
	p.drift.copies.passed(f.srcEnd)
	return nil
}

// sendAgain sends the first flight, which came back unsent because the one before it
// lies where it was not expected. It is the only one then.
func (p *partition) sendAgain(hard context.Context) *stop {
	if !p.drift.onRecord {
		if err := p.putMap(hard); err != nil {
			p.drop()
			return p.unmapped(err)
		}
	}
	f := &p.flights[0]
	f.pending = p.target.Begin(hard, p.dst, appender.Batch{Bytes: f.batch, Expect: f.base, Follow: appender.Last})
	return nil
}

// lookForOwn makes sure before a batch is sent, of which newest is the time of the
// newest record, where the target may have forgotten this producer and would take any
// sequence, that nobody else of the link appends, and that nothing of it
// came that is not known of (K6).
func (p *partition) lookForOwn(ctx context.Context, newest int64) *stop {
	if now := time.Now(); !p.unguarded(now) && !p.opens(newest, now) {
		return nil
	}
	if s := p.mayAppend(ctx); s != nil {
		return s
	}
	if time.Since(p.confirmedAt) < freshness && p.drift.scanned == p.next {
		return nil
	}
	dst, s := p.readableBounds(ctx)
	if s != nil {
		return s
	}
	if dst.LogEnd < p.next {
		return reprobe("the target's log end is %d, was %d", dst.LogEnd, p.next)
	}
	own, s := p.scanOwn(ctx, p.drift.scanned, dst.LogEnd)
	if s != nil {
		return s
	}
	for _, b := range own {
		if b.Base+b.Count > p.drift.scanned {
			return reprobe("a copy stands at target offset %d that this process did not send", b.Base)
		}
	}
	p.foreignUpTo(dst.LogEnd)
	p.drift.scanned, p.confirmedAt = dst.LogEnd, time.Now()
	return nil
}
