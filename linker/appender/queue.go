package appender

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"klink/fetcher/leaders"
)

// item is one batch on its way.
type item struct {
	target Target
	batch  []byte
	expect int64
	follow Follow
	leader leaders.Leader
	cuts   int    // of the partition so far; see part.cuts
	in     *queue // where it waits, nil once taken; guarded by Appender.mu

	pending *Pending
	after   *Pending
	// follower: queued while its predecessor was in flight on the same lane.
	follower bool
	// onLane is the lane whose connection the batch is on, once its bytes are
	// made; guarded by Appender.mu.
	onLane *lane
}

// settleLocked tells the caller. It lets go of the batch and of what it followed:
// the next one holds on to this one, and so on without end.
func (it *item) settleLocked(r Result) {
	it.batch, it.after = nil, nil
	it.pending.settled, it.pending.outcome = true, r.Outcome
	it.pending.done <- r
}

// queue is what waits for one lane, first in, first out. All fields are guarded
// by Appender.mu.
type queue struct {
	ready *sync.Cond
	items []*item
	head  int

	// returning are the partitions whose last batch on this lane was answered
	// without error and whose next one is ready and on its way here. The lane
	// waits for them, gatherLimit at most, so that partitions that travelled
	// together do so again: otherwise the first to come would leave alone, and the
	// others one by one, at twice the cost for the broker.
	returning map[Target]struct{}
	patience  *time.Timer

	flying     int       // requests of the lane that are not answered
	followers  int       // of items, those whose predecessor is in flight
	quietUntil time.Time // as the broker asked for
}

// gatherLimit is how long a lane waits for partitions that are on their way. A
// loop that was told of its batch comes back within some ten microseconds, where
// a processor is free for it; what takes longer is not waited for.
const gatherLimit = time.Millisecond

func (a *Appender) newQueue() *queue {
	return &queue{ready: sync.NewCond(&a.mu), returning: make(map[Target]struct{})}
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(it *item) {
	it.in = q
	q.items = append(q.items, it)
	q.ready.Signal()
}

func (q *queue) pop() *item {
	it := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.left(it)
	return it
}

// left notes that an item is no longer in the queue.
func (q *queue) left(it *item) {
	it.in = nil
	if it.follower {
		q.followers--
		it.follower = false
	}
}

// broker holds what waits for one node.
type broker struct {
	id     int32
	served bool     // has goroutines
	fast   []*queue // one per lane
	slow   *queue
}

// queueFor returns the queue of the partition's lane. It stays the same one, so
// that partitions are spread evenly and those of one topic do not all meet on
// one lane.
func (b *broker) queueFor(t Target) *queue {
	h := fnv.New32a()
	h.Write([]byte(t.Topic)) // never fails
	return b.fast[(h.Sum32()+uint32(t.Partition))%uint32(len(b.fast))]
}

// comesBackLocked notes that the partition's next batch will come to this queue.
func (a *Appender) comesBackLocked(q *queue, t Target) {
	if len(q.returning) == 0 {
		if q.patience != nil {
			q.patience.Stop()
		}
		q.patience = time.AfterFunc(gatherLimit, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			clear(q.returning)
			q.ready.Signal()
		})
	}
	q.returning[t] = struct{}{}
}

// unserved returns the brokers that have no goroutines yet, which they get.
func (a *Appender) unserved() []*broker {
	a.mu.Lock()
	defer a.mu.Unlock()
	var bs []*broker
	for _, b := range a.brokers {
		if !b.served {
			b.served = true
			bs = append(bs, b)
		}
	}
	return bs
}

// serve starts one goroutine per lane for a broker (A4, A6).
func (a *Appender) serve(ctx context.Context, b *broker, wg *sync.WaitGroup) {
	for i, cl := range a.opts.Lanes {
		l := newLane(a, b, laneOptions{client: cl, queue: b.fast[i], timeout: a.opts.FastTimeout, window: requestsInFlight})
		wg.Go(func() { l.run(ctx) })
	}
	l := newLane(a, b, laneOptions{client: a.opts.Slow, queue: b.slow, timeout: a.opts.RequestTimeout, window: 1})
	wg.Go(func() { l.run(ctx) })
}

// stop ends the intake, wakes all lanes and gives back what waited. What is under
// way is settled by its lane.
func (a *Appender) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	for _, b := range a.brokers {
		for _, q := range append(slices.Clone(b.fast), b.slow) {
			clear(q.returning)
			for q.len() > 0 {
				it := q.pop()
				a.endLocked(it, notSent(it.target, ErrStopped))
			}
			q.ready.Broadcast()
		}
	}
}

