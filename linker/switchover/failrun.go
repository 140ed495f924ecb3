package switchover

import (
	"context"
	"fmt"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// Failover stops the mirrors of the topics, fences them and tells what was lost.
// It needs the target alone. The Result is filled also where the error is an
// *ItemsFailedError: then running it again does the rest. Other errors mean that
// nothing was done.
func (s *Switch) Failover(ctx context.Context, r Request) (Result, error) {
	if r.DryRun {
		res, err := s.Forecast(ctx, r)
		res.DryRun = true
		return res, err
	}
	run := &failRun{Switch: s, r: r, m: newFailover(s.o.Times, r.By), troubles: make(troubles), details: make(map[string]string), slots: make(chan struct{}, reservations), doors: make(map[int32]chan struct{})}
	return run.run(ctx)
}

// failRun carries out one failover.
type failRun struct {
	*Switch
	r        Request
	m        *failover
	all      []*fate
	troubles troubles
	// details are said of topics beside their troubles.
	details map[string]string
	slots   chan struct{} // one for each reservation under way

	mu    sync.Mutex              // guards doors
	doors map[int32]chan struct{} // by leader, one place for each fence under way
}

func (x *failRun) run(ctx context.Context) (Result, error) {
	for {
		if err := ctx.Err(); err != nil && x.m.step < failEnds {
			return Result{Link: x.o.Link}, fmt.Errorf("failover ended early; run it again: %w", err)
		}
		switch x.m.step {
		case failLook:
			if err := x.look(ctx); err != nil {
				return Result{Link: x.o.Link}, err
			}
		case failCommand:
			x.command(ctx)
		case failAcks:
			x.prepare(ctx)
			x.awaitWords(ctx)
			x.m.acked()
		case failFence:
			x.fence(ctx)
			x.m.fencedAll()
		case failEnds:
			x.resight(x.all)
			x.measure(ctx, x.all)
			x.m.went()
		case failCuts:
			x.putCuts(ctx)
			x.m.went()
		case failSettings:
			x.finish(ctx, x.m.sc, x.troubles, x.details)
			x.m.went()
		case failOver:
			if x.m.err != nil {
				return Result{Link: x.o.Link}, x.m.err
			}
			return x.result(ctx)
		}
	}
}

// look reads the record; the record may be as old as what was read last.
func (x *failRun) look(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, x.o.Times.Record)
	defer cancel()
	old := x.o.Store.CatchUp(bounded)
	sc, err := newScope(x.o.Store, x.o.Link, x.r.Topics)
	if err != nil {
		return err
	}
	x.all = x.fates(sc, x.all)
	x.m.looked(time.Now(), sc, old)
	return nil
}

func (x *failRun) command(ctx context.Context) {
	x.r.tell(fmt.Sprintf("stopping %d topics", len(x.m.command.Topics)))
	bounded, cancel := context.WithTimeout(ctx, x.o.Times.Record)
	defer cancel()
	err := x.o.Store.PutCommand(bounded, x.m.command)
	x.m.commanded(time.Now(), err)
}

// unsafe are the partitions that a failover has to make safe: X6 leaves out what
// a promotion stopped.
func (x *failRun) unsafe() []*fate {
	var out []*fate
	for _, f := range x.all {
		if f.cut == nil && f.m.stoppedBy(intent.Promote) == "" && f.word == nil {
			out = append(out, f)
		}
	}
	return out
}

