package linker

import (
	"context"
	"sync"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

const (
	// obeyAgain is how soon an order is looked after again of which something is
	// still to be done: a loop that drains, an end that could not be read.
	obeyAgain = 250 * time.Millisecond
	// obeyFresh is for how long it is: what takes longer than a drain may take very
	// long.
	obeyFresh = 2 * drainTime
	// obeyGather is how long changes of the record are gathered: most of them are of
	// this process's own making.
	obeyGather = 20 * time.Millisecond
	// obeyPatience is how long an order waits for loops that drain before those that
	// have are acknowledged alone.
	obeyPatience = time.Second
	// roundPatience is how long a look at the topics may go on after an order came,
	// so that what it is writing is answered; then it is cut short and begins anew.
	roundPatience = 300 * time.Millisecond
)

// obeyer carries out what operators want of a link's topics (K9), and what its group
// gives to this process (K10). One goroutine uses it.
type obeyer struct {
	l *Link
	// next and known are what was looked at last: the number of the next command,
	// and how many topics there are.
	next  int32
	known int
	// orders are those that are not acknowledged in full, by source topic.
	orders map[string]*order
	// pended are promotions that are not decided, by the number of their Pend.
	pended map[int32]*pended
	// moved: who mirrors what may have changed, or is not carried out yet.
	moved bool
}

// learn takes what is wanted as the link begins, before anything runs: topics that
// are not to be mirrored are known from the record alone, wherever the source is.
func (l *Link) learn() {
	in := l.store.Intents(l.o.Name)
	l.mu.Lock()
	l.intents = in
	l.mu.Unlock()
	for _, r := range l.store.Topics(l.o.Name) {
		if in.Of(r.SourceTopic).Want != intent.Mirror {
			l.topic(Found{Topic: r.SourceTopic, ID: r.SourceID, Target: r.TargetTopic, Partitions: r.Partitions, Compacted: r.Compacted})
		}
	}
}

// obey follows what operators want, until ctx ends.
func (l *Link) obey(ctx context.Context, wg *sync.WaitGroup) {
	o := &obeyer{l: l, orders: make(map[string]*order), pended: make(map[int32]*pended), moved: true}
	for ctx.Err() == nil {
		l.turn("orders")
		changed := l.store.Changed()
		o.take(ctx, wg)
		if o.moved {
			o.moved = l.share(ctx, wg)
		}
		o.pursue(ctx)
		o.takeBack(ctx)
		o.wait(ctx, changed)
	}
}

// wait returns when there may be something to do.
func (o *obeyer) wait(ctx context.Context, changed <-chan struct{}) {
	pause := lookEvery // so that the process counts as alive
	if o.fresh() || len(o.pended) > 0 || o.moved {
		pause = obeyAgain
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-changed:
		sleep(ctx, obeyGather)
	case <-o.l.o.Lease.Changed():
		o.moved = true
	case <-o.l.listing:
	case <-t.C:
	case <-ctx.Done():
	}
}

// fresh tells whether there is an order that came not long ago.
func (o *obeyer) fresh() bool {
	for _, n := range o.orders {
		if time.Since(n.since) < obeyFresh {
			return true
		}
	}
	return false
}

// take reads what is wanted now and begins what follows from it.
func (o *obeyer) take(ctx context.Context, wg *sync.WaitGroup) {
	l := o.l
	in, all := l.store.Intents(l.o.Name), l.listed()
	switch {
	case in.Next() < o.next:
		// A link's commands go only with the link itself: what they ended stays so
		// for as long as this process lives.
		l.log.Debug("commands are gone from the record and still hold", "next", in.Next(), "was", o.next)
		return
	case in.Next() == o.next && len(all) == o.known:
		return
	}
	o.next, o.known = in.Next(), len(all)
	l.wanted(in)
	o.notePended(in, all)
	begun := false
	for _, t := range all {
		begun = o.order(ctx, t, in.Of(t.name), wg) || begun
	}
	if begun {
		poke(l.soon)
		poke(l.news)
	}
}

// wanted puts into force what operators want of the link itself, and of topics
// that are found from now on.
func (l *Link) wanted(in intent.Intents) {
	l.mu.Lock()
	was := l.intents.Link()
	l.intents = in
	if l.pos.State == state.Active || l.pos.State == state.Paused {
		l.pos, l.hint = l.well()
	}
	l.mu.Unlock()
	if now := in.Link(); now.Want != was.Want {
		is := map[intent.Want]state.State{intent.Mirror: state.Active, intent.Paused: state.Paused}[now.Want]
		l.log.Info("link "+string(is), "command", now.Cause.Number, "verb", now.Cause.Verb, "by", now.Cause.By)
	}
}

// well is what the link shows while its clusters are well. The lock is held.
func (l *Link) well() (state.Position, string) {
	if i := l.intents.Link(); i.Want == intent.Paused {
		return state.Position{State: state.Paused, Detail: i.Detail()}, i.Hint()
	}
	return state.Position{State: state.Active}, ""
}

// order begins what is wanted of a topic, and reports whether that is news.
func (o *obeyer) order(ctx context.Context, t *topic, now intent.Intent, wg *sync.WaitGroup) bool {
	was := t.obey(now)
	if now.Want == intent.Mirror {
		delete(o.orders, t.name)
		if sameOrder(was, now) {
			return false
		}
		o.resume(ctx, t, was, now, wg)
		return true
	}
	if n := o.orders[t.name]; n != nil && n.number() == now.Cause.Number || n == nil && t.answered() == now.Cause.Number {
		return false // it is being obeyed, or was
	}
	n := &order{topic: t, want: now, since: time.Now(), acked: make(map[int32]control.Acked)}
	n.partitions, n.answered = o.l.answersFor(t, was.Want, now.Cause.Number)
	o.orders[t.name] = n
	return true
}

// resume lets a topic be mirrored: again, or anew. What was stopped for good, or
// taken out, is another mirror: others wrote to its target, and its producers are
// others by the record.
func (o *obeyer) resume(ctx context.Context, t *topic, was, now intent.Intent, wg *sync.WaitGroup) {
	anew := was.Fence != now.Fence || was.Want == intent.Stopped || was.Want == intent.Removed
	for _, c := range renewed(o.l.store.Commands(o.l.o.Name), t.name, was.Again) {
		t.log.Info("topic is tried again", "command", c.Number, "verb", c.Verb, "by", c.By)
		if c.Verb == intent.Recreate {
			rec, _ := o.l.store.Topic(o.l.o.Name, t.name)
			t.expectNew(c, rec.TargetID)
			anew = true
		}
		t.revive(func(n int32) bool { return about(c, n) })
		if c.Verb == intent.Accept {
			t.accept(c)
		}
	}
	if anew {
		t.forget()
	}
	if c := now.Cause; was.Want != intent.Mirror && !was.PausedByLink() {
		t.log.Info("topic is mirrored again", "was", control.OrderedState(was.Want), "command", c.Number, "verb", c.Verb, "by", c.By)
	}
	t.start(ctx, wg)
	o.moved = true // it may have been given to another process while it stood still
}

// pursue does what is left to do for the orders that end mirroring.
func (o *obeyer) pursue(ctx context.Context) {
	if len(o.orders) == 0 {
		return
	}
	for _, n := range o.orders {
		n.topic.drained(ctx, obeyPatience-time.Since(n.since))
	}
	o.l.endRound(ctx, o.next)
	if ctx.Err() != nil {
		return
	}
	due := make(map[string][]finished, len(o.orders))
	for name, n := range o.orders {
		ended, all := n.topic.finish()
		if all && !n.shown {
			n.shown = true
			n.tell()
			poke(o.l.news)
		}
		due[name] = n.due(ended, all)
	}
	o.acknowledge(ctx, due)
}

// round is one look at the topics.
type round struct {
	// next is the number of the command that was to come when it began.
	next int32
	cut  context.CancelFunc
	done chan struct{}
}

// beginRound notes that a look at the topics begins, and what is wanted of them.
func (l *Link) beginRound(ctx context.Context) (context.Context, intent.Intents, func()) {
	ctx, cut := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &round{next: l.intents.Next(), cut: cut, done: make(chan struct{})}
	l.round = r
	return ctx, l.intents, func() { cut(); close(r.done) }
}

// endRound waits for the end of a look at the topics that began before the command
// that comes before next: it may still be about to change the target.
func (l *Link) endRound(ctx context.Context, next int32) {
	l.mu.Lock()
	r := l.round
	l.mu.Unlock()
	if r == nil || r.next >= next {
		return
	}
	t := time.AfterFunc(roundPatience, r.cut)
	defer t.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// poke leaves a token in a channel of size 1 unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
