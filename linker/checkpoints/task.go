package checkpoints

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/ownlog"
	"klink/translate/mm2"
)

const (
	// lookEvery is how often it is looked at whether something is due.
	lookEvery = 250 * time.Millisecond
	// wantedEvery is how often it is looked at whether the link has topics in
	// checkpoint mode.
	wantedEvery = 2 * time.Second
	// sourceEvery is how often the source is asked for its topics, and aliveFor how
	// old an answer may be by which it counts as alive.
	sourceEvery = 5 * time.Second
	aliveFor    = 3 * sourceEvery
	// roundTimeout bounds a look at all groups with all that it asks, beatTimeout a
	// heartbeat, askTimeout a question to the source.
	roundTimeout = 30 * time.Second
	beatTimeout  = 5 * time.Second
	askTimeout   = 10 * time.Second
)

// Task writes the topics of a link while this process holds the lease of the control
// topic's partition 0. Report may be called at any time.
type Task struct {
	o     Options
	count *instruments
	shown *shown
	asks  chan ask

	// Of the goroutine of rounds.
	book        Book
	syncs       Syncs
	checkpoints *line
	offsets     *line

	// Of the goroutine of heartbeats.
	beats, upstream *line

	// Of the goroutine that looks at the source: the topics of heartbeats that were made.
	named map[string]bool

	// wanted: the link has a topic in checkpoint mode. aliveAt is when the source
	// answered last, in nanoseconds since 1970; 0 is never.
	wanted  atomic.Bool
	aliveAt atomic.Int64
}

// New returns a Task that is not running. The client stays the caller's. The error is
// about instruments.
func New(o Options) (*Task, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = o.Logger.With("link", o.Link)
	t := &Task{o: o, checkpoints: newLine(o.Client, o.Policy.CheckpointsTopic()), offsets: newLine(o.Client, o.Policy.OffsetSyncsOnTarget()),
		beats: newLine(o.Client, mm2.HeartbeatsTopic), upstream: newLine(o.Client, o.Policy.RemoteHeartbeats()),
		named: make(map[string]bool), shown: newShown(o), asks: make(chan ask)}
	t.checkpoints.take, t.checkpoints.forget = t.takeCheckpoint, func() { t.book = Book{} }
	t.offsets.take, t.offsets.forget = t.takeSync, func() { t.syncs = Syncs{} }
	var err error
	if t.count, err = newInstruments(o.Meter, o.Link); err != nil {
		return nil, err
	}
	return t, t.count.gauges(o.Meter, t.Report)
}

// Run writes until ctx ends. What stands in the way is shown and outlived.
func (t *Task) Run(ctx context.Context) error {
	defer t.checkpoints.close()
	defer t.offsets.close()
	g := new(errgroup.Group)
	g.Go(func() error { t.rounds(ctx); return nil })
	g.Go(func() error { t.every(ctx, t.o.Heartbeat, t.beat); return nil })
	g.Go(func() error { t.every(ctx, sourceEvery, t.lookAtSource); return nil })
	g.Go(func() error { t.watch(ctx); return nil })
	return g.Wait()
}

// watch looks whether there is anything to write for, and by whom.
func (t *Task) watch(ctx context.Context) {
	for {
		_, held := t.lease()
		t.shown.writes(held && t.wanted.Load())
		if held {
			t.wanted.Store(len(t.topics()) > 0)
		}
		if !ownlog.Pause(ctx, wantedEvery) {
			return
		}
	}
}

func (t *Task) lease() (until time.Time, held bool) { return t.o.Lease.Held(control.TopicName, 0) }

// every does something at an interval while this process may write, at first at once
// when it comes to that. do is given until when it may.
func (t *Task) every(ctx context.Context, interval time.Duration, do func(ctx context.Context, until time.Time)) {
	var last time.Time
	for ownlog.Pause(ctx, min(interval, lookEvery)) {
		if until, held := t.lease(); held && t.wanted.Load() && time.Since(last) >= interval {
			last = time.Now()
			do(ctx, until)
		}
	}
}

// lapsed notes that another process may write now, which is no stranger.
func (t *Task) lapsed() { t.checkpoints.whole, t.offsets.whole = false, false }

// within bounds what is done by a time and by the lease.
func within(ctx context.Context, until time.Time, d time.Duration) (context.Context, context.CancelFunc) {
	if by := time.Now().Add(d); by.Before(until) {
		until = by
	}
	return context.WithDeadline(ctx, until)
}

// lookAtSource asks for the source's topics: which clusters are before it, and
// whether it is alive. The topics that tell of those clusters are made.
func (t *Task) lookAtSource(ctx context.Context, until time.Time) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	topics, err := t.o.Source.ListTopics(asking)
	if err != nil {
		return // shown by the link itself
	}
	t.aliveAt.Store(time.Now().UnixNano())
	making, stop := within(ctx, until, askTimeout)
	defer stop()
	for _, topic := range HeartbeatsOf(t.o.Policy, topics).Named {
		if t.named[topic] {
			continue
		}
		err := ensure(making, t.o.Client, topic)
		t.outcome(ctx, topic, err)
		t.named[topic] = err == nil
	}
}

// outcome shows what came of writing a topic, unless the process only ends.
func (t *Task) outcome(ctx context.Context, topic string, err error) {
	if ctx.Err() == nil {
		t.shown.outcome(topic, err)
	}
}

// alive tells whether the source answered of late.
func (t *Task) alive() bool {
	return time.Since(time.Unix(0, t.aliveAt.Load())) < aliveFor
}

// beat writes heartbeats.
func (t *Task) beat(ctx context.Context, until time.Time) {
	beating, cancel := within(ctx, until, beatTimeout)
	defer cancel()
	now := t.o.Now()
	key, value, err := mm2.Heartbeat{Source: t.o.Policy.Source, Target: t.o.Policy.Target, Timestamp: now.UnixMilli()}.Encode()
	if err != nil {
		t.shown.outcome(t.beats.topic, err)
		return
	}
	for _, l := range []*line{t.beats, t.upstream} {
		err := l.open(beating)
		if err == nil && (l != t.upstream || t.alive()) {
			if _, err = l.write(beating, []*kgo.Record{record(key, value, now)}); err == nil {
				t.shown.beat(now)
				t.count.beats.Add(ctx, 1, t.count.whole)
			}
		}
		t.outcome(ctx, l.topic, err)
	}
}

// bounds asks for the ends of partitions of target topics, and with starts for
// their beginnings too. Those that were not told are left out.
func (t *Task) bounds(ctx context.Context, topics []string, starts bool) map[feed.Partition]Bounds {
	out := make(map[feed.Partition]Bounds)
	if len(topics) == 0 {
		return out
	}
	// An error is of the brokers that did not answer; the others' are there all the same.
	ends, _ := t.checkpoints.adm.ListEndOffsets(ctx, topics...)
	begins := ends
	if starts {
		begins, _ = t.checkpoints.adm.ListStartOffsets(ctx, topics...)
	}
	for topic, partitions := range ends {
		for n, end := range partitions {
			if end.Err != nil || end.Offset < 0 {
				continue
			}
			b := Bounds{Start: feed.Unknown, HighWatermark: end.Offset}
			if begin, ok := begins.Lookup(topic, n); starts && ok && begin.Err == nil {
				b.Start = begin.Offset
			}
			out[feed.Partition{Topic: topic, Partition: n}] = b
		}
	}
	return out
}
