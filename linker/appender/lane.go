package appender

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/fetcher/leaders"
	"klink/linker/state"
)

const opAppend = "append"

// lane is one produce connection to one broker.
type lane struct {
	a *Appender
	b *broker
	laneOptions
	met *brokerMetrics
}

type laneOptions struct {
	client  *kgo.Client
	queue   *queue
	timeout time.Duration // for the broker to get all acknowledgements
	window  int           // requests in flight
}

func newLane(a *Appender, b *broker, o laneOptions) *lane {
	return &lane{a: a, b: b, laneOptions: o, met: a.met.broker(b.id)}
}

// run sends what comes to the queue. Requests go out one after the other: the
// next is begun once kgo has made the bytes of the one before it, which puts it
// behind that one on the connection. They are settled in the same order.
func (l *lane) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, l.window)
	before := make(chan struct{})
	close(before)
	for {
		places <- struct{}{} // every request has a deadline
		taken := l.a.take(l.queue, nil)
		if taken == nil {
			return
		}
		items := l.keepOwn(ctx, taken)
		if len(items) == 0 {
			l.a.answered(l.queue, 0)
			<-places
			continue
		}
		x := &exchange{lane: l, items: items, before: before, done: make(chan struct{})}
		before = x.done
		x.req.build(items, l.timeout)
		wg.Go(func() {
			l.a.answered(l.queue, x.carry(ctx))
			<-places
			close(x.done)
		})
		select {
		case <-x.req.encoded:
			l.a.onItsWay(l, items)
		case <-x.done:
		}
	}
}

// keepOwn drops items whose leader changed while they waited: they go to the
// new leader's queue, or back to the caller where there is none. One whose
// predecessor is in flight here goes nowhere else (A8).
func (l *lane) keepOwn(ctx context.Context, taken []*item) []*item {
	own := taken[:0]
	for _, it := range taken {
		leader, err := l.a.route(it.target)
		before := l.a.predecessor(it)
		switch {
		case ctx.Err() != nil:
			l.giveBack(ctx, it, ErrStopped)
		case before == failed, before == flying && (err != nil || leader.Broker != l.b.id):
			l.giveBack(ctx, it, ErrPredecessor)
		case err != nil:
			reason, right, _ := readVerdict(err, rightDescribe)
			v := verdict{outcome: NotSent, reason: reason, class: classNotSent, right: right, moved: true}
			l.settle(ctx, it, v, answer{base: -1, logStart: -1, err: err})
		case leader.Broker != l.b.id:
			it.leader = leader
			if !l.a.enqueue(it) {
				l.giveBack(ctx, it, ErrStopped)
			}
		default:
			it.leader = leader
			own = append(own, it)
		}
	}
	return own
}

// giveBack settles an item that was not sent.
func (l *lane) giveBack(ctx context.Context, it *item, cause error) {
	l.settle(ctx, it, verdict{outcome: NotSent, class: classNotSent}, answer{base: -1, logStart: -1, err: cause})
}

// exchange is one request and its answer.
type exchange struct {
	*lane
	req    request
	items  []*item
	before <-chan struct{} // closed once the exchange before it is settled
	done   chan struct{}
}

// carry sends the request and settles its items. It returns how long the broker
// wants this connection to be quiet.
func (x *exchange) carry(ctx context.Context) (throttle time.Duration) {
	x.met.sending(ctx, len(x.items), x.req.bytes)
	begun := time.Now()
	limit := x.timeout + answerGrace
	select {
	case <-x.before:
	default:
		limit += x.timeout // its turn comes after that of the one before it
	}
	resp, err := x.send(ctx, &x.req, limit)
	x.met.settled(ctx, x.req.bytes, time.Since(begun))
	<-x.before
	if err != nil {
		sent := x.req.made.Load()
		v := classify(err, sent)
		for _, it := range x.items {
			x.settle(ctx, it, v, answer{base: -1, logStart: -1, sent: sent, err: err})
		}
		return 0
	}
	throttle = time.Duration(resp.ThrottleMillis) * time.Millisecond
	x.met.throttled(ctx, throttle)
	found := indexAnswers(resp)
	for _, it := range x.items {
		v, ans := x.judge(it, found.find(it.target))
		ans.throttle = throttle
		x.settle(ctx, it, v, ans)
	}
	return throttle
}

