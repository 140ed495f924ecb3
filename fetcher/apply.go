package fetcher

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

// retries is how often a fault that should not be is met before it is believed.
const retries = 4

// stuckAfter is when empty answers below the last stable offset are reported.
// Rotation through a long backlog and throttling explain less.
const stuckAfter = 30 * time.Second

// apply brings the readings up to date and returns the chunks that nobody gets.
func (l *lane) apply(x exchange, parts []part) (unwanted []*feed.Chunk) {
	f, now := l.b.f, time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	l.busy = false
	l.session.answered(x.resp.SessionID)
	l.b.answeredLocked()
	l.restLocked(x.took, x.bytes)
	if l.fed && x.bytes > 0 && x.resp.ThrottleMillis == 0 {
		l.trips.add(x.took)
	}
	for i := range parts {
		p := &parts[i]
		if p.chunk != nil {
			p.s.out++ // its release counts it out again
		}
		if p.s.lane != l || p.s.next != p.from { // closed, moved or recalled meanwhile (R2)
			if p.chunk != nil {
				unwanted = append(unwanted, p.chunk)
			}
			continue
		}
		if c := f.applyLocked(p, x.sent, now); c != nil {
			unwanted = append(unwanted, c)
		}
	}
	l.sweepLocked(now)
	l.idleLocked(parts)
	l.b.wakeLocked()
	return unwanted
}

// sweepLocked has all members tell what they know, also those that a session's
// answer leaves out because nothing changed: all were asked for.
func (l *lane) sweepLocked(now time.Time) {
	if now.Sub(l.sweptAt) < time.Second {
		return
	}
	l.sweptAt = now
	for e := l.order.Front(); e != nil; e = e.Next() {
		s := e.Value.(*reading)
		if s.trouble.kind == 0 {
			s.endsAt = now
		}
		l.b.f.tellLocked(s, now)
		l.b.f.stuckLocked(s, now)
	}
}

// stuckLocked reports a partition that has records the broker does not return,
// as holes at the end of a tiered segment make it (C072). It is read on all the
// same; nobody takes it for caught up, since its last stable offset is told.
func (f *Fetcher) stuckLocked(s *reading, now time.Time) {
	if s.emptySince.IsZero() || s.stuckTold || now.Sub(s.emptySince) < stuckAfter {
		return
	}
	s.stuckTold = true
	f.log.Warn("source has records that it does not return", keyTopic, s.start.Topic,
		keyPartition, s.start.Partition.Partition, keyNext, s.next, keyLastStable, s.ends.lastStable)
}

// idleLocked notes whether a member got nothing although it was asked for.
func (l *lane) idleLocked(parts []part) {
	served := 0
	for i := range parts {
		if parts[i].chunk != nil && parts[i].s.lane == l {
			served++
		}
	}
	l.idle = served < l.order.Len()
}

// applyLocked applies one partition's answer; it returns the chunk if it must
// not be handed on.
func (f *Fetcher) applyLocked(p *part, sent, now time.Time) *feed.Chunk {
	s := p.s
	s.largest = max(s.largest, p.largest)
	f.largest = max(f.largest, p.largest)
	if p.err == nil && p.resp.DivergingEpoch.EndOffset >= 0 {
		f.doubtLocked(s, &doubt{cause: kerr.OffsetOutOfRange, divergingEpoch: p.resp.DivergingEpoch.Epoch,
			divergingEnd: p.resp.DivergingEpoch.EndOffset, diverging: true})
		return p.chunk
	}
	if p.err != nil {
		f.erredLocked(p, sent)
		return p.chunk
	}
	s.ends, s.endsAt = ends{p.resp.LogStartOffset, p.resp.LastStableOffset, p.resp.HighWatermark}, now
	if p.chunk == nil {
		f.emptyLocked(p, now)
		return nil
	}
	if f.supersededLocked(s) {
		return p.chunk
	}
	s.wellLocked()
	s.emptySince, s.stuckTold = time.Time{}, false
	s.backlogLocked(p.next < s.ends.lastStable)
	s.ends.lastStable, s.ends.highWatermark = p.chunk.LastStable, p.chunk.HighWatermark
	s.told, s.toldAt, s.wantNews = s.ends, now, false
	f.pushLocked(s, queued{Event: feed.Event{Chunk: p.chunk}, epoch: s.lastEpoch})
	s.next, s.lastEpoch = p.next, p.slice.epoch
	l := s.lane
	if f.readableLocked(s) {
		l.order.MoveToBack(s.place) // rotation: the others come first now
		l.dirtyLocked(s)
		return nil
	}
	f.leaveLocked(s)
	return nil
}

// supersededLocked reports whether the leader has changed since the request was
// made; its answer may hold what the new leader does not have (C075). The
// partition is then read again there.
func (f *Fetcher) supersededLocked(s *reading) bool {
	sight, _ := f.opt.Leaders.Look(s.start.Topic, s.start.Partition.Partition)
	if s.epoch == feed.NoEpoch || sight.Epoch <= s.epoch {
		return false
	}
	if !f.placeLocked(s) {
		f.seekLocked(s, 0, true)
	}
	return true
}

// emptyLocked applies an answer without a whole batch. That is never taken for
// a hole in the log: throttling, or a first batch that did not fit, look alike.
func (f *Fetcher) emptyLocked(p *part, now time.Time) {
	s := p.s
	if p.suspicious {
		f.againLocked(s)
		return
	}
	if len(p.resp.RecordBatches) > 0 && p.next == p.from {
		if s.futile++; s.futile > retries*2 {
			f.failLocked(s, s.fault(feed.Corrupt, fmt.Errorf("%w: no whole batch in %d bytes, again and again",
				errDisorder, len(p.resp.RecordBatches))))
			return
		}
		s.lane.dirtyLocked(s) // ask for as much as its batch needs
	} else {
		s.wellLocked()
	}
	s.backlogLocked(s.next < s.ends.lastStable)
	if s.backlog && s.emptySince.IsZero() {
		s.emptySince = now
	}
	f.tellLocked(s, now)
}

// erredLocked acts on one partition's error.
func (f *Fetcher) erredLocked(p *part, sent time.Time) {
	s, v := p.s, classify(p.err)
	if h := p.resp.CurrentLeader; h.LeaderID >= 0 {
		f.opt.Leaders.Hint(s.start.Topic, s.start.Partition.Partition, leaders.Leader{Broker: h.LeaderID, Epoch: h.LeaderEpoch})
	}
	switch v.act {
	case actMove:
		f.troubleLocked(s, v, p.err, sent)
		sight, _ := f.opt.Leaders.Look(s.start.Topic, s.start.Partition.Partition)
		if sight.Epoch > s.epoch && f.placeLocked(s) {
			return
		}
		f.againLocked(s)
	case actWait:
		f.troubleLocked(s, v, p.err, sent)
		f.pauseLocked(s)
	case actLook:
		f.doubtLocked(s, &doubt{cause: p.err})
	case actRetry:
		if s.tries++; s.tries <= retries {
			f.seekLocked(s, pause(s.tries), true)
			return
		}
		f.failLocked(s, s.fault(v.kind, p.err))
	default:
		f.failLocked(s, s.fault(v.kind, p.err))
	}
}

// fault returns a fault of this reading with what is known of its log.
func (s *reading) fault(kind feed.Kind, err error) *feed.Fault {
	x := feed.NewFault(kind, s.start.Partition, s.next, err)
	x.LogStart, x.LogEnd = s.ends.logStart, s.ends.highWatermark
	if s.home != nil {
		x.Broker = s.home.id
	}
	return x
}