// enqueue puts an item into its leader's queue; false once stopped.
func (a *Appender) enqueue(it *item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	a.enqueueLocked(it)
	return true
}

func (a *Appender) enqueueLocked(it *item) {
	b := a.brokers[it.leader.Broker]
	if b == nil {
		b = &broker{id: it.leader.Broker, slow: a.newQueue()}
		for range a.opts.Lanes {
			b.fast = append(b.fast, a.newQueue())
		}
		a.brokers[b.id] = b
		select {
		case a.wake <- struct{}{}:
		default: // Run is woken already and will see this one too
		}
	}
	q := b.queueFor(it.target)
	delete(q.returning, it.target)
	if p := a.parts[it.target]; p != nil && p.slow {
		it.cuts = p.cuts
		b.slow.push(it)
	} else {
		q.push(it)
	}
}

// withdraw takes an item back that no lane has taken yet, for a cause.
func (a *Appender) withdraw(it *item, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.parts[it.target]; p != nil && p.next == it {
		p.next = nil
		it.settleLocked(notSent(it.target, cause))
		return
	}
	q := it.in
	if q == nil {
		return
	}
	i := slices.Index(q.items[q.head:], it) + q.head
	q.items = slices.Delete(q.items, i, i+1)
	q.left(it)
	a.endLocked(it, notSent(it.target, cause))
}

// requestsInFlight is how many requests a lane has on its connection. A broker
// works on one at a time; the second is there when the first is answered.
const requestsInFlight = 2

// onItsWay notes that the bytes of items are on a lane's connection, and lets
// what is parked behind them follow (A8).
func (a *Appender) onItsWay(l *lane, items []*item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.window == 1 || a.stopped {
		return
	}
	for _, it := range items {
		it.onLane = l
		p := a.parts[it.target]
		if it.pending.settled || p == nil || p.next == nil || p.next.after != it.pending {
			continue
		}
		a.followLocked(p, it, p.next)
		p.next = nil
	}
}

// followLocked queues a batch behind the one before it, for the same lane.
func (a *Appender) followLocked(p *part, before, it *item) {
	p.under++
	it.leader = before.leader
	q := before.onLane.queue
	delete(q.returning, it.target)
	it.follower = true
	q.followers++
	q.push(it)
}

// answered ends one request of a lane, which is to be quiet for a while.
func (a *Appender) answered(q *queue, quiet time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q.flying--
	if quiet > 0 {
		q.quietUntil = time.Now().Add(quiet)
		time.AfterFunc(quiet, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			q.ready.Signal()
		})
	}
	q.ready.Signal()
}

// standing is what is known of the batch before an item.
type standing int

const (
	none   standing = iota // there is none, or it was appended
	flying                 // not settled yet
	failed
)

func (a *Appender) predecessor(it *item) standing {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case it.after == nil, it.after.settled && it.after.outcome == Appended:
		return none
	case it.after.settled:
		return failed
	}
	return flying
}

// mayLeave tells whether a request can be made of what waits. A second one on
// the connection is for those whose predecessor is in the first: others find
// more company if they wait for the answer.
func (q *queue) mayLeave() bool {
	return q.len() > 0 && len(q.returning) == 0 && (q.flying == 0 || q.followers > 0) && !time.Now().Before(q.quietUntil)
}

// take blocks until something waits, and nobody else is about to come, and
// returns what fits into one request in the order of its coming, at least one
// item; nil once stopped.
func (a *Appender) take(q *queue, into []*item) []*item {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !q.mayLeave() && !a.stopped {
		q.ready.Wait()
	}
	if a.stopped {
		return nil
	}
	q.flying++
	bytes, most := 0, math.MaxInt
	for q.len() > 0 {
		it := q.items[q.head]
		size := len(it.batch)
		most = min(most, companyOf(it))
		if len(into) > 0 && (len(into) >= most || bytes+size > int(a.opts.MaxRequestBytes)) {
			break
		}
		bytes += size
		into = append(into, q.pop())
	}
	return into
}

// companyOf is the most partitions of a request that carries the item: ever
// fewer after cuts in a row, so that a batch that makes a broker hang up is
// soon alone with its fate.
func companyOf(it *item) int {
	if it.cuts == 0 {
		return math.MaxInt
	}
	return max(1, cutCompany>>it.cuts)
}

// cutCompany>>1 partitions share a request after the first cut, and after seven
// cuts each is alone. A broker that restarts costs one cut.
const cutCompany = 128