// send makes the one try (A1) under a deadline (A6). Ending ctx closes the
// connection, which nobody else uses.
func (l *lane) send(ctx context.Context, req *request, limit time.Duration) (*kmsg.ProduceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	kresp, err := l.client.Broker(int(l.b.id)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, ok := kresp.(*kmsg.ProduceResponse)
	if !ok {
		return nil, fmt.Errorf("produce answered by %T", kresp)
	}
	return resp, nil
}

// answer is one partition's part of an answer, or what came instead.
type answer struct {
	base     int64
	logStart int64
	retimed  bool
	sent     bool
	throttle time.Duration
	detail   string
	err      error
}

// judge turns one partition's answer into a verdict.
func (l *lane) judge(it *item, p *kmsg.ProduceResponseTopicPartition) (verdict, answer) {
	ans := answer{base: -1, logStart: -1, sent: true}
	if p == nil {
		ans.err = ErrNoAnswer
		return verdict{outcome: Unknown, reason: state.Unreachable, class: "no_answer", moved: true}, ans
	}
	if p.ErrorCode != 0 {
		err := kerr.ErrorForCode(p.ErrorCode)
		ans.err, ans.detail = err, detail(p)
		if errors.Is(err, kerr.UnknownServerError) && p.ErrorCode != kerr.UnknownServerError.Code {
			ans.err = fmt.Errorf("error code %d: %w", p.ErrorCode, err)
		}
		if p.CurrentLeader.LeaderID >= 0 { // KIP-951, v10+
			l.a.opts.Leaders.Hint(it.target.Topic, it.target.Partition,
				leaders.Leader{Broker: p.CurrentLeader.LeaderID, Epoch: p.CurrentLeader.LeaderEpoch})
		}
		return classify(ans.err, true), ans
	}
	ans.base, ans.logStart, ans.retimed = p.BaseOffset, p.LogStartOffset, retimed(p.LogAppendTime, it.batch)
	v := judgeOffset(p.BaseOffset, it.expect)
	if v.outcome != Appended {
		ans.err = fmt.Errorf("%w: got %d, expected %d", ErrOffset, p.BaseOffset, it.expect)
	}
	return v, ans
}

// retimed tells whether an answer's append time means that the broker gave the
// records its own time. The answer for a duplicate carries one on every topic:
// the max timestamp of the batch that is there (UnifiedLog.append), which is the
// batch's own unless that one was given another time.
func retimed(appendTime int64, b []byte) bool {
	if appendTime < 0 {
		return false
	}
	h, err := batch.ParseHeader(b)
	return err != nil || appendTime != h.MaxTimestamp
}

// settle remembers what the verdict means for the partition's next batch and
// gives the caller its result.
func (l *lane) settle(ctx context.Context, it *item, v verdict, ans answer) {
	r := Result{Outcome: v.outcome, Base: ans.base, LogStart: ans.logStart, Retimed: ans.retimed,
		Reason: v.reason, Sent: ans.sent, Leader: it.leader, ThrottleFor: ans.throttle}
	if ans.err != nil {
		r.Err = &Fault{Op: opAppend, Target: it.target, Broker: l.b.id, Reason: v.reason,
			Right: v.right, Detail: ans.detail, Err: ans.err}
	}
	moved := v.moved
	if now, ok := l.a.opts.Leaders.Leader(it.target.Topic, it.target.Partition); ok && now.Epoch > it.leader.Epoch {
		moved = false // a hint, or somebody's refresh, has told already
	}
	if v.outcome != Appended {
		l.a.met.failed(ctx, v.class)
	}
	if was, is := l.a.conclude(l, it, v, moved, r); was != is {
		l.a.opts.Logger.Debug("partition changed lanes", "link", l.a.opts.Link, "topic", it.target.Topic,
			"partition", it.target.Partition, "slow", is, "class", v.class)
	}
}

// conclude ends a partition's append. Only an error-free answer brings it back
// from the slow lane. It tells whether the partition was and is slow.
func (a *Appender) conclude(l *lane, it *item, v verdict, moved bool, r Result) (was, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parts[it.target]
	if p == nil { // cannot be: an item under way keeps its partition
		it.settleLocked(r)
		return false, false
	}
	was = p.slow
	switch {
	case v.cut:
		p.cuts = min(p.cuts+1, 16)
	case v.outcome != NotSent:
		p.cuts = 0
	}
	switch {
	case v.slow:
		p.slow = true
	case v.outcome == Appended, v.outcome == Duplicate, v.outcome == Misplaced:
		p.slow = false
	}
	p.moved, is = moved, p.slow
	if v.outcome == Appended && it.follow == More && p.next == nil && l.queue != l.b.slow {
		a.comesBackLocked(l.queue, it.target)
	}
	a.endLocked(it, r)
	return was, is
}
