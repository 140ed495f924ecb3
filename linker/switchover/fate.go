package switchover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/ledger"
	"klink/linker/state"
)

// fate is what is known of one partition on the way through a command.
type fate struct {
	part
	// cut is on record, and nothing is left to do.
	cut *cut
	// word of the worker that stopped it, nil without one that counts.
	word *word
	// fencer is what a fence would take, fence what became of it; nil where none
	// was needed.
	fencer *fencer
	fence  *fenced
	// before is the target's log end before the fence, and leader who told it;
	// feed.Unknown and -1 where it was not read.
	before int64
	leader int32
	seen   sight
	facts  facts
}

// errUnread stands for the ends of a partition until they are read (X5).
var errUnread = errors.New("not read yet")

// fates are those of all partitions of a scope, with what was last seen of them.
func (s *Switch) fates(sc *scope, before []*fate) []*fate {
	seen := sights(s.o.Store.States(s.o.Link))
	was := make(map[feed.Partition]*fate, len(before))
	for _, f := range before {
		was[f.source()] = f
	}
	recorded := readCuts(s.o.Store, sc)
	var out []*fate
	for _, p := range sc.parts(sc.mirrors) {
		f := &fate{part: p, before: feed.Unknown, leader: -1, seen: seen[p.source()], facts: facts{n: p.n, fenceAt: feed.Unknown, ends: appender.Ends{Err: errUnread}}}
		if b := was[p.source()]; b != nil {
			f.seen, f.facts = b.seen.newest(f.seen), b.facts
		}
		if c, ok := recorded.done(p); ok {
			f.cut = &c
		}
		out = append(out, f)
	}
	return out
}

// resight takes in what was reported since.
func (s *Switch) resight(fs []*fate) {
	seen := sights(s.o.Store.States(s.o.Link))
	for _, f := range fs {
		if now, ok := seen[f.source()]; ok {
			f.seen = f.seen.newest(now)
		}
	}
}

// measure reads the ends of all partitions without a recorded cut, and makes
// their facts.
func (s *Switch) measure(ctx context.Context, fs []*fate) {
	var ask []appender.Target
	for _, f := range fs {
		if f.cut == nil {
			ask = append(ask, f.target)
		}
	}
	ends := map[appender.Target]appender.Ends{}
	if len(ask) > 0 {
		bounded, cancel := context.WithTimeout(ctx, s.o.Times.Look)
		ends = s.o.Target.Ends(bounded, ask)
		cancel()
	}
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.o.Times.Look)
	defer cancel()
	s.each(fs, func(f *fate) {
		s.learn(ctx, f, ends, now)
		s.addCopies(ctx, f)
	})
}

// learn makes the facts of one partition.
func (s *Switch) learn(ctx context.Context, f *fate, ends map[appender.Target]appender.Ends, now time.Time) {
	if f.cut != nil {
		f.facts = cutFacts(*f.cut)
		return
	}
	e, ok := ends[f.target]
	if !ok {
		e = appender.Ends{Err: appender.ErrNoAnswer}
	}
	f.facts = s.factsOf(f, e, now)
	if !f.facts.fenced || e.Err != nil {
		return
	}
	f.facts.fenceAt = s.fenceOffset(ctx, f)
	if f.facts.fenceAt >= e.HighWatermark {
		// Another leader may not have it (X3).
		f.fence.ok, f.fence.reason, f.fence.detail = false, state.NotEnoughReplicas, "its fence is not on all replicas yet"
		f.facts = s.factsOf(f, e, now)
	}
}

func (s *Switch) factsOf(f *fate, e appender.Ends, now time.Time) facts {
	out := facts{n: f.n, ends: e, fenceAt: feed.Unknown, seen: f.seen, of: now}
	if pad, ok := s.o.Store.Pad(s.o.Link, f.m.SourceTopic, f.n); ok {
		out.goal = pad.Goal
	}
	if l, ok := s.o.Store.Ledger(s.o.Link, f.m.SourceTopic, f.n); ok {
		if x, err := ledger.Decode(l.Index); err == nil {
			out.transactions = x.Totals()[ledger.Marker] > 0
		}
	}
	switch {
	case f.fence != nil && f.fence.ok:
		out.fenced = true
	case f.fence != nil:
		out.details = append(out.details, fmt.Sprintf("%s: %s", Unfenced, f.fence.detail))
	case f.word != nil:
		out.word = &f.word.End
		out.details = append(out.details, "worker "+f.word.worker+" confirmed that it stopped")
	}
	return out
}

// fenceOffset finds where the first fence stands: at the end where it is the only
// one and all that came since the end was read before, else where the log shows
// it.
func (s *Switch) fenceOffset(ctx context.Context, f *fate) int64 {
	last := f.facts.ends.LogEnd - 1
	alone := f.before == last && f.fence.doubts == 0 && !f.fence.found
	if alone && (f.fence.single || last == 0) {
		return last
	}
	if at, ok := s.findFence(ctx, f); ok {
		return at
	}
	if alone && !f.fence.blind {
		// Right unless a run that was never put on record left one, so long ago that
		// the leader has forgotten it.
		return last
	}
	return feed.Unknown
}

// each calls do for all partitions, Options.Concurrency at a time, and returns
// when all are done.
func (s *Switch) each(fs []*fate, do func(*fate)) {
	n := s.o.Concurrency
	if n <= 0 || n > len(fs) {
		n = len(fs)
	}
	if n == 1 {
		for _, f := range fs {
			do(f)
		}
		return
	}
	work := make(chan *fate)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for f := range work {
				do(f)
			}
		})
	}
	for _, f := range fs {
		work <- f
	}
	close(work)
	wg.Wait()
}

// groupNumbers reads what groups have committed and tells what they will read.
func (s *Switch) groupNumbers(ctx context.Context, fs []*fate) []Group {
	in := groupInput{records: s.o.Store.Groups(s.o.Link), parts: make(map[feed.Partition]groupPart, len(fs)), now: time.Now()}
	for _, f := range fs {
		in.parts[f.place()] = groupPart{source: f.source(), start: f.facts.ends.LogStart, mirrored: f.facts.mirrored(), copies: f.facts.copies, samples: &samples{}}
	}
	if s.o.Groups != nil && len(in.records) > 0 {
		names := make([]string, 0, len(in.records))
		for _, r := range in.records {
			names = append(names, r.Group)
		}
		ctx, cancel := context.WithTimeout(ctx, s.o.Times.Look)
		defer cancel()
		var err error
		if in.committed, err = s.o.Groups.Committed(ctx, names); err != nil {
			s.log.Warn("group offsets of the target cannot be read", keyErr, err)
		}
	}
	return groupNumbers(in)
}
