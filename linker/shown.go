package linker

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// behindFor is how long an ACTIVE partition may lag before it is called
// CATCHING_UP again: a busy topic is always a few records behind.
const behindFor = 10 * time.Second

// shown is what others may see of a partition. Readers get copies.
type shown struct {
	mu        sync.Mutex // guards all below
	pos       state.Position
	hint      string // instead of the reason's own, "" for that
	srcStart  int64
	srcEnd    int64
	srcHW     int64
	dstStart  int64
	dstEnd    int64
	lag       state.Lag
	unguarded bool
	// stays is why the target's log start does not follow the source's, "" where
	// it does.
	stays string
	// hold is what of the source waits for the end of a transaction.
	hold      holdup
	asOf      time.Time
	dstMoved  time.Time
	partition int32
	mode      string
	worker    string
	// drifts: the target's offsets say nothing of how far the source was copied.
	drifts bool
}

func newShown(partition int32, worker string) *shown {
	return &shown{pos: state.Position{State: state.Pending}, srcStart: feed.Unknown, srcEnd: feed.Unknown, srcHW: feed.Unknown,
		dstStart: feed.Unknown, dstEnd: feed.Unknown, partition: partition, mode: Mirror.String(), worker: worker}
}

// sawSource notes the source's ends; Unknown changes nothing.
func (s *shown) sawSource(start, stable, high int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start != feed.Unknown {
		s.srcStart = start
	}
	if stable != feed.Unknown {
		s.srcEnd = stable
		s.lag.Saw(stable, at)
	}
	if high != feed.Unknown {
		s.srcHW = high
	}
	s.hold.saw(s.srcEnd, s.srcHW, at)
	s.asOf = at
}

// seenSource is when the source's ends were last seen.
func (s *shown) seenSource() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asOf
}

// sighting is what was last seen of the source's ends.
func (s *shown) sighting() control.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return control.Sighting{End: s.srcEnd, High: s.srcHW, At: s.asOf}
}

// sawTarget notes the target's ends; Unknown changes nothing.
func (s *shown) sawTarget(start, end int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start != feed.Unknown {
		s.dstStart = start
	}
	if end != feed.Unknown {
		if end != s.dstEnd {
			s.dstMoved = at
		}
		s.dstEnd = end
		if !s.drifts {
			s.lag.Mirrored(end, at)
		}
	}
}

// in sets the mode.
func (s *shown) in(m Mode) *shown {
	s.mode, s.drifts = m.String(), m == Checkpoint
	return s
}

// idleSince returns the target's end where it was confirmed and has not moved
// since a time, and nothing is known to be wrong.
func (s *shown) idleSince(t time.Time) (end int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	healthy := s.pos.State == state.Active || s.pos.State == state.CatchingUp || s.pos.State == state.SourceUnavailable
	return s.dstEnd, healthy && s.dstEnd != feed.Unknown && s.dstMoved.Before(t)
}

// startStays tells why the target's log start does not follow; "" ends that.
func (s *shown) startStays(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stays = why
}

// position returns where the partition stands.
func (s *shown) position() state.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pos
}

// moveHinted is move with something else to do about it than the reason says; ""
// is nothing else.
func (s *shown) moveHinted(e state.Event, r state.Reason, detail, hint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.moveLocked(e, r, detail)
	if s.pos.Reason == r {
		s.hint = hint
	}
	return changed
}

// move applies an event; it reports whether anything a person sees changed.
func (s *shown) move(e state.Event, r state.Reason, detail string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moveLocked(e, r, detail)
}

func (s *shown) moveLocked(e state.Event, r state.Reason, detail string) bool {
	was := s.pos
	next, err := was.Next(e, r, detail)
	if err != nil {
		return false // S1: not a move from here, e.g. a remote trouble met while a halt is tried again
	}
	s.pos, s.hint = next, ""
	return next.State != was.State || next.Reason != was.Reason
}

// advance is what is known beside the target's end.
type advance struct {
	unguarded bool
	// settling: a trim may yet come undone, so that pads could be seen again.
	settling bool
	// srcAway: the source's trouble is not over. It is told of once, and what was
	// under way when it came lands all the same.
	srcAway bool
	// copied is the source offset up to which all is copied, in checkpoint mode.
	copied int64
}

// advance shows progress at the target's end next: back from trouble where
// there was some, then caught up or behind.
func (s *shown) advance(next int64, a advance) (was, now state.Position, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was = s.pos
	s.unguarded = a.unguarded
	s.dstEnd = next
	if s.drifts {
		s.lag.Mirrored(a.copied, time.Now())
	} else {
		s.lag.Mirrored(next, time.Now())
	}
	if s.pos.State == state.Halted {
		s.moveLocked(state.Retried, "", "")
	}
	if a.srcAway && s.pos.State == state.SourceUnavailable {
		return was, s.pos, false
	}
	switch s.pos.State {
	case state.Pending, state.TargetUnavailable, state.Padding:
		s.moveLocked(state.Started, "", "")
	}
	records, _ := s.lag.Records()
	seconds, _ := s.lag.Seconds(time.Now())
	switch {
	case records == 0 && !a.settling:
		s.moveLocked(state.CaughtUp, "", "")
	case s.pos.State != state.Active || seconds > behindFor.Seconds():
		s.moveLocked(state.FellBehind, "", "")
	}
	return was, s.pos, s.pos.State != was.State
}

// report returns the partition's part of a status report.
func (s *shown) report(now time.Time) state.Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := state.Partition{
		Partition: s.partition, Mode: s.mode, State: s.pos.State, Reason: string(s.pos.Reason), Detail: s.pos.Detail,
		SourceStart: known(s.srcStart), SourceEnd: known(s.srcEnd), SourceHighWatermark: known(s.srcHW),
		TargetStart: known(s.dstStart), TargetEnd: known(s.dstEnd),
		OpenRecords: state.OpenRecords(known(s.srcEnd), known(s.srcHW)),
		Flags:       []string{}, Worker: s.worker, AsOf: state.Seen{Time: s.asOf},
	}
	p.Hint = s.hint
	if s.pos.Reason != "" {
		p.Hint = cmp.Or(s.hint, s.pos.Reason.About().Hint)
	} else if p.Detail == "" {
		p.Detail = s.remarks(now)
	}
	if s.sees(now) {
		if n, ok := s.lag.Records(); ok {
			p.LagRecords = &n
		}
		if sec, ok := s.lag.Seconds(now); ok {
			p.LagSeconds = &sec
		}
	}
	if s.unguarded {
		p.Flags = append(p.Flags, state.Unguarded)
	}
	return p
}

// remarks are what is to be said of a partition that is not in trouble.
func (s *shown) remarks(now time.Time) string {
	var all []string
	if s.sees(now) {
		all = append(all, s.hold.detail(now))
	}
	all = slices.DeleteFunc(append(all, s.stays), func(r string) bool { return r == "" })
	return strings.Join(all, "; ")
}

// blindAfter is how long a source may be silent before its lag is unknown: idle
// partitions bring news every five to ten seconds.
const blindAfter = 15 * time.Second

// sees tells whether the lag can be known: both ends were seen, the source is
// not known to be away or gone, and what was seen of it is fresh (S3).
func (s *shown) sees(now time.Time) bool {
	away := s.pos.State == state.SourceUnavailable || s.pos.Reason.SourceGone()
	return s.dstEnd != feed.Unknown && !away && !s.pos.State.Ordered() && now.Sub(s.asOf) < blindAfter
}

func known(offset int64) *int64 {
	if offset == feed.Unknown {
		return nil
	}
	return &offset
}
