package linker

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/semaphore"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/plan"
	"klink/linker/state"
)

// partition mirrors one partition. Its goroutine (run) owns every field that is
// not in shown (K1).
type partition struct {
	link string
	src  feed.Partition
	// srcID and dst.ID pin the topics; another id is another topic.
	srcID    feed.TopicID
	dst      appender.Target
	identity batch.Identity
	limits   plan.Limits

	source    Source
	srcReader Reader
	dstReader Reader
	target    Target
	lineage   Lineage
	records   Records
	lease     Lease
	worker    string
	memory    Memory
	turn      Turn
	compares  *semaphore.Weighted
	log       *slog.Logger
	crowd     *crowd
	count     *counters
	tally     tally
	guard     time.Duration // producer.id.expiration.ms of the target

	// next is the target's log end as last confirmed; sent the one it will have
	// once the flights have landed, and where the next batch goes; confirmed the
	// end of what was compared with the source or appended by this process,
	// Unknown before. seq and lastTimestamp go with sent.
	next, sent, confirmed int64
	flights               []flight
	remembered            bool // the broker answered for this position's producer
	seq                   int32
	lastEpoch             int32
	recorded              bool // the lineage of this partition has begun (K3)
	lastTimestamp         int64
	confirmedAt           time.Time
	follow                appender.Follow // another batch of the chunk under way follows
	gaps                  gaps
	pad                   padding
	tailAt                time.Time
	shownAt               time.Time
	bookOpen              bool
	accepting             acceptance
	begun                 bool // the beginning of the mirror is on record
	wrote                 bool // see settled
	srcAway               bool // the stream told of a fault, and of nothing since
	here                  bool // mirrored here, or was when an order came; guarded by the topic's lock

	// maxBatchBytes is the target topic's limit as last read, set from outside.
	maxBatchBytes atomic.Int64
	// moved wakes the loop: the target's log end is not where it should be. It holds
	// one, for a loop that is busy at this moment.
	moved chan sight
	shown *shown
	book  book
	// entered is the end of what the book could be told of: all below it that is no
	// copy has been entered.
	entered atomic.Int64
	// gapWay is how gaps are kept (gap_fill).
	gapWay plan.GapWay
	// unmirrorable is what happens where offsets cannot be kept; leaveOut then ends
	// the mirroring of the topic. unkeptSince is when that was first seen here.
	unmirrorable Unmirrorable
	leaveOut     func(partition int32, s *stop)
	unkeptSince  time.Time
	// drift is what a partition in checkpoint mode keeps, nil in mirror mode.
	drift *drifting
	// compacted: a cleaner may have run on the source's log, now or ever.
	compacted atomic.Bool
}

