package fetcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

const (
	// looksAtOnce bounds the second looks under way, for a deleted topic of
	// thousands of partitions.
	looksAtOnce = 32
	// apart is what lies at least between two observations that are only
	// believed together.
	apart = time.Second
)

// doubt is an answer that would end a stream and is not believed yet.
type doubt struct {
	// cause is the error that raised it; nil: metadata alone.
	cause error
	// diverging: the Fetch answered DivergingEpoch, with these numbers.
	diverging      bool
	divergingEpoch int32
	divergingEnd   int64
	// seen is what an earlier look found, and when for the first time.
	seen feed.Kind
	at   time.Time
}

// testimony is what a second look brought.
type testimony struct {
	sight  leaders.Sight
	bounds *feed.Bounds // nil: not asked for
	// epoch and epochEnd answer OffsetForLeaderEpoch of the reading's last
	// epoch; NoEpoch and Unknown where not asked or not known.
	epoch    int32
	epochEnd int64
}

// finding is what follows from a doubt and a testimony.
type finding int

const (
	// spurious: read on.
	spurious finding = iota
	// unsure: look again, apart.
	unsure
	// believed: the stream ends.
	believed
)

// position is what a reading stands for when it is judged.
type position struct {
	id        feed.TopicID
	next      int64
	lastEpoch int32
	doubts    int // spurious findings in a row before this one
}

// judge decides about a doubt. It is pure; d.seen and d.at are the caller's to
// keep up when it is unsure.
func (d *doubt) judge(p position, t testimony, now time.Time) (feed.Kind, finding) {
	twice := func(k feed.Kind) (feed.Kind, finding) {
		if d.seen == k && now.Sub(d.at) >= apart {
			return k, believed
		}
		return k, unsure
	}
	switch {
	case errors.Is(t.sight.Err, kerr.UnknownTopicOrPartition), t.sight.Err == nil && !t.sight.Exists:
		return twice(feed.Gone)
	case otherID(p.id, t.sight.ID):
		return twice(feed.Recreated)
	case d.diverging:
		if t.epoch != feed.NoEpoch && t.epoch < p.lastEpoch || t.epochEnd != feed.Unknown && t.epochEnd < p.next {
			return feed.Diverged, believed
		}
		// The leader contradicts itself. Stop, don't guess, if it goes on.
		if p.doubts >= retries {
			return feed.Diverged, believed
		}
		return 0, spurious
	case t.bounds == nil:
		return 0, spurious
	case p.next < t.bounds.LogStart:
		return feed.Overrun, believed
	case p.next > max(t.bounds.LogEnd, t.bounds.HighWatermark):
		// A leader that was restarted or just elected may not know its end yet
		// (C063).
		return twice(feed.Diverged)
	default:
		return 0, spurious
	}
}

// doubtLocked has an answer looked at a second time. What an earlier look of the
// same episode saw still counts.
func (f *Fetcher) doubtLocked(s *reading, d *doubt) {
	if s.why != nil {
		d.seen, d.at = s.why.seen, s.why.at
	}
	s.why = d
	f.lookLocked(s)
}

func (f *Fetcher) lookLocked(s *reading) {
	f.detachLocked(s)
	s.phase = looking
	d, p := s.why, position{id: s.start.ID, next: s.next, lastEpoch: s.lastEpoch, doubts: s.doubts}
	f.spawn(func(ctx context.Context) error {
		select {
		case f.looks <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-f.looks }()
		sent := time.Now()
		t, err := f.testify(ctx, s.start.Partition, p, d)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if s.phase == looking && s.why == d {
			f.concludeLocked(s, t, err, sent)
		}
		return nil
	})
}

// testify asks the cluster what a doubt needs to know.
func (f *Fetcher) testify(ctx context.Context, p feed.Partition, at position, d *doubt) (testimony, error) {
	t := testimony{epoch: feed.NoEpoch, epochEnd: feed.Unknown}
	bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := f.opt.Leaders.Refresh(bounded, p.Topic); err != nil {
		return t, err
	}
	t.sight, _ = f.opt.Leaders.Look(p.Topic, p.Partition)
	if t.sight.Err != nil || !t.sight.Exists || otherID(at.id, t.sight.ID) || !errors.Is(d.cause, kerr.OffsetOutOfRange) {
		return t, nil
	}
	b, err := f.reader.Bounds(ctx, p, at.id)
	if err != nil {
		return t, err
	}
	t.bounds = &b
	if at.lastEpoch != feed.NoEpoch {
		t.epoch, t.epochEnd, err = f.reader.EpochEnd(ctx, p, at.lastEpoch)
	}
	return t, err
}

// concludeLocked acts on a second look.
func (f *Fetcher) concludeLocked(s *reading, t testimony, err error, sent time.Time) {
	d, now := s.why, time.Now()
	if err != nil {
		// Nothing was learned: read on, and doubt again if it comes to that.
		v := classify(err)
		if v.act == actFinal || v.act == actLook {
			v = verdict{act: actWait, kind: feed.Unreachable, quiet: true}
		}
		f.troubleLocked(s, v, err, sent)
		f.pauseLocked(s)
		return
	}
	p := position{id: s.start.ID, next: s.next, lastEpoch: s.lastEpoch, doubts: s.doubts}
	kind, found := d.judge(p, t, now)
	switch found {
	case believed:
		f.failLocked(s, s.proof(kind, d, t))
	case unsure:
		if d.seen != kind {
			d.seen, d.at = kind, now
		}
		f.seekLocked(s, apart, false) // s.why stays: it is looked at again
	default:
		f.log.Debug("an answer was not confirmed", keyTopic, s.start.Topic, keyPartition, s.start.Partition.Partition,
			keyNext, s.next, keyError, d.cause)
		s.doubts++
		if d.cause != nil {
			f.troubleLocked(s, verdict{kind: feed.NoLeader, quiet: true}, d.cause, sent)
		}
		s.why = nil
		f.pauseLocked(s)
	}
}

// pauseLocked reads on after a pause.
func (f *Fetcher) pauseLocked(s *reading) {
	f.seekLocked(s, pause(s.tries), false)
	s.tries++
}

// proof is the fault of a believed doubt, with all numbers known.
func (s *reading) proof(kind feed.Kind, d *doubt, t testimony) *feed.Fault {
	cause := d.cause
	if cause == nil {
		cause = t.sight.Err
	}
	if kind == feed.Recreated {
		cause = fmt.Errorf("the topic has id %s, not %s", feed.TopicID(t.sight.ID), s.start.ID)
	}
	x := s.fault(kind, cause)
	x.Broker = t.sight.Broker
	if t.bounds != nil {
		x.LogStart, x.LogEnd = t.bounds.LogStart, max(t.bounds.LogEnd, t.bounds.HighWatermark)
	}
	if kind != feed.Diverged {
		return x
	}
	x.DivergingEpoch, x.DivergingEnd = t.epoch, t.epochEnd
	if d.diverging {
		x.Err = nil
		x.DivergingEpoch, x.DivergingEnd = d.divergingEpoch, d.divergingEnd
	}
	return x
}
