package linker

import (
	"context"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/drift"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/topics"
)

// parcel is one step with the entries it takes.
type parcel struct {
	step    plan.Step
	entries []plan.Entry
	raw     [][]byte
	// packed are the batches of an entry that had to be written anew to know what it
	// holds; those of several are made when they are sent, since they take memory.
	packed []drift.Packed
}

// gathered tells of small entries that are to go together.
func (c *parcel) gathered() bool { return c.step.Kind == plan.Recode && c.step.Entries > 1 }

// spans are the source records of a parcel.
func (c *parcel) spans() (all []drift.Span) {
	switch {
	case c.gathered():
		return drift.SpansOf(c.entries)
	case c.step.Kind != plan.Recode:
		return []drift.Span{{Src: c.step.Base, Count: c.step.End - c.step.Base}}
	}
	for _, b := range c.packed {
		all = append(all, b.Spans...)
	}
	return all
}

// driftCarry brings one chunk to the target. All of it is decided first, so that new
// runs go on record at once, and before what they describe (D2).
func (p *partition) driftCarry(ctx, hard context.Context, c *feed.Chunk) *stop {
	entries, err := plan.ReadEntries(nil, c.Batches, c.Aborted)
	if err != nil {
		return halt(state.Corrupt, "fetched at offset %d: %v", c.Next, err)
	}
	if plan.ShowsCompaction(entries) == plan.Compacted {
		p.compacted.Store(true)
		p.book.watch(true, topics.Traits{})
	}
	entries, echo := p.drift.echoes.before(p.drift.sent, entries)
	parcels, end, found := p.parcels(entries, c.Batches)
	if found == nil {
		found = echo
	}
	for i := range parcels {
		p.drift.plan = append(p.drift.plan, parcels[i].spans()...)
	}
	if p.drift.breaks() {
		p.drift.onRecord = false
	}
	for i := range parcels {
		follow := appender.Follow(i+1 < len(parcels))
		if s := p.deliver(ctx, hard, &parcels[i], follow); s != nil {
			return s
		}
		if ctx.Err() != nil {
			return reprobe("ended")
		}
		p.keepShowing(ctx)
	}
	p.passed(end)
	return found
}

// parcels decides on all entries of a chunk. end is the source offset that is reached
// with them; what stands in the way of more comes beside those before it.
func (p *partition) parcels(entries []plan.Entry, raw [][]byte) (all []parcel, end int64, found *stop) {
	end = p.drift.sent
	for len(entries) > 0 {
		step := drift.Plan(end, entries, plan.Compaction(p.compacted.Load()), p.limits)
		c := parcel{step: step, entries: entries[:step.Entries], raw: raw[:step.Entries]}
		switch {
		case step.Kind == plan.Drop:
		case step.Kind == plan.Append, step.Kind == plan.Merge, c.gathered():
			all = append(all, c)
		case step.Kind == plan.Recode:
			var err error
			if c.packed, err = p.pack(&c); err != nil {
				return all, end, recodeError(step, err)
			}
			if len(c.packed) > 0 {
				all = append(all, c)
			}
		default:
			return all, end, halt(step.Reason, "%s", step.Detail)
		}
		end = step.End
		entries, raw = entries[step.Entries:], raw[step.Entries:]
	}
	return all, end, nil
}

// pack writes the entries of a parcel anew, in the codec of the first.
func (p *partition) pack(c *parcel) ([]drift.Packed, error) {
	return drift.Pack(c.entries, c.raw, p.recodeOptions(c.raw[0], c.step.Base, batch.RepeatNone))
}

// breaks tells whether what is planned is not all of one run with what is on record,
// and takes note of where it ends.
func (d *drifting) breaks() (found bool) {
	for _, s := range d.plan {
		found = found || s.Src != d.planned
		d.planned = s.End()
	}
	return found
}

