package linker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/state"
)

const (
	// trimEvery is how often log starts are compared (paced). What a source deletes is
	// told within half a second, so the target follows within five, up to ten
	// thousand partitions.
	trimEvery = 2 * time.Second
	// relookEvery is how often the target's log starts are read (paced) where nothing is
	// known to be wanting: a broker that dies within a minute of a trim, by
	// default, shows the deleted records again (log.flush.start.offset.checkpoint).
	relookEvery = 10 * time.Second
	// trimTimeout bounds a round's requests, so that a broker that hangs does not
	// hold up the partitions of the others.
	trimTimeout = 10 * time.Second
)

// Trimmer reads and moves the log starts of target partitions. Obligations:
// Trim deletes nothing at or above the offsets it is given, nor in a topic of
// another id, and its last request is sent before ctx ends.
type Trimmer interface {
	Ends(ctx context.Context, ts []appender.Target) map[appender.Target]appender.Ends
	Trim(ctx context.Context, starts map[appender.Target]int64) map[appender.Target]appender.Trimmed
}

// Holder tells whether this process may trim a target partition, and until when.
type Holder interface {
	Held(topic string, partition int32) (until time.Time, ok bool)
}

// trims makes the target's log starts follow the source's (K7). One goroutine
// uses it.
type trims struct {
	o trimOptions
	// looked is when a partition's log start was read last.
	looked map[appender.Target]time.Time
	// bars are kept by target topic, as rights and policies are.
	bars map[string]*trimBar
}

type trimOptions struct {
	target Trimmer
	lease  Holder
	// follow is false where the starts are only looked at.
	follow bool
	log    *slog.Logger
	count  *counters
}

// follower is a partition whose log start follows, or in checkpoint mode is only looked
// at: its offsets are its own, and so is its retention.
type follower struct {
	src    feed.Partition
	dst    appender.Target
	shown  *shown
	policy string // cleanup.policy of the target topic, "" where it is not known
	drifts bool
}

// startFacts is all that a trim follows from.
type startFacts struct {
	// mirrors: the partition mirrors, and its source was in sight just now.
	mirrors bool
	// held: this process has the lease.
	held bool
	// barred: trims are not wanted, or the topic refused the last one and nothing
	// has changed since.
	barred bool
	// src is the source's log start, Unknown where it was never seen.
	src int64
	// dst are the target's ends, read after src.
	dst appender.Ends
}

// trimTo decides where the target's log is to start from now on. Never beyond
// the source's start; and where that lies beyond the target's end, records were
// lost to retention, which is for the partition to halt on.
func trimTo(f startFacts) (offset int64, ok bool) {
	switch {
	case !f.mirrors || !f.held || f.barred || f.src == feed.Unknown || f.dst.Err != nil:
		return feed.Unknown, false
	case f.src <= f.dst.LogStart || f.src > f.dst.HighWatermark:
		return feed.Unknown, false
	}
	return f.src, true
}

// starts returns the log starts as last seen, and whether the partition mirrors
// and its source is in sight.
func (s *shown) starts(now time.Time) (src, dst int64, mirrors bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mirrors = s.pos.State == state.Active || s.pos.State == state.CatchingUp
	return s.srcStart, s.dstStart, mirrors && s.sees(now)
}

// trim keeps log starts in step until ctx ends.
func (l *Link) trim(ctx context.Context) {
	t := newTrims(trimOptions{target: l.o.Target, lease: l.o.Lease, follow: l.o.FollowStart, log: l.log, count: l.count})
	for sleep(ctx, l.paced(trimEvery)) {
		l.turn("log start")
		t.once(ctx, l.followers())
	}
}

// followers lists the partitions whose topics can be mirrored; none while the
// link as a whole is in trouble, as its addresses may lead anywhere then.
func (l *Link) followers() (all []follower) {
	l.mu.Lock()
	well := l.pos.State == state.Active
	l.mu.Unlock()
	if !well {
		return nil
	}
	all = make([]follower, 0, l.size())
	for _, t := range l.listed() {
		t.mu.Lock()
		for _, p := range t.partitions {
			if t.trouble == nil {
				all = append(all, follower{src: p.src, dst: p.dst, shown: p.shown, policy: t.prepared.CleanupPolicy, drifts: p.drift != nil})
			}
		}
		t.mu.Unlock()
	}
	return all
}

