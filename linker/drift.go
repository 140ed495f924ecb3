package linker

import (
	"context"
	"math"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/drift"
	"klink/linker/state"
	"klink/translate/exact"
)

// cursorEvery is how often the cursor of a partition that moves is put on record: a
// start after a crash reads the target's log from there on.
const cursorEvery = 5 * time.Second

// drifting is what a partition keeps in checkpoint mode, where the target's log end
// says nothing of how far the source was copied. The partition's next and sent are
// target offsets still. It belongs to the partition's goroutine, but for copies.
type drifting struct {
	maps   Maps
	key    MapKey
	copies copies
	// echoes came to the source from the target.
	echoes echoes
	// next is the source offset after all that landed, sent the one after what is
	// under way or decided.
	next, sent int64
	// scanned is the target offset below which all copies are known.
	scanned int64
	// plan are source records that are to be sent, in order, planned the end of them
	// on the source. onRecord: the last run on record goes on at planned.
	plan     []drift.Span
	planned  int64
	onRecord bool
	// shipped counts flights.
	shipped int
	// ending: what comes back unsent stays unsent.
	ending bool
	// start is where the target's log began when it was looked at, at startAt.
	start   int64
	startAt time.Time
	// cursor is the one on record, put at cursorAt.
	cursor   drift.Position
	cursorAt time.Time
}

func newDrifting(maps Maps, k MapKey, es echoes) *drifting {
	return &drifting{maps: maps, key: k, echoes: es}
}

// driftCycle is one life of a position in checkpoint mode; see cycle.
func (p *partition) driftCycle(ctx, hard context.Context) *stop {
	if s := p.findDrift(ctx); s != nil {
		return s
	}
	p.sent, p.remembered = p.next, false
	d := p.drift
	d.sent, d.plan, d.planned, d.onRecord, d.ending = d.next, nil, d.next, false, false
	s := p.driftMirror(ctx, hard)
	d.ending, d.plan = true, nil
	s = p.drain(hard, s)
	if ctx.Err() != nil {
		if err := p.recordDrift(hard); err != nil {
			p.log.Debug("the cursor is not recorded", "error", err) // the next start reads more of the log
		}
	}
	return s
}

// driftMirror reads from the position on and appends; see mirror.
func (p *partition) driftMirror(ctx, hard context.Context) *stop {
	stream := p.source.Open(feed.Start{Partition: p.src, ID: p.srcID, Next: p.drift.next, LastEpoch: p.lastEpoch})
	defer stream.Close()
	for {
		var landed <-chan appender.Result
		if len(p.flights) > 0 {
			landed = p.flights[0].pending.Done()
		}
		select {
		case <-ctx.Done():
			return reprobe("ended")
		case seen := <-p.moved:
			if s := p.driftSees(seen); s != nil {
				return s
			}
		case r := <-landed:
			if s := p.landDrift(hard, r); s != nil {
				return s
			}
			p.advance()
		case ev, ok := <-stream.Events:
			if s := p.driftTake(ctx, hard, ev, ok); s != nil {
				return s
			}
		}
		if s := p.keepCursor(ctx); s != nil {
			return s
		}
		if s := p.prune(ctx); s != nil {
			return s
		}
	}
}

// driftSees takes in what a look at the log end of an idle partition showed. Others
// may write there.
func (p *partition) driftSees(seen sight) *stop {
	switch {
	case len(p.flights) > 0 || seen.was != p.next: // it moved on since the look began
		return nil
	case seen.end.Err != nil || seen.end.End < p.next:
		return reprobe("idle: the target's log end is %d, was %d (%v)", seen.end.End, p.next, seen.end.Err)
	}
	p.foreignUpTo(seen.end.End)
	p.advance()
	return nil
}

// foreignUpTo notes that others wrote to the target; nothing is under way.
func (p *partition) foreignUpTo(end int64) {
	if end == p.next {
		return
	}
	p.next, p.sent, p.drift.onRecord = end, end, false
	p.confirmedAt = time.Now()
	p.shown.sawTarget(feed.Unknown, end, p.confirmedAt)
}

// driftTake handles one event of the stream; see take.
func (p *partition) driftTake(ctx, hard context.Context, ev feed.Event, ok bool) *stop {
	switch {
	case !ok:
		return reprobe("the source stream ended")
	case ev.Fault != nil:
		return p.faulted(ev.Fault)
	case ev.Chunk != nil:
		p.shownAt, p.srcAway = time.Now(), false
		p.shown.sawSource(ev.Chunk.LogStart, ev.Chunk.LastStable, ev.Chunk.HighWatermark, ev.Chunk.SeenAt)
		before, empty := p.drift.shipped, len(ev.Chunk.Batches) == 0
		s := p.driftCarry(ctx, hard, ev.Chunk)
		p.keep(ev.Chunk, p.drift.shipped > before)
		if s == nil && empty {
			s = p.driftTail(ctx, ev.Chunk)
		}
		if s != nil {
			return s
		}
		p.advance()
	}
	return nil
}

// keepCursor puts the cursor on record now and then.
func (p *partition) keepCursor(ctx context.Context) *stop {
	if time.Since(p.drift.cursorAt) < cursorEvery || p.drift.at(p.seqLanded()) == p.drift.cursor {
		return nil
	}
	if err := p.recordDrift(ctx); err != nil {
		return p.unmapped(err)
	}
	return nil
}

// unmapped is that the map cannot be put on record, without which nothing is sent.
func (p *partition) unmapped(err error) *stop {
	return targetLost(state.ControlUnwritable, "record where the copies of source offsets from %d on lie: %v", p.drift.next, err)
}

// seqLanded is the sequence after all that landed.
func (p *partition) seqLanded() int32 {
	seq := int64(p.seq)
	for _, f := range p.flights {
		seq -= f.end - f.base
	}
	return int32(seq & math.MaxInt32)
}

// at is the position behind the last copy.
func (d *drifting) at(seq int32) drift.Position {
	return drift.Position{Src: d.next, Dst: d.copies.end(d.cursor.Dst), Seq: seq}
}

// recordDrift puts the map and then the cursor on record.
func (p *partition) recordDrift(ctx context.Context) error {
	d := p.drift
	at := d.at(p.seqLanded())
	if at == d.cursor {
		return nil
	}
	if err := p.putMap(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := d.maps.PutCursor(ctx, d.key, at); err != nil {
		return err
	}
	d.cursor, d.cursorAt = at, time.Now()
	return nil
}

// putMap puts on record what landed, what is under way and what is decided, where it
// will lie unless others write in between.
func (p *partition) putMap(ctx context.Context) error {
	d := p.drift
	m := d.copies.clone()
	dst, seq := p.next, p.seqLanded()
	add := func(spans []drift.Span) (err error) {
		for _, s := range spans {
			r := exact.Run{Src: s.Src, Dst: dst, Count: s.Count, Seq: seq}
			if err = m.Add(r); err != nil {
				return err
			}
			dst, seq = r.DstEnd(), r.SeqEnd()
		}
		return nil
	}
	for _, f := range p.flights {
		dst = f.base
		if err := add(f.spans); err != nil {
			return err
		}
	}
	if err := add(d.plan); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := d.maps.PutMap(ctx, d.key, m); err != nil {
		return err
	}
	d.copies.settled()
	d.onRecord = true
	return nil
}
