package appender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

const (
	// idFresh is how old a broker's word on a topic's id may be when markers are
	// sent to it by name. It also bounds how long a connection may have been idle:
	// asking first shows that it still stands, where markers on one that the broker
	// has closed would be in doubt.
	idFresh = time.Second
	// greetTimeout is for one try to dial, log in and ask. There are two: the
	// first may meet a connection that the broker has closed.
	greetTimeout = 5 * time.Second
)

// markerLane is one marker connection to one broker with one request in flight.
type markerLane struct {
	d      *desk
	broker int32
	queue  *markerQueue
	client *kgo.Client
	met    *brokerMarkerMetrics
	known  map[string]knownID // what this broker said on this connection
}

type knownID struct {
	topicID
	at time.Time
}

func newMarkerLane(d *desk, broker int32, q *markerQueue, cl *kgo.Client) *markerLane {
	return &markerLane{d: d, broker: broker, queue: q, client: cl, met: d.met.broker(broker)}
}

func (l *markerLane) run(ctx context.Context) {
	for {
		under, cut := context.WithCancel(ctx)
		jobs := l.d.take(l.queue, cut)
		if jobs == nil {
			cut()
			return
		}
		l.carry(under, jobs)
		cut()
	}
}

// carry sends one request and concludes its jobs. ctx ends when Run ends or one
// of the callers gives up.
func (l *markerLane) carry(ctx context.Context, jobs []*markerJob) {
	jobs, err := l.greet(ctx, l.keepOwn(ctx, jobs))
	if err != nil {
		l.failUnsent(ctx, jobs, err)
		return
	}
	if len(jobs) == 0 {
		return
	}
	if jobs[0].settles() { // alone
		l.conclude(ctx, jobs[0], markerVerdict{outcome: MarkersDone}, true, nil)
		return
	}
	req := newMarkerRequest(jobs, l.d.a.opts.MarkerTimeout)
	l.met.sending(ctx, len(req.Markers))
	begun := time.Now()
	resp, err := l.send(ctx, req)
	l.met.settled(ctx, time.Since(begun))
	if err == nil && req.encoded.Load() {
		l.judge(ctx, jobs, resp)
		return
	}
	l.forget() // whatever it was, the connection is not to be trusted
	switch {
	case req.late.Load():
		l.failUnsent(ctx, jobs, context.DeadlineExceeded)
		return
	case !req.encoded.Load():
		l.failUnsent(ctx, jobs, l.explain(ctx, err))
		return
	}
	l.d.noteCut(l.queue, true)
	for _, j := range jobs {
		l.conclude(ctx, j, classifyMarkers(err, len(j.markers.CoordinatorEpochs)), true, err)
	}
}

// keepOwn drops jobs whose leader changed while they waited, and those whose
// topic the leader map knows by another id.
func (l *markerLane) keepOwn(ctx context.Context, jobs []*markerJob) []*markerJob {
	own := jobs[:0]
	for _, j := range jobs {
		leader, err := l.d.a.route(j.target)
		switch {
		case err != nil:
			l.refuseUnsent(ctx, j, err)
		case !j.settles() && j.markers.LeaderEpoch != AnyLeader && j.markers.LeaderEpoch != leader.Epoch:
			l.refuseUnsent(ctx, j, fmt.Errorf("%w: epoch %d, now %d", ErrLeaderEpoch, j.markers.LeaderEpoch, leader.Epoch))
		case leader.Broker != l.broker:
			l.d.again(j, leader)
		default:
			j.leader = leader
			own = append(own, j)
		}
	}
	return own
}

// greet makes the broker say what ids the jobs' topics have, on the connection
// that the markers will take, and drops jobs with another id. For a second its
// word is good. An error means that there is no answer and that nothing was sent.
func (l *markerLane) greet(ctx context.Context, jobs []*markerJob) ([]*markerJob, error) {
	names := l.stale(jobs)
	if len(names) == 0 {
		return jobs, nil
	}
	ids, err := l.ask(ctx, names)
	if err != nil {
		return jobs, err
	}
	now := time.Now()
	for _, name := range names {
		l.known[name] = knownID{ids[name], now}
	}
	good := jobs[:0]
	for _, j := range jobs {
		if err := l.known[j.target.Topic].is(j.target.ID); err != nil {
			l.refuseUnsent(ctx, j, err)
			continue
		}
		good = append(good, j)
	}
	return good, nil
}

