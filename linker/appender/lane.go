package appender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/fetcher/leaders"
	"klink/linker/state"
)

const opAppend = "append"

// lane is one produce connection to one broker with one request in flight.
type lane struct {
	a *Appender
	b *broker
	laneOptions
	met   *brokerMetrics
	items []*item // of the request under way
}

type laneOptions struct {
	client  *kgo.Client
	queue   *queue
	timeout time.Duration // for the broker to get all acknowledgements
}

func newLane(a *Appender, b *broker, o laneOptions) *lane {
	return &lane{a: a, b: b, laneOptions: o, met: a.met.broker(b.id)}
}

func (l *lane) run(ctx context.Context) {
	for {
		taken := l.a.take(l.queue, l.items[:0])
		if taken == nil {
			return
		}
		l.items = l.keepOwn(ctx, taken)
		var throttle time.Duration
		if len(l.items) > 0 {
			throttle = l.carry(ctx)
		}
		clear(taken) // batches must not outlive their Append
		if throttle > 0 {
			pause(ctx, throttle)
		}
	}
}

// keepOwn drops items whose leader changed while they waited: they go to the
// new leader's queue, or back to the caller where there is none.
func (l *lane) keepOwn(ctx context.Context, taken []*item) []*item {
	own := taken[:0]
	for _, it := range taken {
		leader, err := l.a.route(it.target)
		switch {
		case ctx.Err() != nil:
			l.giveBack(ctx, it)
		case err != nil:
			reason, right, _ := readVerdict(err, rightDescribe)
			v := verdict{outcome: NotSent, reason: reason, class: classNotSent, right: right, moved: true}
			l.settle(ctx, it, v, answer{base: -1, logStart: -1, err: err})
		case leader.Broker != l.b.id:
			it.leader = leader
			if !l.a.enqueue(it) {
				l.giveBack(ctx, it)
			}
		default:
			it.leader = leader
			own = append(own, it)
		}
	}
	return own
}

// giveBack settles an item that came too late.
func (l *lane) giveBack(ctx context.Context, it *item) {
	l.settle(ctx, it, verdict{outcome: NotSent, class: classNotSent}, answer{base: -1, logStart: -1, err: ErrStopped})
}

// carry sends one request and settles its items. It returns how long the
// broker wants this connection to be quiet.
func (l *lane) carry(ctx context.Context) (throttle time.Duration) {
	var req request
	req.build(l.items, l.timeout)
	l.met.sending(ctx, len(l.items), req.bytes)
	begun := time.Now()
	resp, err := l.send(ctx, &req)
	l.met.settled(ctx, req.bytes, time.Since(begun))

	if err != nil {
		sent := req.encoded.Load()
		v := classify(err, sent)
		for _, it := range l.items {
			l.settle(ctx, it, v, answer{base: -1, logStart: -1, sent: sent, err: err})
		}
		return 0
	}
	throttle = time.Duration(resp.ThrottleMillis) * time.Millisecond
	l.met.throttled(ctx, throttle)
	found := indexAnswers(resp)
	for _, it := range l.items {
		v, ans := l.judge(it, found.find(it.target))
		ans.throttle = throttle
		l.settle(ctx, it, v, ans)
	}
	return throttle
}

// send makes the one try (A1) under a deadline (A6). Ending ctx closes the
// connection, which nobody else uses.
func (l *lane) send(ctx context.Context, req *request) (*kmsg.ProduceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout+answerGrace)
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
	if was, is := l.a.remember(it.target, v, moved); was != is {
		l.a.opts.Logger.Debug("partition changed lanes", "link", l.a.opts.Link, "topic", it.target.Topic,
			"partition", it.target.Partition, "slow", is, "class", v.class)
	}
	if v.outcome != Appended {
		l.a.met.failed(ctx, v.class)
	} else if it.follow == More && l.queue != l.b.slow {
		l.a.comesBack(l.queue, it.target)
	}
	it.done <- r
}

// remember ends the partition's append. Only an error-free answer brings it
// back from the slow lane. It tells whether the partition was and is slow.
func (a *Appender) remember(t Target, v verdict, moved bool) (was, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parts[t]
	if p == nil {
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
	p.moved = moved
	a.releaseLocked(t)
	return was, p.slow
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