// awaitWords waits until workers have confirmed all partitions, or for as long as
// one that lives would take.
func (x *failRun) awaitWords(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, x.m.ackUntil)
	defer cancel()
	for {
		changed := x.o.Store.Changed()
		x.takeWords()
		if len(x.unsafe()) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// takeWords takes in what workers confirmed (X3).
func (x *failRun) takeWords() {
	said := make(map[string]map[int32]word)
	for _, f := range x.unsafe() {
		topic := f.m.SourceTopic
		if said[topic] == nil {
			said[topic] = words(x.o.Store.Acks(x.o.Link, topic), f.m.intent.Cause.Number)
		}
		if w, ok := said[topic][f.n]; ok && w.Wrote {
			f.word = &w
		}
	}
}

// fence fences what nobody's word counts for, all partitions side by side. Where
// one stays without a fence it waits for the end of the workers' leases.
func (x *failRun) fence(ctx context.Context) {
	todo := x.unsafe()
	if len(todo) == 0 {
		return
	}
	x.r.tell(fmt.Sprintf("fencing %d partitions", len(todo)))
	x.prepare(ctx)
	x.each(todo, func(f *fate) {
		out := x.fenceOne(ctx, f)
		f.fence = &out
	})
	missing := 0
	for _, f := range todo {
		if !f.fence.ok {
			missing++
		}
	}
	if rest := time.Until(x.m.calm()); missing > 0 && rest > 0 {
		x.r.tell(fmt.Sprintf("%d partitions cannot be fenced; waiting %s for the end of the workers' session", missing, rest.Round(time.Second)))
		pause(ctx, rest)
	}
}

const (
	// fencePace is what one fence takes at a busy cluster, with much to spare: they
	// share requests, which brokers carry out at some 1,000 markers a second.
	fencePace = 5 * time.Millisecond
	// mostFences bounds those under way at one leader, and so what shares a request:
	// whoever gives up puts all of it in doubt.
	mostFences = 200
)

// patience is how long a number of fences may take.
func (x *failRun) patience(fences int) time.Duration {
	return x.o.Times.Session + time.Duration(fences)*fencePace
}

// reservations is how many blocks of counters are reserved at a time: they share
// requests, and each waits for the control topic to be read past it.
const reservations = 256

// prime reads where the logs end before there is a fence. That makes the target's
// leader map know all partitions, in one request.
func (x *failRun) prime(ctx context.Context, fs []*fate) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Times.Try)
	defer cancel()
	ts := make([]appender.Target, len(fs))
	for i, f := range fs {
		ts[i] = f.target
	}
	ends := x.o.Target.Ends(ctx, ts)
	for _, f := range fs {
		if e, ok := ends[f.target]; ok && e.Err == nil {
			f.before, f.leader = e.LogEnd, e.Leader
		}
	}
}

// prepare does for all fences what can be done before they may go: meanwhile
// workers have the time to say that they stopped.
func (x *failRun) prepare(ctx context.Context) {
	var fresh []*fate
	for _, f := range x.unsafe() {
		if f.fencer == nil {
			o := x.m.order(f.part, time.Now().Add(x.patience(len(x.all))))
			o.floor = x.o.Store.CounterEnd(x.o.Link, f.m.SourceTopic, f.m.SourceID, f.n)
			f.fencer = newFencer(o)
			fresh = append(fresh, f)
		}
	}
	if len(fresh) == 0 {
		return
	}
	x.prime(ctx, fresh)
	x.askAll(ctx, fresh)
	x.each(fresh, func(f *fate) {
		for !f.fencer.ready() && ctx.Err() == nil {
			x.fenceStep(ctx, f)
		}
	})
}

// askAll asks what the leaders remember of all producers, in one request each.
func (x *failRun) askAll(ctx context.Context, fs []*fate) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Times.Try)
	defer cancel()
	ids := make(map[appender.Target]int64, len(fs))
	for _, f := range fs {
		ids[f.target] = f.producer
	}
	got := x.o.Target.ProducerStates(ctx, ids)
	for _, f := range fs {
		f.fencer.asked(got[f.target].ProducerState, got[f.target].Err)
	}
}

// fenceOne carries out what a fencer says, to its end.
func (x *failRun) fenceOne(ctx context.Context, f *fate) fenced {
	for ctx.Err() == nil {
		if x.fenceStep(ctx, f) {
			return f.fencer.out
		}
	}
	f.fencer.note(state.Unreachable, ctx.Err())
	return f.fencer.out
}

