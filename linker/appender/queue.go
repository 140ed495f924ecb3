package appender

import (
	"context"
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
	cuts   int         // of the partition so far; see part.cuts
	in     *queue      // where it waits, nil once taken; guarded by Appender.mu
	done   chan Result // size 1: a lane never waits for a caller
}

// queue is first in, first out. All fields are guarded by Appender.mu.
type queue struct {
	ready *sync.Cond
	items []*item
	head  int
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
	it.in = nil
	return it
}

// broker holds what waits for one node. All but id are guarded by Appender.mu.
type broker struct {
	id         int32
	served     bool // has goroutines
	fast, slow *queue
	// returning are the partitions whose last batch was answered without error,
	// and whose next one is ready and on its way here.
	returning map[Target]struct{}
	// back is signalled when the last of them came.
	back chan struct{} // size 1
}

// gatherLimit is how long a lane waits for partitions that are on their way. A
// loop that was told of its batch comes back within some ten microseconds, where
// a processor is free for it; what takes longer is not waited for.
const gatherLimit = time.Millisecond

// gather lets a lane that answered many partitions carry them together again.
// Without it the first to come would leave alone, and the others one by one,
// at twice the cost for the broker.
func (a *Appender) gather(ctx context.Context, b *broker) {
	a.mu.Lock()
	n := len(b.returning)
	a.mu.Unlock()
	if n == 0 {
		return
	}
	t := time.NewTimer(gatherLimit)
	defer t.Stop()
	select {
	case <-b.back:
	case <-t.C:
		a.mu.Lock()
		clear(b.returning)
		a.mu.Unlock()
	case <-ctx.Done():
	}
}

// cameLocked notes that a partition's next batch is here.
func (b *broker) cameLocked(t Target) {
	if _, ok := b.returning[t]; !ok {
		return
	}
	delete(b.returning, t)
	if len(b.returning) == 0 {
		select {
		case b.back <- struct{}{}:
		default: // signalled already
		}
	}
}

// comesBack notes that a partition's next batch will come.
func (a *Appender) comesBack(b *broker, t Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-b.back: // of an earlier round
	default:
	}
	b.returning[t] = struct{}{}
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
	for _, cl := range a.opts.Lanes {
		l := newLane(a, b, laneOptions{client: cl, queue: b.fast, timeout: a.opts.FastTimeout})
		wg.Go(func() { l.run(ctx) })
	}
	l := newLane(a, b, laneOptions{client: a.opts.Slow, queue: b.slow, timeout: a.opts.RequestTimeout})
	wg.Go(func() { l.run(ctx) })
}

// stop ends the intake, wakes all lanes and returns what waited.
func (a *Appender) stop() []*item {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	var left []*item
	for _, b := range a.brokers {
		for _, q := range []*queue{b.fast, b.slow} {
			for q.len() > 0 {
				left = append(left, q.pop())
			}
			q.ready.Broadcast()
		}
	}
	for _, it := range left {
		a.releaseLocked(it.target)
	}
	return left
}

// enqueue puts an item into its leader's queue; false once stopped.
func (a *Appender) enqueue(it *item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	b := a.brokers[it.leader.Broker]
	if b == nil {
		b = &broker{id: it.leader.Broker, returning: make(map[Target]struct{}), back: make(chan struct{}, 1),
			fast: &queue{ready: sync.NewCond(&a.mu)}, slow: &queue{ready: sync.NewCond(&a.mu)}}
		a.brokers[b.id] = b
		select {
		case a.wake <- struct{}{}:
		default: // Run is woken already and will see this one too
		}
	}
	b.cameLocked(it.target)
	if p := a.parts[it.target]; p != nil && p.slow {
		it.cuts = p.cuts
		b.slow.push(it)
	} else {
		b.fast.push(it)
	}
	return true
}

// withdraw takes an item back that no lane has taken yet.
func (a *Appender) withdraw(it *item) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := it.in
	if q == nil {
		return false
	}
	i := slices.Index(q.items[q.head:], it) + q.head
	q.items = slices.Delete(q.items, i, i+1)
	it.in = nil
	return true
}

// take blocks until something waits and returns what fits into one request in
// the order of its coming, at least one item; nil once stopped.
func (a *Appender) take(q *queue, into []*item) []*item {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q.len() == 0 && !a.stopped {
		q.ready.Wait()
	}
	if a.stopped {
		return nil
	}
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
	if q.len() > 0 {
		q.ready.Signal() // another lane may carry the rest
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