func newTrims(o trimOptions) *trims {
	return &trims{o: o, looked: make(map[appender.Target]time.Time), bars: make(map[string]*trimBar)}
}

// once looks at the log starts that may have to move, and moves them.
func (t *trims) once(ctx context.Context, all []follower) {
	facts, asked := t.due(all, time.Now())
	if len(asked) == 0 {
		return
	}
	wanted := make(map[appender.Target]trim)
	for k, e := range t.ends(ctx, asked) {
		f := asked[k]
		if e.Err != nil {
			t.o.log.Debug("log start is not read", "topic", f.src.Topic, "partition", f.src.Partition, "error", e.Err)
			continue
		}
		f.shown.sawTarget(e.LogStart, feed.Unknown, time.Now())
		about := facts[k]
		_, _, about.mirrors = f.shown.starts(time.Now()) // it may have halted meanwhile
		if about.dst = e; about.src <= e.LogStart {
			f.shown.startStays("")
		}
		if to, ok := trimTo(about); ok {
			wanted[k] = trim{follower: f, from: e.LogStart, to: to}
		}
	}
	t.move(ctx, wanted)
}

// due returns the partitions whose starts differ by what is known, and those
// that were not looked at for long.
func (t *trims) due(all []follower, now time.Time) (map[appender.Target]startFacts, map[appender.Target]follower) {
	facts, asked := make(map[appender.Target]startFacts), make(map[appender.Target]follower)
	relook := paced(relookEvery, len(all))
	for _, f := range all {
		src, dst, mirrors := f.shown.starts(now)
		_, held := t.o.lease.Held(f.dst.Topic, f.dst.Partition)
		about := startFacts{mirrors: mirrors, held: held, barred: !t.o.follow || f.drifts || t.barred(f, now), src: src}
		apart := held && !about.barred && src > dst
		if mirrors && (apart || now.Sub(t.looked[f.dst]) >= relook) {
			facts[f.dst], asked[f.dst] = about, f
			t.looked[f.dst] = now
		}
	}
	return facts, asked
}

func (t *trims) ends(ctx context.Context, asked map[appender.Target]follower) map[appender.Target]appender.Ends {
	ctx, cancel := context.WithTimeout(ctx, trimTimeout)
	defer cancel()
	return t.o.target.Ends(ctx, slices.Collect(maps.Keys(asked)))
}

// trim is one log start on its way up.
type trim struct {
	follower
	from, to int64
}

// move trims while the lease holds.
func (t *trims) move(ctx context.Context, wanted map[appender.Target]trim) {
	starts, until := t.allowed(wanted)
	if len(starts) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	failed, noted := make(map[string]error), make(map[string]bool)
	result := t.o.target.Trim(ctx, starts)
	for k, r := range result {
		if r.Err != nil {
			failed[k.Topic] = worse(failed[k.Topic], r.Err)
		}
	}
	now := time.Now()
	for k := range starts {
		if f := wanted[k].follower; !noted[k.Topic] {
			noted[k.Topic] = true
			t.note(f, failed[k.Topic], now)
		}
	}
	for k, r := range result {
		w := wanted[k]
		if r.Err != nil {
			w.shown.startStays(t.why(k.Topic, r.Err))
			continue
		}
		w.shown.startStays("")
		w.shown.sawTarget(r.LogStart, feed.Unknown, now)
		t.o.count.trimmed(w.src, w.to-w.from)
		t.o.log.Debug("log start moved", "topic", w.src.Topic, "partition", w.src.Partition, "from", w.from, "to", w.to)
	}
}

// allowed returns the trims for which the lease still holds, and how long it
// does for all of them.
func (t *trims) allowed(wanted map[appender.Target]trim) (starts map[appender.Target]int64, until time.Time) {
	starts = make(map[appender.Target]int64, len(wanted))
	until = time.Now().Add(trimTimeout)
	for k, w := range wanted {
		end, ok := t.o.lease.Held(k.Topic, k.Partition)
		if !ok {
			continue // given up meanwhile
		}
		if end.Before(until) {
			until = end
		}
		starts[k] = w.to
	}
	return starts, until
}