// stale returns the topics to ask about and forgets what is too old.
func (l *markerLane) stale(jobs []*markerJob) []string {
	now := time.Now()
	for name, k := range l.known {
		if now.Sub(k.at) > idFresh || k.err != nil || !k.ok {
			delete(l.known, name)
		}
	}
	var names []string
	seen := make(map[string]bool, len(jobs))
	for _, j := range jobs {
		k, ok := l.known[j.target.Topic]
		if !seen[j.target.Topic] && (!ok || k.id != j.target.ID || j.settles()) {
			names = append(names, j.target.Topic)
		}
		seen[j.target.Topic] = true
	}
	return names
}

// ask puts the question, twice if need be: the first may meet a connection that
// the broker has closed.
func (l *markerLane) ask(ctx context.Context, names []string) (ids map[string]topicID, err error) {
	for range 2 {
		if ids, err = l.askOnce(ctx, names); err == nil {
			l.d.noteCut(l.queue, false)
			if l.known == nil {
				l.known = make(map[string]knownID)
			}
			return ids, nil
		}
		l.forget()
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, err
}

func (l *markerLane) askOnce(ctx context.Context, names []string) (map[string]topicID, error) {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	return topicIDs(ctx, markerConn{l.client.Broker(int(l.broker))}, names)
}

func (l *markerLane) forget() { l.known = nil }

// send makes the one try (A1) under a deadline (A6). Ending ctx closes the
// connection, which nobody else uses.
func (l *markerLane) send(ctx context.Context, req *markerRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.d.a.opts.MarkerTimeout)
	defer cancel()
	kresp, err := l.client.Broker(int(l.broker)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, ok := kresp.(*kmsg.WriteTxnMarkersResponse)
	if !ok {
		return nil, fmt.Errorf("markers answered by %T", kresp)
	}
	return resp, nil
}

// explain finds out whether a request never left because the broker does not
// know it: kgo's own error for that cannot be told from others.
func (l *markerLane) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	known, kErr := knowsRequest(ctx, l.client.Broker(int(l.broker)), int16(kmsg.WriteTxnMarkers))
	if kErr == nil && !known {
		return fmt.Errorf("%w: WriteTxnMarkers", ErrUnsupported)
	}
	return err
}

// judge concludes the jobs of an answered request.
func (l *markerLane) judge(ctx context.Context, jobs []*markerJob, resp *kmsg.WriteTxnMarkersResponse) {
	codes := indexMarkerAnswers(resp)
	for _, j := range jobs {
		code, ok := codes[markerPlaceOf(j)]
		err := kerr.ErrorForCode(code)
		switch {
		case !ok:
			v := markerVerdict{outcome: MarkersUnknown, reason: state.Unreachable, class: "no_answer", moved: true}
			l.conclude(ctx, j, v, true, ErrNoAnswer)
		case err == nil:
			l.conclude(ctx, j, markerVerdict{outcome: MarkersDone}, true, nil)
		default:
			if errors.Is(err, kerr.UnknownServerError) && code != kerr.UnknownServerError.Code {
				err = fmt.Errorf("error code %d: %w", code, err)
			}
			l.conclude(ctx, j, classifyMarkers(err, len(j.markers.CoordinatorEpochs)), true, err)
		}
	}
}

// failUnsent concludes jobs of a request that never left. Those that only
// shared it with one that was given up try again.
func (l *markerLane) failUnsent(ctx context.Context, jobs []*markerJob, err error) {
	for _, j := range jobs {
		if ctx.Err() != nil {
			l.d.again(j, j.leader)
			continue
		}
		l.conclude(ctx, j, unsentMarkers(err), false, err)
	}
}

// refuseUnsent concludes a job that has nowhere to go.
func (l *markerLane) refuseUnsent(ctx context.Context, j *markerJob, err error) {
	reason, right, _ := readVerdict(err, rightDescribe)
	if errors.Is(err, ErrLeaderEpoch) {
		reason = "" // the caller looks again and goes on
	}
	v := markerVerdict{outcome: MarkersNotSent, reason: reason, class: classNotSent, right: right, moved: true}
	l.conclude(ctx, j, v, false, err)
}

func (l *markerLane) conclude(ctx context.Context, j *markerJob, v markerVerdict, sent bool, err error) {
	r := MarkerResult{Outcome: v.outcome, Sent: sent, Leader: j.leader, Reason: v.reason}
	if err != nil {
		r.Err = &Fault{Op: j.op, Target: j.target, Broker: l.broker, Reason: v.reason, Right: v.right, Err: err}
	}
	if v.outcome != MarkersDone && !j.settles() {
		l.d.met.failed(ctx, v.class)
	}
	l.d.conclude(j, v, r)
}
