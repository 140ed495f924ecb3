package groups

import (
	"context"
	"slices"
	"sync"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
)

const (
	// obeyEvery is how often commands are looked at where nothing new was read, for
	// what could not be acknowledged.
	obeyEvery = time.Second
	// roundPause is between two tries of a last round.
	roundPause = 100 * time.Millisecond
	// clampedFor is how long a last round waits for the mirror to reach an offset.
	// One beyond the source's end is never reached.
	clampedFor = 3 * time.Second
)

// obey acknowledges commands after which offsets are not written any more, each
// by itself: one whose last round waits for the source holds up no other.
func (s *session) obey(ctx context.Context) {
	var stopping sync.WaitGroup
	defer stopping.Wait()
	tick := time.NewTicker(obeyEvery)
	defer tick.Stop()
	ended := make(chan int32)
	busy, next := make(map[int32]bool), s.store.Intents(s.o.Link).Next()
	for {
		changed := s.store.Changed()
		if n := s.store.Intents(s.o.Link).Next(); n != next {
			next = n
			s.review()
		}
		for _, c := range s.stops() {
			if busy[c.Number] {
				continue
			}
			busy[c.Number] = true
			stopping.Go(func() {
				if !s.stop(ctx, c) {
					sleep(ctx, obeyEvery)
				}
				select {
				case ended <- c.Number:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-changed:
		case <-tick.C:
		case n := <-ended:
			delete(busy, n)
		case <-ctx.Done():
			return
		}
	}
}

// review looks at all groups again: what may be written has changed.
func (s *session) review() {
	s.mu.Lock()
	s.mirrors = nil
	s.desk.Force(s.o.Now(), func(string, map[string]bool) bool { return true })
	s.mu.Unlock()
	signal(s.wake)
}

// stops are the commands that are to be acknowledged: those that made a topic
// what it is and have the writing end.
func (s *session) stops() (out []intent.Command) {
	acked := make(map[int32]bool)
	for _, a := range s.store.Acks(s.o.Link, "") {
		acked[a.Number] = acked[a.Number] || a.Worker == s.o.Worker
	}
	intents := s.store.Intents(s.o.Link)
	for _, c := range s.store.Commands(s.o.Link) {
		if !acked[c.Number] && holds(c, intents) {
			out = append(out, c)
		}
	}
	return out
}

// holds tells whether a command is in force for any of its topics, and has the
// writing end.
func holds(c intent.Command, intents intent.Intents) bool {
	switch c.Verb {
	case intent.Pend, intent.Promote, intent.Failover, intent.Remove:
		return slices.ContainsFunc(c.Topics, func(t string) bool { return intents.Of(t).Cause.Number == c.Number })
	default:
		return false
	}
}

// stop ends the writing for a command's topics, after a last round where one is
// wanted, and acknowledges it. It reports whether that is done.
func (s *session) stop(ctx context.Context, c intent.Command) bool {
	if c.Verb == intent.Pend && !(s.lastRound(ctx, c) && s.followed(ctx, c)) {
		return false
	}
	s.quiet(ctx)
	if _, held := s.lease(); !held || ctx.Err() != nil {
		return false
	}
	put, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := s.store.PutAck(put, control.AckRecord{Link: s.o.Link, Worker: s.o.Worker, Number: c.Number, At: s.o.Now()})
	if err != nil {
		s.log.Debug("a command is not acknowledged yet", keyNumber, c.Number, keyErr, err)
		return false
	}
	s.log.Info("group offsets are not written any more", keyVerb, string(c.Verb), keyNumber, c.Number)
	return true
}

// lastRound brings the groups of a command's topics up to what the source has
// (U6). It reports false where the command is in force no more.
func (s *session) lastRound(ctx context.Context, c intent.Command) bool {
	s.lasting(c.Number, true)
	defer s.lasting(c.Number, false)
	began := time.Now()
	for ctx.Err() == nil && holds(c, s.store.Intents(s.o.Link)) {
		if p, err := s.pollNow(ctx); err == nil && p.whole {
			r := s.round(ctx, c)
			clamped := r.Clamped && time.Since(began) < clampedFor
			if r.Looked && !r.Writes && !r.Passing && !clamped {
				return true
			}
		}
		if !sleep(ctx, roundPause) {
			return false
		}
	}
	return false
}

// followed has what follows from the last offsets written. It reports false where that
// is to be tried again, or the command is in force no more.
func (s *session) followed(ctx context.Context, c intent.Command) bool {
	if s.o.Last == nil {
		return true
	}
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.o.Last(within, c.Topics); err != nil {
		s.log.Debug("a promotion waits for what follows from group offsets", keyNumber, c.Number, keyErr, err)
		return false
	}
	return holds(c, s.store.Intents(s.o.Link))
}

// lasting says whether the last round for a command is under way.
func (s *session) lasting(number int32, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.last[number] = true
	} else {
		delete(s.last, number)
	}
	s.mirrors = nil
}

// round looks at all groups of the command's topics and tells what is left.
func (s *session) round(ctx context.Context, c intent.Command) Rest {
	s.mu.Lock()
	since := s.o.Now()
	names := s.desk.Force(since, func(_ string, topics map[string]bool) bool {
		return slices.ContainsFunc(c.Topics, func(t string) bool { return topics[t] })
	})
	s.mu.Unlock()
	signal(s.wake)
	for {
		s.mu.Lock()
		r, moved := s.desk.Rest(names, c.Topics, since), s.moved
		s.mu.Unlock()
		if r.Looked {
			return r
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return Rest{}
		}
	}
}

// quiet waits for the cycles that began before now: the commands that they know
// may be older.
func (s *session) quiet(ctx context.Context) {
	s.mu.Lock()
	now := s.o.Now()
	s.mirrors = nil
	s.mu.Unlock()
	for {
		s.mu.Lock()
		busy, moved := s.desk.Busy(now), s.moved
		s.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}
