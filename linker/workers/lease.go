package workers

import "time"

// Partition is a partition of a target topic.
type Partition struct {
	Topic     string
	Partition int32
}

// lease is what is assigned and until when. It has no clock and no lock of its
// own.
type lease struct {
	// length is the session timeout minus the margin.
	length time.Duration
	// begun counts heartbeats that were begun; they are answered in turn.
	begun uint64
	// renewed is the last heartbeat that was answered without error, and sent
	// when it was begun; 0 where there is none.
	renewed uint64
	sent    time.Time
	held    map[Partition]*holding
}

// holding is one assigned partition.
type holding struct {
	// from is the first heartbeat whose answer counts for it (W1).
	from   uint64
	writes int
	// latest is the end of the last lease that a write was given.
	latest time.Time
	// idle is closed with the last write; nil while nobody waits for that.
	idle chan struct{}
	// inherited: it came late, see Permit.
	inherited bool
}

func newLease(length time.Duration) *lease {
	return &lease{length: length, held: make(map[Partition]*holding)}
}

// assign adds partitions and returns how many are new. What is there already
// stays as it is.
func (l *lease) assign(ps []Partition, late func(Partition) bool) (more int) {
	for _, p := range ps {
		if l.held[p] == nil {
			l.held[p] = &holding{from: l.begun + 1, inherited: late(p)}
			more++
		}
	}
	return more
}

// drop takes partitions away and returns how many those were, and which of them
// have writes under way.
func (l *lease) drop(ps []Partition) (gone int, busy []*holding) {
	for _, p := range ps {
		h := l.held[p]
		if h == nil {
			continue
		}
		delete(l.held, p)
		gone++
		if h.writes > 0 {
			h.idle = make(chan struct{})
			busy = append(busy, h)
		}
	}
	return gone, busy
}

// begin numbers a heartbeat that is about to be sent.
func (l *lease) begin() uint64 {
	l.begun++
	return l.begun
}

// renew takes an error-free answer to the heartbeat that was begun at sent.
func (l *lease) renew(beat uint64, sent time.Time) {
	if beat > l.renewed {
		l.renewed, l.sent = beat, sent
	}
}

// void ends the lease until the next renewal (W3).
func (l *lease) void() { l.sent = time.Time{} }

// until is when a partition's lease ends, and whether it holds now.
func (l *lease) until(p Partition, now time.Time) (time.Time, bool) {
	h := l.held[p]
	if h == nil || l.sent.IsZero() || l.renewed < h.from {
		return time.Time{}, false
	}
	end := l.sent.Add(l.length)
	return end, before(now, end)
}

// unconfirmed tells whether an assignment waits for its first heartbeat, or all
// of them for one after the lease was void.
func (l *lease) unconfirmed() bool {
	if l.sent.IsZero() {
		return len(l.held) > 0
	}
	for _, h := range l.held {
		if h.from > l.renewed {
			return true
		}
	}
	return false
}

// lapsed tells whether something was held that is still assigned and cannot be
// held any more.
func (l *lease) lapsed(now time.Time) bool {
	if !l.sent.IsZero() && before(now, l.sent.Add(l.length)) {
		return false
	}
	for _, h := range l.held {
		if h.from <= l.renewed {
			return true
		}
	}
	return false
}

// enter counts a write that must be over at the returned time.
func (l *lease) enter(p Partition, now time.Time) (*holding, time.Time) {
	end, ok := l.until(p, now)
	if !ok {
		return nil, time.Time{}
	}
	h := l.held[p]
	h.writes++
	h.latest = end
	return h, end
}

// leave ends a write.
func (h *holding) leave() {
	h.writes--
	if h.writes == 0 && h.idle != nil {
		close(h.idle)
	}
}

// before compares by both clocks (W7): times of one process carry both.
func before(now, end time.Time) bool {
	return now.Before(end) && now.Round(0).Before(end.Round(0))
}
