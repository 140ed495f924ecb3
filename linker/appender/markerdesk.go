package appender

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"klink/fetcher/leaders"
)

// desk hands markers to the marker connections: two per broker, one for single
// markers and one for bulks.
type desk struct {
	a    *Appender
	met  *markerMetrics
	wake chan struct{} // size 1: brokers without goroutines exist

	mu      sync.Mutex // guards all below; never held over a request
	stopped bool
	brokers map[int32]*markerBroker
	parts   map[Target]markerPart
}

// markerPart is kept for a partition that is busy or remembered for a reason.
type markerPart struct {
	busy  bool
	moved bool // ask for the leader before the next request
	// doubts are requests in a row that let others wait or ended with the
	// connection. The next ones travel with the bulks, in ever smaller company, so
	// that one partition's hanging followers do not hold up all single markers.
	doubts int
}

type markerBroker struct {
	id             int32
	served         bool // has goroutines
	singles, bulks *markerQueue
}

// markerQueue is what waits for one connection, first in, first out: a partition
// has one job at most, so they take turns. All fields are guarded by desk.mu.
type markerQueue struct {
	ready *sync.Cond
	jobs  []*markerJob
	// cut: the last request had no answer, so the next one takes a new connection.
	cut bool
}

// markerJob is the markers of one partition on their way, or, without markers, a
// question that settles earlier ones.
type markerJob struct {
	op      string
	target  Target
	markers Markers
	leader  leaders.Leader
	doubts  int
	until   time.Time         // markers leave before this or not at all; zero is no limit
	done    chan MarkerResult // size 1: a lane never waits for a caller

	// Guarded by desk.mu:
	in        *markerQueue       // where it waits, nil once taken
	cut       context.CancelFunc // ends the request under way
	abandoned error              // why the caller gave it up
}

func (j *markerJob) settles() bool { return len(j.markers.CoordinatorEpochs) == 0 }

func newDesk(a *Appender) *desk {
	return &desk{a: a, met: newMarkerMetrics(a.opts.Meter, a.opts.Link), wake: make(chan struct{}, 1),
		brokers: make(map[int32]*markerBroker), parts: make(map[Target]markerPart)}
}

// run serves the desk until ctx ends, then cuts what is under way, gives back
// what waits, and returns once its goroutines ended. It dials nothing by itself.
func (d *desk) run(ctx context.Context) {
	var wg sync.WaitGroup
	for ctx.Err() == nil {
		for _, b := range d.unserved() {
			for _, l := range []*markerLane{
				newMarkerLane(d, b.id, b.singles, d.a.opts.Markers), newMarkerLane(d, b.id, b.bulks, d.a.opts.MarkerBulks),
			} {
				wg.Go(func() { l.run(ctx) })
			}
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
		}
	}
	d.stop()
	wg.Wait()
}

func (d *desk) unserved() []*markerBroker {
	d.mu.Lock()
	defer d.mu.Unlock()
	var bs []*markerBroker
	for _, b := range d.brokers {
		if !b.served {
			b.served = true
			bs = append(bs, b)
		}
	}
	return bs
}

func (d *desk) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	for _, b := range d.brokers {
		for _, q := range []*markerQueue{b.singles, b.bulks} {
			for _, j := range q.jobs {
				d.giveBackLocked(j, ErrStopped)
			}
			q.jobs = nil
			q.ready.Broadcast()
		}
	}
}

// admit marks a partition busy and returns what is remembered of it.
func (d *desk) admit(t Target) (markerPart, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.parts[t]
	switch {
	case d.stopped:
		return p, ErrStopped
	case p.busy:
		return p, ErrBusy
	}
	p.busy = true
	d.parts[t] = p
	return p, nil
}

// release ends a partition's act before anything was sent.
func (d *desk) release(t Target, moved bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.parts[t]
	p.moved = p.moved || moved
	d.releaseLocked(t, p)
}

func (d *desk) releaseLocked(t Target, p markerPart) {
	p.busy = false
	if p == (markerPart{}) {
		delete(d.parts, t)
		return
	}
	d.parts[t] = p
}

// submit puts a job into its leader's queue; false once stopped.
func (d *desk) submit(j *markerJob) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.submitLocked(j)
}

func (d *desk) submitLocked(j *markerJob) bool {
	if d.stopped {
		return false
	}
	b := d.brokerLocked(j.leader.Broker)
	if len(j.markers.CoordinatorEpochs) > 1 || j.doubts > 0 {
		b.bulks.push(j)
	} else {
		b.singles.push(j)
	}
	return true
}

