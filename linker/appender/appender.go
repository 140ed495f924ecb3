package appender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"klink/fetcher/gather"
	"klink/fetcher/leaders"
	"klink/linker/state"
)

// Defaults of Options.
const (
	// DefaultMaxRequestBytes: at some 45 µs of CPU per request and 1 s per GB,
	// a larger request saves nothing more, and it holds its lane for longer.
	DefaultMaxRequestBytes = 4 << 20
	// DefaultRequestTimeout is the broker's time to get all acknowledgements on
	// the slow lane; kgo's and Java's producers wait as long.
	DefaultRequestTimeout = 10 * time.Second
	// DefaultFastTimeout is the same for the other lanes. A partition whose
	// followers hang delays its neighbours in one request by this much, once.
	DefaultFastTimeout = 3 * time.Second
)

// answerGrace is how much longer than the broker's timeout a request may take
// on the way: dialling, sending, and the answer's way back.
const answerGrace = 3 * time.Second

// Options of New; Lanes, Slow, Admin and Leaders are required.
type Options struct {
	// Lanes are the produce clients: one request per broker is in flight on
	// each. They must not be used for anything else, and their RequiredAcks must
	// not be NoAck (kgo then never reads answers).
	Lanes []*kgo.Client
	// Slow carries partitions whose answers let others wait.
	Slow *kgo.Client
	// Admin asks for log ends and producer states.
	Admin *kgo.Client
	// Leaders is the target cluster's map.
	Leaders *leaders.Map
	// MaxRequestBytes bounds the batches of one request (A3).
	MaxRequestBytes int32
	// RequestTimeout and FastTimeout: see the defaults.
	RequestTimeout time.Duration
	FastTimeout    time.Duration
	Logger         *slog.Logger
	Meter          metric.Meter
	// Link labels the metrics.
	Link string
	// Markers and MarkerBulks are the clients for WriteMarkers: one request per
	// broker is in flight on each, and nothing is dialled before there are markers.
	// They must not be used for anything else, and closing their connections must
	// reset them. Without them there are no markers.
	Markers     *kgo.Client
	MarkerBulks *kgo.Client
	// MarkerTimeout: see DefaultMarkerTimeout.
	MarkerTimeout time.Duration
}

func (o *Options) setDefaults() {
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = DefaultMaxRequestBytes
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.FastTimeout <= 0 {
		o.FastTimeout = min(DefaultFastTimeout, o.RequestTimeout)
	}
	if o.MarkerTimeout <= 0 {
		o.MarkerTimeout = DefaultMarkerTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = noop.NewMeterProvider().Meter("")
	}
}

// Target is a partition of a certain topic of the target cluster.
type Target struct {
	Topic string
	// ID is zero only on clusters without topic ids.
	ID        [16]byte
	Partition int32
}

// Result is what became of one batch.
type Result struct {
	Outcome Outcome
	// Base is the base offset of an error-free answer, else -1 (A7).
	Base int64
	// LogStart is the partition's log start from that answer, -1 if unknown.
	LogStart int64
	// Retimed: the target replaced the records' timestamps by its own time,
	// since its message.timestamp.type is LogAppendTime. The records are written.
	Retimed bool
	// Reason is "" where there is nothing for status to show.
	Reason state.Reason
	// Err is a *Fault for every outcome but Appended.
	Err error
	// Sent: the batch may have reached a broker.
	Sent bool
	// Leader is who was asked, Broker -1 where nobody was.
	Leader leaders.Leader
	// ThrottleFor is the time the broker asked to pause for; the lane obeys it.
	ThrottleFor time.Duration
}

// nobody leads.
var nobody = leaders.Leader{Broker: -1, Epoch: -1}

// Appender is safe for concurrent use.
type Appender struct {
	opts Options
	met  *metrics
	wake chan struct{} // size 1: brokers without goroutines exist
	desk *desk

	mu      sync.Mutex // guards all below; never held over a request
	running bool
	stopped bool
	brokers map[int32]*broker
	parts   map[Target]*part
	states  map[int32]*gather.Desk[stateOf, AskedState] // by broker; see ProducerState
}

// part is kept for a partition that is busy or remembered for a reason.
type part struct {
	under int   // batches in queues and requests
	next  *item // parked behind the last of these (A8)
	slow  bool  // next batch goes to the slow lane
	moved bool  // ask for the leader before the next batch
	cuts  int   // requests in a row that ended with the connection
}