// fenceStep carries out one step and reports whether it was the last.
func (x *failRun) fenceStep(ctx context.Context, f *fate) (over bool) {
	st := f.fencer.step(time.Now())
	switch st.act {
	case fenceEnd:
		return true
	case fencePause:
		pause(ctx, st.pause)
	case fenceAsk:
		f.fencer.asked(x.remembered(ctx, f.part))
	case fenceReserve:
		f.fencer.reserved(x.reserve(ctx, f.part, st))
	case fenceWrite:
		x.write(ctx, f, st)
	}
	return false
}

func (x *failRun) remembered(ctx context.Context, p part) (appender.ProducerState, error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Times.Try)
	defer cancel()
	got := x.o.Target.ProducerStates(ctx, map[appender.Target]int64{p.target: p.producer})[p.target]
	return got.ProducerState, got.Err
}

func (x *failRun) reserve(ctx context.Context, p part, st fenceStep) (int32, error) {
	if !x.m.recorded {
		return 0, errNoRecord
	}
	x.slots <- struct{}{}
	defer func() { <-x.slots }()
	ctx, cancel := context.WithTimeout(ctx, x.o.Times.Record)
	defer cancel()
	return x.o.Store.ReserveCounters(ctx, control.CounterRequest{Link: x.o.Link, Topic: p.m.SourceTopic, SourceID: p.m.SourceID,
		Partition: p.n, Owner: x.o.Owner, Count: st.count, Above: st.above})
}

// write sends a fence once there is a place at its leader: partitions of a broker
// that hangs do not hold up others.
func (x *failRun) write(ctx context.Context, f *fate, st fenceStep) {
	door := x.door(f.leader)
	door <- struct{}{}
	defer func() { <-door }()
	if f.fencer.late(time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, x.patience(mostFences))
	defer cancel()
	got := x.o.Target.WriteMarkers(ctx, f.target, appender.Markers{
		Identity:          batch.Identity{ProducerID: f.producer, ProducerEpoch: st.epoch},
		CoordinatorEpochs: []int32{fenceEpoch(st.counter)}, LeaderEpoch: appender.AnyLeader})
	f.fencer.wrote(time.Now(), got)
}

func (x *failRun) door(leader int32) chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doors[leader] == nil {
		x.doors[leader] = make(chan struct{}, mostFences)
	}
	return x.doors[leader]
}

// putCuts records where the mirrors were cut (X4).
func (x *failRun) putCuts(ctx context.Context) {
	rs := cutRecords(x.o.Link, x.all, func(m *mirror) string { return m.stoppedBy(intent.Failover) })
	if len(rs) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, x.o.Times.Look)
	defer cancel()
	if err := x.o.Store.PutCuts(bounded, rs); err != nil {
		for _, r := range rs {
			x.troubles.first(r.Topic, state.ControlUnwritable, fmt.Errorf("its cut is not on record: %w", err))
		}
	}
}

func (x *failRun) result(ctx context.Context) (Result, error) {
	res := x.newResult()
	res.Notes = append(res.Notes, x.m.notes...)
	if x.m.recorded {
		id := x.m.id
		if !x.m.mine() {
			id = x.m.sc.mirrors[0].intent.Cause.Switch
		}
		res.Switch = &id
	}
	for _, m := range x.m.sc.mirrors {
		if !x.m.recorded && m.intent.Want != intent.Stopped {
			x.troubles.first(m.SourceTopic, state.ControlUnwritable, fmt.Errorf("the stop is not on record: %w", x.m.recordErr))
		}
		for _, f := range x.all {
			if f.m == m && f.cut == nil {
				x.troubles.partition(f)
			}
		}
		res.Topics = append(res.Topics, topic(m, x.all, x.troubles, x.details))
	}
	res.Groups = x.groupNumbers(ctx, x.all)
	return res.end()
}
