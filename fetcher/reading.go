package fetcher

import (
	"container/list"
	"slices"
	"time"

	"klink/fetcher/feed"
)

// phase is where a reading is.
type phase int

const (
	// seeking: without a leader, or pausing after an error; the manager acts
	// on it once due has come.
	seeking phase = iota
	// reading: assigned to a broker; member of one of its lanes, or listed as
	// ready there, or full.
	assigned
	// looking: an error is being looked at a second time.
	looking
	// ended: a final fault was queued, or the stream was closed.
	ended
)

// window is how many chunks of one stream may be outstanding: while the receiver
// works on the first, the second is there, so that a fetch that takes longer
// than usual does not leave it without, and the third is on its way.
const window = 3

// newsEvery keeps watermark news of one partition apart; newsAtLeast is the
// longest silence of an idle one, so that a receiver can tell "nothing new"
// from "nothing known" (C142). Among many partitions it is up to newsAtMost (paced).
const (
	newsEvery   = 100 * time.Millisecond
	newsAtLeast = 5 * time.Second
	newsAtMost  = 10 * time.Second
)

// ends are a log's ends as an answer told them.
type ends struct {
	logStart, lastStable, highWatermark int64
}

// reading is one open stream. Everything but start and events is guarded by
// Fetcher.mu. There is no goroutine per reading: a pump runs only while events
// are queued.
type reading struct {
	start  feed.Start // as opened; Next and LastEpoch live on below
	events chan feed.Event

	phase     phase
	next      int64
	lastEpoch int32

	// home and epoch say who is asked, and under which leader epoch.
	home  *broker
	epoch int32
	lane  *lane         // the lane whose member it is; nil: none
	place *list.Element // in lane.order
	ready bool          // in home.ready
	dirty bool          // in lane.dirty

	// seeking and looking.
	due    time.Time
	stale  bool // the leader map must be refreshed first
	asked  bool // a refresh for it is under way
	why    *doubt
	tries  int // failures in a row
	doubts int // doubts in a row that turned out spurious

	queue    []queued
	pushedAt time.Time
	stop     chan struct{} // ends the pump; nil while none runs
	recall   bool          // stop is closed: the pump must drop what is queued
	closed   bool          // by the receiver, by a later Open, or with the fetcher
	parked   bool          // nothing is read until the receiver shows up again
	out      int           // chunks queued or held by the receiver

	ends    ends
	endsAt  time.Time // when an answer last said so
	told    ends
	toldAt  time.Time
	backlog bool // more is known to be there than was read, or nothing is known
	largest int  // the largest batch seen
	futile  int  // answers in a row with bytes, but not one whole batch
	// emptySince is when answers began to be empty although there is a backlog.
	emptySince time.Time
	stuckTold  bool
	trouble    episode
	wantNews   bool // tell the ends with the next answer: a fault has ended
}

// queued is an event not yet received. epoch is the reading's lastEpoch from
// before a chunk, to go back to when it is dropped.
type queued struct {
	feed.Event
	epoch int32
}

// episode is trouble from its first sign to the next good answer.
type episode struct {
	kind   feed.Kind // 0: none
	since  time.Time
	told   feed.Kind
	toldAt time.Time
}

func newReading(start feed.Start) *reading {
	unknown := ends{feed.Unknown, feed.Unknown, feed.Unknown}
	return &reading{start: start, events: make(chan feed.Event), next: start.Next, lastEpoch: start.LastEpoch,
		epoch: feed.NoEpoch, backlog: true, ends: unknown, told: unknown}
}

// open reports whether the stream can still deliver anything.
func (s *reading) open() bool { return s.phase != ended }

// readableLocked reports whether the partition may be asked for now. The second
// chunk is left to others while memory is short (B2).
func (f *Fetcher) readableLocked(s *reading) bool {
	if s.phase != assigned || s.parked || s.recall || s.out >= window {
		return false
	}
	return s.out == 0 || !f.budget.Contended()
}

// pushLocked queues an event and sees that a pump runs. What was not received
// yet and is not data is replaced: it is older knowledge of the same things. So
// the queue holds at most window chunks and one event more.
func (f *Fetcher) pushLocked(s *reading, e queued) {
	s.pushedAt = time.Now()
	s.queue = slices.DeleteFunc(s.queue, func(q queued) bool { return q.Chunk == nil || q.Chunk.Bytes == 0 })
	s.queue = append(s.queue, e)
	if s.stop == nil {
		s.stop = make(chan struct{})
		f.pumps.Add(1)
		go f.pump(s)
	}
}

// pump hands over queued events, in order, until none is left. It is the only
// sender on s.events, so that taking events back is a matter of stopping it.
func (f *Fetcher) pump(s *reading) {
	defer f.pumps.Done()
	for {
		e, stop, ok := f.takeEvent(s)
		if !ok {
			return
		}
		select {
		case s.events <- e.Event:
			f.received(s)
		case <-stop:
			f.putBack(s, e)
		}
	}
}

// received notes that the receiver is there.
func (f *Fetcher) received(s *reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.parked {
		s.parked = false
		f.readyLocked(s)
	}
}

func (f *Fetcher) putBack(s *reading, e queued) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.queue = slices.Insert(s.queue, 0, e)
}

