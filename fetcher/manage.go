package fetcher

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/feed"
)

const (
	// refreshEvery is how often leaders of all open partitions are asked for (paced)
	// without a reason. It finds topics that were deleted or re-created while nothing
	// else tells.
	refreshEvery = 5 * time.Second
	// pacedBy is how many open partitions double what is paced.
	pacedBy = 10_000
	// refreshTimeout bounds one refresh.
	refreshTimeout = 15 * time.Second
	// firstPause and lastPause bound the pauses between tries of one partition
	// or broker. The first is about the time an election takes.
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// pause returns the pause after so many failures, with jitter so that
// partitions that failed together do not come back together.
func pause(failures int) time.Duration {
	d := min(firstPause<<min(failures, 10), lastPause)
	return d*3/4 + rand.N(d/2)
}

// seekLocked hands a reading to the manager: to be placed at its leader after a
// pause, by a refreshed leader map if stale.
func (f *Fetcher) seekLocked(s *reading, after time.Duration, stale bool) {
	f.detachLocked(s)
	s.phase, s.due, s.stale, s.asked = seeking, time.Now().Add(after), stale, false
	f.seeking[s] = struct{}{}
	notify(f.wake)
}

// manage places readings at their leaders, refreshes the leader map and starts
// second looks.
func (f *Fetcher) manage(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	full := time.Now().Add(refreshEvery)
	for {
		now := time.Now()
		if !now.Before(full) {
			full = now.Add(f.refreshAll())
		}
		timer.Reset(time.Until(f.attend(now, full)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// attend acts on the seeking readings that are due and returns when to come
// again, at the latest at last.
func (f *Fetcher) attend(now, last time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	ask := make(map[string]struct{})
	for s := range f.seeking {
		switch {
		case now.Before(s.due):
			if s.due.Before(last) {
				last = s.due
			}
		case s.why != nil:
			f.lookLocked(s)
		case s.stale || !f.placeLocked(s):
			s.asked = true
			delete(f.seeking, s) // the refresh finds it by its topic
			ask[s.start.Topic] = struct{}{}
		}
	}
	f.refreshLocked(ask)
	return last
}

// pacedLocked is how long a time becomes with as many partitions as are open.
func (f *Fetcher) pacedLocked(d time.Duration) time.Duration {
	return d + d*time.Duration(len(f.open))/pacedBy
}

// refreshAll returns in how much time it is to be called again.
func (f *Fetcher) refreshAll() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	topics := make(map[string]struct{})
	for p, s := range f.open {
		if s.open() {
			topics[p.Topic] = struct{}{}
		}
	}
	f.refreshLocked(topics)
	return f.pacedLocked(refreshEvery)
}

// refreshLocked asks for topics in the background, since an unreachable cluster
// takes long to say so, and then reconciles their readings.
func (f *Fetcher) refreshLocked(topics map[string]struct{}) {
	if len(topics) == 0 {
		return
	}
	f.spawn(func(ctx context.Context) error {
		names := make([]string, 0, len(topics))
		for t := range topics {
			names = append(names, t)
		}
		sent := time.Now()
		bounded, cancel := context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
		err := f.opt.Leaders.Refresh(bounded, names...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for p, s := range f.open {
			if _, ok := topics[p.Topic]; ok && s.open() {
				f.reconcileLocked(s, err, sent)
			}
		}
		return nil
	})
}

// reconcileLocked acts on what a refresh told of one partition.
func (f *Fetcher) reconcileLocked(s *reading, err error, sent time.Time) {
	if s.phase == looking || s.why != nil {
		return
	}
	if err != nil {
		if s.phase == seeking && s.asked {
			v := classify(err)
			f.troubleLocked(s, v, err, sent)
			f.againLocked(s)
		}
		return
	}
	sight, _ := f.opt.Leaders.Look(s.start.Topic, s.start.Partition.Partition)
	switch {
	case f.misplacedLocked(s):
		s.why = &doubt{}
		f.seekLocked(s, 0, true)
	case s.phase == seeking && !s.asked && time.Now().Before(s.due):
	case f.placeLocked(s):
	case sight.Err != nil:
		f.troubleLocked(s, classify(sight.Err), sight.Err, sent)
		f.againLocked(s)
	default:
		absence := cmp.Or(sight.Absence(), error(kerr.LeaderNotAvailable))
		f.troubleLocked(s, classify(absence), absence, sent)
		f.againLocked(s)
	}
}

// againLocked seeks again after a pause that grows with each try.
func (f *Fetcher) againLocked(s *reading) {
	f.seekLocked(s, pause(s.tries), true)
	s.tries++
}

// misplacedLocked reports whether metadata say that the partition is gone or
// that another topic stands in its place. That is only a reason to look again.
func (f *Fetcher) misplacedLocked(s *reading) bool {
	sight, ok := f.opt.Leaders.Look(s.start.Topic, s.start.Partition.Partition)
	if !ok {
		return false
	}
	if errors.Is(sight.Err, kerr.UnknownTopicOrPartition) {
		return true
	}
	return sight.Err == nil && (!sight.Exists || otherID(s.start.ID, sight.ID))
}

// otherID reports whether two ids name different topics; an unknown id is no
// evidence.
func otherID(a feed.TopicID, b [16]byte) bool {
	return !a.IsZero() && b != [16]byte{} && b != [16]byte(a)
}

// placeLocked assigns a reading to its leader as the map has it, or leaves it
// where it is if that is right already. False: there is no leader.
func (f *Fetcher) placeLocked(s *reading) bool {
	sight, _ := f.opt.Leaders.Look(s.start.Topic, s.start.Partition.Partition)
	if sight.Broker < 0 || !sight.Exists || otherID(s.start.ID, sight.ID) {
		return false
	}
	if s.phase == assigned && s.home.id == sight.Broker && s.epoch == sight.Epoch {
		return true
	}
	f.detachLocked(s)
	s.phase, s.home, s.epoch = assigned, f.brokerLocked(sight.Broker), sight.Epoch
	f.readyLocked(s)
	return true
}