// run mirrors until ctx ends. What is in flight then is waited for as long as
// hard lives, so that a stop leaves nothing in doubt.
func (p *partition) run(ctx, hard context.Context) {
	wait := newWaits()
	for {
		before := p.next
		s := p.cycle(ctx, hard)
		p.count.tell(p.src, &p.tally)
		if ctx.Err() != nil {
			return
		}
		if p.next != before {
			wait.Reset()
			p.unkeptSince = time.Time{}
		}
		switch leave, soon := p.leaves(s, time.Now()); {
		case leave:
			p.leaveOut(p.src.Partition, s)
			return
		case soon:
			p.shown.move(s.event, s.reason, s.detail)
		default:
			p.settle(s)
		}
		pause := wait.NextBackOff()
		if s.event == state.HaltFound {
			if !s.reason.Remote() {
				return
			}
			pause = haltRetry
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// newWaits returns the pauses between cycles.
func newWaits() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = retryMin, retryMax
	b.Reset()
	return b
}

// sleep reports false when the loop is to end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// cycle is one life of a position: found, used, and given up at the first
// outcome that is not "appended where expected".
func (p *partition) cycle(ctx, hard context.Context) *stop {
	p.limits.MaxBatchBytes = int(p.maxBatchBytes.Load())
	select {
	case <-p.moved: // seen before this probe
	default:
	}
	if p.drift != nil {
		return p.driftCycle(ctx, hard)
	}
	if s := p.probe(ctx, hard); s != nil {
		return s
	}
	p.sent, p.remembered = p.next, false
	return p.drain(hard, p.mirror(ctx, hard))
}

// mirror reads from the position on and appends, until something ends it.
// Flights may be under way then.
func (p *partition) mirror(ctx, hard context.Context) *stop {
	stream := p.source.Open(feed.Start{Partition: p.src, ID: p.srcID, Next: p.next, LastEpoch: p.lastEpoch})
	defer stream.Close()
	for {
		var landed <-chan appender.Result
		if len(p.flights) > 0 {
			landed = p.flights[0].pending.Done()
		}
		var settled <-chan time.Time // a padding has to be looked after again
		if !p.pad.due.IsZero() {
			settled = time.After(time.Until(p.pad.due))
		}
		select {
		case <-ctx.Done():
			return reprobe("ended")
		case <-settled:
			if s := p.settlePadding(ctx, hard); s != nil {
				return s
			}
		case seen := <-p.moved:
			if len(p.flights) == 0 && seen.was == p.next { // else it moved on since the look began
				return reprobe("idle: the target's log end is %d, expected %d (%v)", seen.end.End, p.next, seen.end.Err)
			}
		case r := <-landed:
			if s := p.land(r); s != nil {
				return s
			}
			p.advance()
		case ev, ok := <-stream.Events:
			if s := p.take(ctx, hard, ev, ok); s != nil {
				return s
			}
		}
	}
}

// take handles one event of the stream.
func (p *partition) take(ctx, hard context.Context, ev feed.Event, ok bool) *stop {
	switch {
	case !ok:
		return reprobe("the source stream ended")
	case ev.Fault != nil:
		return p.faulted(ev.Fault)
	case ev.Chunk != nil:
		p.shownAt, p.srcAway = time.Now(), false
		p.shown.sawSource(ev.Chunk.LogStart, ev.Chunk.LastStable, ev.Chunk.HighWatermark, ev.Chunk.SeenAt)
		p.book.sawSource(ev.Chunk.LastStable, ev.Chunk.SeenAt)
		before, empty := p.sent, len(ev.Chunk.Batches) == 0
		s := p.carry(ctx, hard, ev.Chunk)
		p.keep(ev.Chunk, p.sent > before)
		if s == nil && empty {
			s = p.tail(ctx, hard, ev.Chunk)
		}
		if s != nil {
			return s
		}
		p.advance()
	}
	return nil
}

// faulted shows what the stream met; a stop is what it does not get over by itself.
func (p *partition) faulted(f *feed.Fault) *stop {
	s := onSource(f)
	if s.event == state.HaltFound {
		return s
	}
	p.settle(s) // the stream goes on trying
	p.srcAway = true
	return nil
}

// keep holds a chunk until the last batch made of it has landed, whose bytes it may
// hold (K4); one that nothing was sent of is given back.
func (p *partition) keep(c *feed.Chunk, sent bool) {
	if n := len(p.flights); n > 0 && sent {
		p.flights[n-1].chunk = c
		return
	}
	c.Release()
}

// settle brings a stop into the state and the log.
func (p *partition) settle(s *stop) {
	if s.event == "" {
		p.count.reprobed(p.src)
		p.log.Debug("look at the target again", "cause", s.detail)
		return
	}
	own := p.hint(s)
	if p.shown.moveHinted(s.event, s.reason, s.detail, own) {
		p.count.stopped(p.src, s.reason)
		hint := cmp.Or(own, s.reason.About().Hint)
		level := slog.LevelWarn
		if s.event == state.HaltFound {
			level = slog.LevelError
		}
		msg := "partition " + string(p.shown.position().State)
		// What ends by itself often befalls all partitions at once; what does not
		// is always told for each.
		if !s.reason.Remote() || p.crowd.admits(level, msg, string(s.reason), time.Now()) {
			p.log.Log(context.Background(), level, msg, "reason", s.reason, "detail", s.detail, "hint", hint)
		}
	}
}

// advance shows progress: something was appended, or nothing was left to do.
func (p *partition) advance() {
	p.count.tell(p.src, &p.tally)
	if p.drift != nil {
		p.progressed(advance{unguarded: p.unguarded(time.Now()), srcAway: p.srcAway, copied: p.drift.next})
		return
	}
	p.book.mirrored(p.next)
	p.progressed(advance{unguarded: p.unguarded(time.Now()), srcAway: p.srcAway, settling: p.pad.record.Goal > 0 && !p.pad.record.Done})
}

// progressed brings progress into the state and the log.
func (p *partition) progressed(a advance) {
	if was, now, moved := p.shown.advance(p.next, a); moved {
		msg := "partition " + string(now.State)
		if p.crowd.admits(slog.LevelInfo, msg, string(was.State), time.Now()) {
			p.log.Info(msg, "was", was.State, "target_end", p.next)
		}
	}
}