// deliver sends the batches of a parcel.
func (p *partition) deliver(ctx, hard context.Context, c *parcel, follow appender.Follow) *stop {
	if s := p.learnEpoch(ctx, c.step); s != nil {
		return s
	}
	switch {
	case c.gathered():
		return p.deliverGathered(ctx, hard, c, follow)
	case len(c.packed) > 0:
		return p.deliverPacked(ctx, hard, c, follow)
	}
	return p.deliverPlain(ctx, hard, c, follow)
}

// deliverGathered sends small entries together. Where one of them does not hold
// together each goes by itself, so that those before it are copied and it is the one
// to halt.
func (p *partition) deliverGathered(ctx, hard context.Context, c *parcel, follow appender.Follow) *stop {
	if s := p.landUntil(hard, mostFlights-1); s != nil {
		return s
	}
	if packed, err := p.pack(c); err == nil {
		whole := *c // the chunk holds on to c until all of it is sent
		whole.packed = packed
		return p.deliverPacked(ctx, hard, &whole, follow)
	}
	for i, end := 0, c.step.Base; i < len(c.entries); i++ {
		one := parcel{entries: c.entries[i : i+1], raw: c.raw[i : i+1]}
		one.step = drift.Plan(end, one.entries, plan.Compaction(p.compacted.Load()), p.limits)
		if end = one.step.End; one.step.Kind == plan.Drop {
			continue
		}
		if s := p.deliver(ctx, hard, &one, follow || appender.Follow(i+1 < len(c.entries))); s != nil {
			return s
		}
	}
	return nil
}

// deliverPacked sends what was written anew.
func (p *partition) deliverPacked(ctx, hard context.Context, c *parcel, follow appender.Follow) *stop {
	for i, b := range c.packed {
		f := flight{raw: c.raw, spans: b.Spans, srcEnd: b.Spans[len(b.Spans)-1].End()}
		p.follow = follow
		if i+1 < len(c.packed) {
			p.follow = appender.More
		} else {
			f.srcEnd = c.step.End
		}
		if s := p.ship(ctx, hard, f, b.Bytes); s != nil {
			return s
		}
	}
	return nil
}

// deliverPlain sends entries as they are, or merged.
func (p *partition) deliverPlain(ctx, hard context.Context, c *parcel, follow appender.Follow) *stop {
	for at, raw := c.step.Base, c.raw; len(raw) > 0; {
		// What is encoded needs a buffer, so wait for a free place first.
		if s := p.landUntil(hard, mostFlights-1); s != nil {
			return s
		}
		b, f, s := p.encode(c.step, raw)
		if s != nil {
			return s
		}
		raw = raw[len(f.raw):]
		h, err := batch.ParseHeader(b)
		if err != nil {
			return halt(state.Corrupt, "batch of source offset %d: %v", at, err)
		}
		p.follow = follow || appender.Follow(len(raw) > 0)
		f.spans = []drift.Span{{Src: at, Count: int64(h.Count)}}
		at += int64(h.Count)
		f.srcEnd = at
		if s := p.ship(ctx, hard, f, b); s != nil {
			return s
		}
	}
	return nil
}

// passed notes that nothing is to be copied up to a source offset behind what was
// sent.
func (p *partition) passed(end int64) {
	d := p.drift
	d.sent = max(d.sent, end)
	if n := len(p.flights); n > 0 {
		p.flights[n-1].srcEnd = max(p.flights[n-1].srcEnd, end)
		return
	}
	d.next = max(d.next, end)
	d.copies.passed(d.next)
}

// driftTail passes a hole at the end of the source's log, where a cleaner removed the
// last records; see tail.
func (p *partition) driftTail(ctx context.Context, c *feed.Chunk) *stop {
	if len(p.flights) > 0 || c.LastStable <= p.drift.sent || c.Next != p.drift.sent || time.Since(p.tailAt) < tailAgain {
		return nil
	}
	pol := plan.Policy{Gaps: plan.FillMarkers, Compaction: plan.Compaction(p.compacted.Load())}
	switch step := p.lookAlone(ctx, c, pol); step.Kind {
	case plan.Fill:
		p.passed(step.End)
	case plan.Halt:
		return halt(step.Reason, "%s", step.Detail)
	}
	return nil
}
