package linker

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/linker/control"
	"klink/linker/intent"
)

// discover keeps partition loops in step with the source's topics.
func (l *Link) discover(ctx context.Context, wg *sync.WaitGroup) {
	wait := newWaits()
	for {
		l.turn("discovery")
		pause := l.paced(discoverEvery)
		if t := l.discoverOnce(ctx, wg); t != nil && ctx.Err() == nil {
			l.failed(t)
			pause = wait.NextBackOff()
		} else {
			wait.Reset()
		}
		if !rest(ctx, pause, l.soon) {
			return
		}
	}
}

// rest is sleep, and ends early where there is something to do at once.
func rest(ctx context.Context, d time.Duration, soon <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-soon:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// discoverOnce looks once at the topics. Where an order cuts that short there is no
// trouble, and another look comes at once.
func (l *Link) discoverOnce(ctx context.Context, wg *sync.WaitGroup) *Trouble {
	round, in, end := l.beginRound(ctx)
	defer end()
	ts, guard, t := l.prepare(round, in)
	if round.Err() != nil {
		return nil
	}
	for _, t := range ts {
		t.grow(guard)
		t.start(ctx, wg)
	}
	return t
}

// prepare brings the topics that are to be mirrored to where their partitions may
// be started. The others are left as they are, on both sides (K9).
func (l *Link) prepare(ctx context.Context, in intent.Intents) (ts []*topic, guard time.Duration, t *Trouble) {
	if t := l.pin(ctx); t != nil {
		return nil, 0, t
	}
	found, t := l.o.Catalog.Find(ctx, l.store.Topics(l.o.Name))
	if t != nil {
		return nil, 0, t
	}
	l.healthy(len(found))
	mirrored := make([]Found, 0, len(found))
	for _, f := range found {
		if l.topic(f); in.Of(f.Topic).Want == intent.Mirror {
			mirrored = append(mirrored, f)
		}
	}
	if ts, t = l.ready(ctx, mirrored); t != nil {
		return nil, 0, t
	}
	l.o.Lease.Watch(l.shared(ts, in))
	return ts, l.o.Catalog.ExpireProducers(ctx), nil
}

// shared lists what the link's group shares: the targets of topics that are ready, of
// those that may be mirrored again at any moment, as another assignment would begin in
// doubt, and of those whose end is not acknowledged yet, as that rests on the lease.
func (l *Link) shared(ready []*topic, in intent.Intents) []string {
	names := make([]string, 0, len(ready)+1)
	for _, t := range ready {
		names = append(names, t.target())
	}
	for _, r := range l.store.Topics(l.o.Name) {
		i := in.Of(r.SourceTopic)
		again := i.Want == intent.Paused || i.Want == intent.PendingStop
		if i.Want != intent.Mirror && !r.TargetID.IsZero() && (again || !l.answeredTo(r.SourceTopic, i.Cause.Number)) {
			names = append(names, r.TargetTopic)
		}
	}
	return append(names, control.TopicName)
}

// answeredTo tells whether this process acknowledged a command for a topic.
func (l *Link) answeredTo(topic string, number int32) bool {
	l.mu.Lock()
	t := l.topics[topic]
	l.mu.Unlock()
	return t != nil && t.answered() == number
}

// ready brings topics to where their partitions may be started: known to the
// control topic, claimed, their mode decided, made on the target, and both ids pinned. What stands
// in the way of one topic is kept with it.
func (l *Link) ready(ctx context.Context, found []Found) ([]*topic, *Trouble) {
	targets := make([]string, len(found))
	for i, f := range found {
		targets[i] = f.Target
	}
	there, trouble := l.o.Catalog.Existing(ctx, targets)
	if trouble != nil {
		return nil, trouble
	}
	claimed := l.each(ctx, found, func(f Found, t *topic) *Trouble { return t.claim(ctx, f, there[f.Target]) })
	decided := l.decide(ctx, l.unlooped(ctx, claimed), there)
	prepared, trouble := l.o.Catalog.Prepare(ctx, decided, l.recorded)
	if trouble != nil {
		return nil, trouble
	}
	pinned := l.each(ctx, decided, func(f Found, t *topic) *Trouble { return t.pin(ctx, f, prepared[f.Topic]) })
	out := make([]*topic, len(pinned))
	for i, f := range pinned {
		out[i] = l.topic(f)
		out[i].settle(nil)
	}
	return out, nil
}

// each lets f look at topics side by side, shows what troubles each, and
// returns those that are well.
func (l *Link) each(ctx context.Context, found []Found, f func(Found, *topic) *Trouble) []Found {
	well := make([]bool, len(found))
	g := new(errgroup.Group)
	g.SetLimit(topicsAtOnce)
	for i := range found {
		g.Go(func() error {
			t := l.topic(found[i])
			trouble := f(found[i], t)
			switch {
			case ctx.Err() != nil:
			case trouble != nil:
				t.settle(trouble)
			default:
				well[i] = true
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
	out := found[:0:0]
	for i, ok := range well {
		if ok {
			out = append(out, found[i])
		}
	}
	return out
}