// submitSettling asks on every connection to the leader that lost a request, and
// on the one for single markers in any case; nil once stopped.
func (d *desk) submitSettling(t Target, leader leaders.Leader) []*markerJob {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil
	}
	var jobs []*markerJob
	b := d.brokerLocked(leader.Broker)
	for _, q := range []*markerQueue{b.singles, b.bulks} {
		if q == b.singles || q.cut {
			j := &markerJob{op: opSettle, target: t, leader: leader, done: make(chan MarkerResult, 1)}
			q.push(j)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (d *desk) brokerLocked(id int32) *markerBroker {
	b := d.brokers[id]
	if b != nil {
		return b
	}
	b = &markerBroker{id: id, singles: &markerQueue{ready: sync.NewCond(&d.mu)}, bulks: &markerQueue{ready: sync.NewCond(&d.mu)}}
	d.brokers[id] = b
	select {
	case d.wake <- struct{}{}:
	default: // run is woken already and will see this one too
	}
	return b
}

func (q *markerQueue) push(j *markerJob) {
	j.in = q
	q.jobs = append(q.jobs, j)
	q.ready.Signal()
}

// take blocks until something waits and returns what goes into one request; nil
// once stopped. cut is what the callers' contexts call.
func (d *desk) take(q *markerQueue, cut context.CancelFunc) []*markerJob {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(q.jobs) == 0 && !d.stopped {
		q.ready.Wait()
	}
	if d.stopped {
		return nil
	}
	n := fitting(q.jobs)
	taken := slices.Clone(q.jobs[:n])
	q.jobs = slices.Delete(q.jobs, 0, n)
	for _, j := range taken {
		j.in, j.cut = nil, cut
	}
	return taken
}

// fitting returns how many jobs, from the first on, share one request. A
// question travels alone.
func fitting(jobs []*markerJob) int {
	markers, most := 0, math.MaxInt
	for i, j := range jobs {
		if j.settles() {
			return max(i, 1)
		}
		markers += len(j.markers.CoordinatorEpochs)
		if j.doubts > 0 {
			most = min(most, max(1, cutCompany>>j.doubts))
		}
		if i > 0 && (markers > MaxMarkers || i >= most) {
			return i
		}
	}
	return len(jobs)
}

// await returns a job's result. When ctx ends, a job that waits is taken back,
// and the request of one under way is cut.
func (d *desk) await(ctx context.Context, j *markerJob) MarkerResult {
	select {
	case r := <-j.done:
		return r
	case <-ctx.Done():
		d.abandon(j, ctx.Err())
		return <-j.done
	}
}

func (d *desk) abandon(j *markerJob, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.abandoned = why
	switch {
	case j.in != nil:
		i := slices.Index(j.in.jobs, j)
		j.in.jobs = slices.Delete(j.in.jobs, i, i+1)
		d.giveBackLocked(j, why)
	case j.cut != nil:
		j.cut()
	}
}

// giveBackLocked returns a job that was not sent.
func (d *desk) giveBackLocked(j *markerJob, why error) {
	j.in, j.cut = nil, nil
	if !j.settles() {
		d.releaseLocked(j.target, d.parts[j.target])
	}
	j.done <- MarkerResult{Outcome: MarkersNotSent, Leader: j.leader,
		Err: &Fault{Op: j.op, Target: j.target, Broker: -1, Err: why}}
}

// again puts a job that was taken and not sent back into the queue of leader,
// unless its caller has given it up.
func (d *desk) again(j *markerJob, leader leaders.Leader) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.leader, j.cut = leader, nil
	switch {
	case j.abandoned != nil:
		d.giveBackLocked(j, j.abandoned)
	case !d.submitLocked(j):
		d.giveBackLocked(j, ErrStopped)
	}
}

// conclude ends a job and remembers what its verdict means for the partition's
// next one. Only an error-free answer takes a partition away from the bulks.
func (d *desk) conclude(j *markerJob, v markerVerdict, r MarkerResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.cut = nil
	if !j.settles() {
		p := d.parts[j.target]
		p.moved = v.moved
		switch {
		case v.slow:
			p.doubts = min(p.doubts+1, 16)
		case v.outcome == MarkersDone:
			p.doubts = 0
		}
		d.releaseLocked(j.target, p)
	}
	j.done <- r
}

// noteCut remembers whether a connection's last request had no answer.
func (d *desk) noteCut(q *markerQueue, cut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q.cut = cut
}