// New returns an appender that sends nothing before Run.
func New(o Options) *Appender {
	o.setDefaults()
	a := &Appender{opts: o, met: newMetrics(o.Meter, o.Link), wake: make(chan struct{}, 1),
		brokers: make(map[int32]*broker), parts: make(map[Target]*part),
		states: make(map[int32]*gather.Desk[stateOf, AskedState])}
	a.desk = newDesk(a)
	return a
}

// Run serves Append until ctx ends, then cuts requests under way (Unknown),
// gives back what waits (NotSent) and returns nil once its goroutines ended.
// A caller that wants to drain waits for its Appends before it ends ctx.
func (a *Appender) Run(ctx context.Context) error {
	if err := a.begin(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { a.desk.run(ctx) })
	for _, cl := range append(slices.Clone(a.opts.Lanes), a.opts.Slow) {
		wg.Go(func() { introduce(ctx, cl) })
	}
	for ctx.Err() == nil {
		for _, b := range a.unserved() {
			a.serve(ctx, b, &wg)
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
		}
	}
	a.stop()
	wg.Wait()
	return nil
}

func (a *Appender) begin() error {
	if len(a.opts.Lanes) == 0 || a.opts.Slow == nil || a.opts.Admin == nil || a.opts.Leaders == nil {
		return errors.New("appender options: lanes, slow and admin clients and the leader map are required")
	}
	for _, cl := range append(slices.Clone(a.opts.Lanes), a.opts.Slow) {
		if cl.OptValue(kgo.RequiredAcks) == kgo.NoAck() {
			return errors.New("appender options: a produce client has RequiredAcks(NoAck)")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running || a.stopped {
		return errors.New("appender runs once")
	}
	a.running = true
	return nil
}

// Follow tells whether a batch is followed by another of its partition at once.
type Follow bool

// The two answers.
const (
	// More: the next batch comes as soon as this one is answered.
	More Follow = true
	// Last: nobody knows when the next one comes.
	Last Follow = false
)

// Append sends one patched batch (base offset 0, the partition's producer id
// and sequence) and blocks until it is settled. expect is the base offset it
// must get.
func (a *Appender) Append(ctx context.Context, t Target, batch []byte, expect int64) Result {
	return a.Begin(ctx, t, Batch{Bytes: batch, Expect: expect}).Wait(ctx)
}

// Batch is a patched batch with where it must land and what is around it.
type Batch struct {
	Bytes  []byte
	Expect int64
	Follow Follow
	// After is the append of the same partition that comes before this one, if
	// that may still be under way. The batch then travels behind it on the same
	// connection, and comes back as NotSent where After is known to have failed
	// (A8). It must be such that a broker which did not write After refuses it:
	// a sequence that the broker remembers does that.
	After *Pending
}

// Pending is an append under way.
type Pending struct {
	a    *Appender
	it   *item
	done chan Result // size 1: a lane never waits for a caller

	// settled and outcome are guarded by Appender.mu.
	settled bool
	outcome Outcome
}

// Settled returns an append that has ended.
func Settled(r Result) *Pending {
	p := &Pending{done: make(chan Result, 1), settled: true, outcome: r.Outcome}
	p.done <- r
	return p
}

// Promise returns an append that ends when settle is called: for whoever stands
// in for an Appender.
func Promise() (p *Pending, settle func(Result)) {
	p = &Pending{done: make(chan Result, 1)}
	return p, func(r Result) { p.done <- r }
}

// Done gives the result, once.
func (p *Pending) Done() <-chan Result { return p.done }

// Wait blocks until the append is settled. When ctx ends, a waiting batch is
// taken back; one that is under way is waited for, which its deadline bounds.
// Of Wait and Done only one can be used.
func (p *Pending) Wait(ctx context.Context) Result {
	select {
	case r := <-p.done:
		return r
	case <-ctx.Done():
		if p.a != nil {
			p.a.withdraw(p.it, ctx.Err())
		}
		return <-p.done
	}
}

// Begin starts to send one patched batch. A partition may have a second one
// under way if it says what it follows (Batch.After); a third is refused with
// ErrBusy. The bytes must not
// change until the append is settled. Begin may ask the cluster for the
// partition's leader first, which ctx bounds.
func (a *Appender) Begin(ctx context.Context, t Target, b Batch) *Pending {
	if err := checkBatch(b.Bytes); err != nil {
		r := notSent(t, err)
		r.Reason = state.Corrupt
		return Settled(r)
	}
	it := &item{target: t, batch: b.Bytes, expect: b.Expect, follow: b.Follow, after: b.After}
	it.pending = &Pending{a: a, it: it, done: make(chan Result, 1)}
	moved, behind, err := a.admit(it)
	switch {
	case err != nil:
		return Settled(notSent(t, err))
	case behind:
		return it.pending
	}
	leader, fault := a.routeAsking(ctx, t, moved)
	if fault != nil {
		a.met.failed(ctx, classNotSent)
		a.end(it, Result{Outcome: NotSent, Base: -1, LogStart: -1, Leader: leader, Reason: fault.Reason, Err: fault})
		return it.pending
	}
	it.leader = leader
	if !a.enqueue(it) {
		a.end(it, notSent(t, ErrStopped))
	}
	return it.pending
}

func notSent(t Target, err error) Result {
	return Result{Outcome: NotSent, Base: -1, LogStart: -1, Leader: nobody,
		Err: &Fault{Op: opAppend, Target: t, Broker: -1, Err: err}}
}

// introduce makes a client learn the cluster's brokers while all is well. Left
// to its first request, it would ask any seed, and one that hangs would use up
// the deadline of a request to another broker.
func introduce(ctx context.Context, cl *kgo.Client) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none, not all
	// An error changes nothing: the first request asks again.
	_, _ = cl.Request(ctx, req)
}

// admit takes a batch in: as the first under way, or behind that one. It tells
// whether the partition's leader is in doubt.
func (a *Appender) admit(it *item) (moved, behind bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	after := it.after
	if a.stopped {
		return false, false, ErrStopped
	}
	if after != nil && after.settled && after.outcome != Appended {
		return false, false, ErrPredecessor
	}
	p := a.parts[it.target]
	if p == nil {
		p = &part{}
		a.parts[it.target] = p
	}
	switch {
	case p.under == 0:
		p.under = 1
		moved, p.moved = p.moved, false
		return moved, false, nil
	case after == nil || after.settled || after.it.target != it.target || p.next != nil || p.under == requestsInFlight:
		return false, false, ErrBusy
	case after.it.onLane != nil:
		a.followLocked(p, after.it, it)
	default:
		p.next = it
	}
	return false, true, nil
}

// end settles an item that no lane has.
func (a *Appender) end(it *item, r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endLocked(it, r)
}

// endLocked gives an item its result, and lets the batch that is parked behind
// it go, or come back unsent (A8).
func (a *Appender) endLocked(it *item, r Result) {
	it.settleLocked(r)
	p := a.parts[it.target]
	if p == nil {
		return
	}
	p.under--
	if next := p.next; next != nil && next.after == it.pending {
		p.next = nil
		switch {
		case a.stopped:
			next.settleLocked(notSent(it.target, ErrStopped))
		case r.Outcome != Appended:
			next.settleLocked(notSent(it.target, ErrPredecessor))
		default:
			p.under++
			next.leader = it.leader // the lane looks again
			a.enqueueLocked(next)
		}
	}
	if p.under == 0 && !p.slow && !p.moved {
		delete(a.parts, it.target)
	}
}

// route looks a partition's leader up and compares the topic's id with the one
// the map knows, which is what protects below Produce v13.
func (a *Appender) route(t Target) (leaders.Leader, error) {
	s, ok := a.opts.Leaders.Look(t.Topic, t.Partition)
	switch {
	case !ok:
		return nobody, ErrNoLeader
	case s.Err != nil:
		return nobody, s.Err
	case s.ID != t.ID:
		return nobody, fmt.Errorf("%w: %x, now %x", ErrTopicID, t.ID, s.ID)
	case !s.Exists:
		return nobody, kerr.UnknownTopicOrPartition
	case s.Broker < 0:
		return nobody, fmt.Errorf("%w: %w", ErrNoLeader, s.Absence())
	}
	return s.Leader, nil
}

// askPatience bounds the look for a new leader where an old one is known: some
// broker may hang, and if the known leader is the right one after all, asking
// it does no harm.
const askPatience = 2 * time.Second

// routeAsking asks the cluster first where the leader is in doubt, and once
// where the map has no answer.
func (a *Appender) routeAsking(ctx context.Context, t Target, doubt bool) (leaders.Leader, *Fault) {
	l, err := a.route(t)
	switch {
	case err != nil:
		if err = a.opts.Leaders.Refresh(ctx, t.Topic); err == nil {
			l, err = a.route(t)
		}
	case doubt:
		if a.refreshSoon(ctx, t.Topic) {
			l, err = a.route(t)
		}
	}
	if err == nil {
		return l, nil
	}
	reason, right, _ := readVerdict(err, rightDescribe)
	return nobody, &Fault{Op: opAppend, Target: t, Broker: -1, Reason: reason, Right: right,
		Err: fmt.Errorf("find the leader: %w", err)}
}

func (a *Appender) refreshSoon(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return a.opts.Leaders.Refresh(ctx, topic) == nil
}