// takeEvent returns the next event for the pump and what stops its delivery; ok
// is false when the pump has to end. Chunks that go back are released here.
func (f *Fetcher) takeEvent(s *reading) (e queued, stop <-chan struct{}, ok bool) {
	var drop []queued
	f.mu.Lock()
	if s.recall && !s.closed {
		drop = f.recalledLocked(s)
	}
	switch {
	case s.closed:
		drop, s.queue = s.queue, nil
		s.stop = nil
		close(s.events)
	case len(s.queue) == 0 && s.phase == ended:
		f.closeLocked(s)
		s.stop = nil
		close(s.events)
	case len(s.queue) == 0:
		s.queue, s.stop = nil, nil
	default:
		e, stop, ok = s.queue[0], s.stop, true
		s.queue = s.queue[1:]
	}
	f.mu.Unlock()
	for _, d := range drop {
		if d.Chunk != nil {
			d.Chunk.Release()
		}
	}
	return e, stop, ok
}

// recallLocked has the pump drop what is queued. The reading leaves its lane,
// so that an answer under way, which continues what is dropped, does not count.
func (f *Fetcher) recallLocked(s *reading) {
	s.recall = true
	f.leaveLocked(s)
	close(s.stop)
}

// recalledLocked takes all chunks out of the queue and goes back to the first
// of them. Nothing is read again before the receiver has shown up, by taking
// the news that stand in the queue instead: else the dropped bytes would just
// come back.
func (f *Fetcher) recalledLocked(s *reading) (drop []queued) {
	s.recall = false
	s.stop = make(chan struct{})
	var keep []queued
	for _, q := range s.queue {
		switch {
		case q.Chunk == nil:
			keep = append(keep, q)
		case len(drop) == 0:
			s.next, s.lastEpoch, s.backlog = q.Chunk.Next, q.epoch, true
			fallthrough
		default:
			drop = append(drop, q)
			f.met.recall(q.Chunk.Bytes)
		}
	}
	s.queue = keep
	if len(drop) > 0 && s.open() {
		s.parked = true
		f.pushLocked(s, queued{Event: feed.Event{Chunk: s.news()}})
		return drop
	}
	f.readyLocked(s)
	return drop
}

// news is a chunk that tells the log's ends alone, as of when they were told: with
// chunks that are recalled that may be long ago.
func (s *reading) news() *feed.Chunk {
	return &feed.Chunk{Next: s.next, LogStart: s.ends.logStart, LastStable: s.ends.lastStable,
		HighWatermark: s.ends.highWatermark, LeaderEpoch: s.epoch, SeenAt: s.endsAt}
}

// tellLocked queues watermark news where there are any, or where the receiver
// has not heard of the partition for long.
func (f *Fetcher) tellLocked(s *reading, now time.Time) {
	silent := now.Sub(s.toldAt)
	if !s.wantNews && (s.told == s.ends || silent < newsEvery) && silent < min(f.pacedLocked(newsAtLeast), newsAtMost) {
		return
	}
	s.wantNews, s.told, s.toldAt = false, s.ends, now
	f.pushLocked(s, queued{Event: feed.Event{Chunk: s.news()}})
}

// troubleLocked notes an obstacle and tells of it once per episode: at once, or
// when it has lasted for grace. since is when the request that failed was sent.
func (f *Fetcher) troubleLocked(s *reading, v verdict, err error, since time.Time) {
	now, t := time.Now(), &s.trouble
	if t.kind == 0 {
		t.since = since
	}
	t.kind = v.kind
	if t.told == v.kind || (v.quiet && now.Sub(t.since) < grace) || (t.told != 0 && now.Sub(t.toldAt) < grace) {
		return
	}
	t.told, t.toldAt = v.kind, now
	fault := feed.NewFault(v.kind, s.start.Partition, s.next, err)
	if s.home != nil {
		fault.Broker = s.home.id
	}
	fault.LogStart, fault.LogEnd = s.ends.logStart, s.ends.highWatermark
	f.met.fault(v.kind)
	f.pushLocked(s, queued{Event: feed.Event{Fault: fault}})
}

// wellLocked ends an episode; the next chunk, if need be one without batches,
// tells the receiver.
func (s *reading) wellLocked() {
	if s.trouble.told != 0 {
		s.wantNews = true
	}
	s.trouble, s.why, s.tries, s.doubts, s.futile = episode{}, nil, 0, 0, 0
}

// failLocked ends a stream with a final fault (F2).
func (f *Fetcher) failLocked(s *reading, fault *feed.Fault) {
	f.detachLocked(s)
	s.phase = ended
	f.met.fault(fault.Kind)
	f.pushLocked(s, queued{Event: feed.Event{Fault: fault}})
}

// detachLocked takes a reading away from its broker and from the manager.
func (f *Fetcher) detachLocked(s *reading) {
	f.leaveLocked(s)
	s.home, s.ready = nil, false
	delete(f.seeking, s)
}

// closeLocked ends a stream now; what is queued is dropped by the pump.
func (f *Fetcher) closeLocked(s *reading) {
	if s.closed {
		return
	}
	f.detachLocked(s)
	s.phase, s.closed = ended, true
	if f.open[s.start.Partition] == s {
		delete(f.open, s.start.Partition)
	}
	switch {
	case s.stop == nil:
		close(s.events)
	case !s.recall: // a recall has closed it already
		close(s.stop)
	}
}
