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
	cuts   int         // of the partition so far; see part.cuts
	in     *queue      // where it waits, nil once taken; guarded by Appender.mu
	done   chan Result // size 1: a lane never waits for a caller
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
	it.in = nil
	return it
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

// comesBack notes that the partition's next batch will come to this queue.
func (a *Appender) comesBack(q *queue, t Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
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
		l := newLane(a, b, laneOptions{client: cl, queue: b.fast[i], timeout: a.opts.FastTimeout})
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
		for _, q := range append(slices.Clone(b.fast), b.slow) {
			clear(q.returning)
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

// take blocks until something waits, and nobody else is about to come, and
// returns what fits into one request in the order of its coming, at least one
// item; nil once stopped.
func (a *Appender) take(q *queue, into []*item) []*item {
	a.mu.Lock()
	defer a.mu.Unlock()
	for (q.len() == 0 || len(q.returning) > 0) && !a.stopped {
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
