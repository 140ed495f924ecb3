package groups

import (
	"context"
	"strings"
	"sync"
	"time"

	"klink/fetcher/feed"
)

type topicID = feed.TopicID

// earlyPause is between a poll and one ahead of its time.
const earlyPause = 100 * time.Millisecond

// polled is what came of one poll.
type polled struct {
	// whole: the source's coordinators answered for all groups that are selected,
	// or refused for lack of a right, and all brokers listed theirs.
	whole bool
}

// pollShare and tailedShare are which part of the time polls may take, as one in so
// many: with hundreds of groups they would cost more than all the rest. Where the
// tail tells of all commits they only correct it.
const (
	pollShare   = 4
	tailedShare = 200
)

// poll asks all coordinators of the source every interval, or less often where
// that takes long.
func (s *session) poll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var reply chan<- polled
	var before time.Duration // what the poll before took
	for {
		select {
		case <-timer.C:
		case <-s.early:
			if !sleep(ctx, earlyPause) {
				return
			}
		case reply = <-s.polls:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		p := s.pollOnce(ctx)
		took := time.Since(began)
		if ctx.Err() == nil {
			s.count.polls.Record(ctx, took.Seconds(), s.count.whole)
		}
		if reply != nil {
			reply <- p
			reply = nil
		}
		timer.Reset(max(s.o.Interval-took, min(took, before)*s.rests()))
		before = took
	}
}

// rests is how many times as long as a poll takes it rests after it. Of two polls the
// shorter one tells what they take: a single one may have waited for a broker.
func (s *session) rests() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tailed {
		return tailedShare - 1
	}
	return pollShare - 1
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pollOnce asks both sides once.
func (s *session) pollOnce(ctx context.Context) polled {
	var wg sync.WaitGroup
	wg.Go(func() { s.listTarget(ctx) })
	ask, at, whole := s.listSource(ctx)
	var mu sync.Mutex // guards whole
	eachChunk(ask, at, func(chunk []string) {
		asked := s.o.Now()
		got := s.src.offsets(ctx, chunk)
		if ctx.Err() != nil {
			return
		}
		all := answers(got, s.selects, asked)
		s.mu.Lock()
		for _, a := range all {
			s.desk.Answered(a)
		}
		s.mu.Unlock()
		signal(s.wake)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range all {
			whole = whole && !a.Trouble.passes()
		}
	})
	wg.Wait()
	s.readRetention(ctx)
	s.mu.Lock()
	s.desk.Verify(s.o.Now(), s.o.Interval)
	s.mu.Unlock()
	signal(s.wake)
	return polled{whole: whole && ctx.Err() == nil}
}

// listSource lists the source's groups and returns those whose offsets are to be
// asked for, with the coordinator of each.
func (s *session) listSource(ctx context.Context) (ask []string, at func(string) int32, whole bool) {
	asked := s.o.Now()
	listed, err := s.src.list(ctx)
	if ctx.Err() != nil {
		return nil, nil, false
	}
	l := Listing{Groups: make(map[string]bool), Whole: err == nil, Asked: asked}
	for name, g := range listed {
		if s.o.Filter.Selects(name) {
			l.Groups[name] = carried(g)
		}
	}
	l.Unmatched = s.o.Filter.Unmatched(listed.Groups())
	s.mu.Lock()
	ask = s.desk.Listed(l)
	s.mu.Unlock()
	s.tellListing(l, err)
	return ask, func(group string) int32 {
		if g, ok := listed[group]; ok {
			return g.Coordinator
		}
		return noCoordinator
	}, err == nil
}

// tellListing logs an outage of the source's list once, and patterns that match
// nothing.
func (s *session) tellListing(l Listing, err error) {
	switch {
	case err != nil && !s.down:
		s.log.Warn("not all groups of the source are listed; those that are known are carried over", keyErr, err)
	case err == nil && s.down:
		s.log.Info("all groups of the source are listed again")
	}
	s.down = err != nil
	if !l.Whole {
		return
	}
	text := strings.Join(l.Unmatched, ", ")
	if text != s.told && text != "" {
		s.log.Warn("patterns of groups.include match no group of the source", keyPatterns, text)
	}
	s.told = text
}

func (s *session) listTarget(ctx context.Context) {
	asked := s.o.Now()
	listed, err := s.dst.list(ctx)
	if ctx.Err() != nil {
		return
	}
	peers := make(map[string]Peer, len(listed))
	for name, g := range listed {
		peers[name] = peer(g)
	}
	s.mu.Lock()
	s.desk.Peers(peers, err == nil, asked)
	if err == nil {
		s.listedAt = asked
	}
	s.mu.Unlock()
	signal(s.wake)
}

// readRetention learns when unchanged offsets have to be written again (U7).
func (s *session) readRetention(ctx context.Context) {
	now := s.o.Now()
	if !s.retentionAt.IsZero() && now.Sub(s.retentionAt) < retentionFor {
		return
	}
	first := s.retentionAt.IsZero()
	keeps, err := s.dst.retention(ctx)
	if ctx.Err() != nil {
		return
	}
	s.retentionAt = now
	if err != nil {
		if first {
			s.log.Warn("the target does not tell how long it keeps the offsets of idle groups; a day is assumed", keyErr, err)
		}
		return
	}
	s.mu.Lock()
	s.renewAfter = renewAfter(keeps)
	s.mu.Unlock()
}

// pollNow has a poll made that begins now or later, and returns what came of it.
func (s *session) pollNow(ctx context.Context) (polled, error) {
	reply := make(chan polled, 1) // the poll must not wait for a caller who left
	select {
	case s.polls <- reply:
	case <-ctx.Done():
		return polled{}, ctx.Err()
	}
	select {
	case p := <-reply:
		return p, nil
	case <-ctx.Done():
		return polled{}, ctx.Err()
	}
}
