package linker

import (
	"context"
	"time"

	"klink/linker/control"
	"klink/linker/state"
)

const (
	// yieldTime is how long a process leaves others to learn that it is on record,
	// before it appends where only the record keeps them apart. The record reaches a
	// follower within some milliseconds. Of two that start at once neither may see
	// the other's record in time to know that it replaces it.
	yieldTime = time.Second
	// takeOverAfter is how long a partition may stand still in the hands of a
	// process that started later before this one claims the link for itself.
	takeOverAfter = 30 * time.Second
)

// claim puts this process on record as the last one that started.
func (l *Link) claim(ctx context.Context, store Store) error {
	_, known := store.Worker(l.o.Name)
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	err := store.PutWorker(ctx, control.WorkerRecord{Link: l.o.Name, Worker: l.o.Worker, At: time.Now()})
	if err != nil {
		return err
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	// Who has to claim again has met another process.
	l.clean = !known && l.claimedAt.IsZero()
	l.claimedAt, l.yieldUntil = now, now.Add(yieldTime)
	return nil
}

// startedClean tells that no process of the link was on record when this one
// began, and that it never had to claim the link again.
func (l *Link) startedClean() bool {
	l.mu.Lock()
	store, clean := l.store, l.clean
	l.mu.Unlock()
	r, _ := store.Worker(l.o.Name)
	return clean && (r.Worker != l.o.Worker || r.Replaced == "")
}

// Mine implements Turn. The lease decides. Whoever is alone on record needs none;
// and where the group may not be joined at all, the record decides between those
// that are.
func (l *Link) Mine(ctx context.Context, topic string, partition int32) (rival string, mine bool) {
	if _, held := l.o.Lease.Held(topic, partition); held {
		return "", true
	}
	if alone, _ := l.alone(); !alone && troubleReason(l.o.Lease.Trouble()) != state.NoPermission {
		return "", false
	}
	l.mu.Lock()
	store, until := l.store, l.yieldUntil
	l.mu.Unlock()
	if now := time.Now(); now.Before(until) && !sleep(ctx, until.Sub(now)) {
		return "", false
	}
	r, ok := store.Worker(l.o.Name)
	return r.Worker, ok && r.Worker == l.o.Worker
}

// takeTurn claims the link where this process is not on record, because the
// claim could not be written, because one that started later has left, or
// because the one that is on record lets partitions stand still. Were nobody on
// record, the end of this process would look orderly to the next one.
func (l *Link) takeTurn(ctx context.Context) {
	l.mu.Lock()
	store, claimed := l.store, l.claimedAt
	l.mu.Unlock()
	r, known := store.Worker(l.o.Name)
	if known && r.Worker == l.o.Worker {
		return
	}
	now := time.Now()
	stuck := claimed.IsZero() || !known
	if !stuck && now.Sub(claimed) > takeOverAfter {
		for _, p := range l.partitions() {
			stuck = stuck || p.shown.superseded(now.Add(-takeOverAfter))
		}
	}
	if !stuck {
		return
	}
	if err := l.claim(ctx, store); err != nil {
		l.log.Debug("the link is not claimed", "error", err)
		return
	}
	if !known {
		l.log.Info("this process is on record for the link, as nobody else is", "worker", l.o.Worker)
		return
	}
	l.log.Warn("this process goes on where another one of the link stood still", "worker", l.o.Worker)
}

// superseded tells whether the partition waits for another process and has not
// moved since a time, although there is something to mirror.
func (s *shown) superseded(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag, ok := s.lag.Records()
	return s.pos.Reason == state.Superseded && s.dstMoved.Before(since) && ok && lag > 0
}
