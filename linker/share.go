package linker

import (
	"context"
	"sync"
	"time"

	"klink/fetcher/feed"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/workers"
)

// joinPatience is how long a process that is not alone on record waits for word of
// the group before it mirrors without. Those that live let it in within the second
// in which they send a heartbeat; the dead hold it up for a session.
const joinPatience = 1500 * time.Millisecond

// sharing is what decides whether a partition is mirrored here.
type sharing struct {
	workers.Share
	// alone: no other process of the link was on record when this one started, and
	// none has started since.
	alone bool
	// since is how long ago this process began.
	since time.Duration
}

// mirrors tells whether a partition is mirrored here (K10). The group decides. Where
// nothing is known of it, whoever is alone begins at once, and whoever is not leaves
// the others some time to say what they have. Two that mirror the same for a while
// are kept apart by their sequences.
func (s sharing) mirrors() bool {
	switch {
	case s.Mine:
		return true
	case s.alone:
		return !s.Heard
	case s.Joined:
		return false
	}
	return s.since >= joinPatience
}

// mirrorsHere tells whether a target partition is mirrored by this process, as
// things stand now.
func (l *Link) mirrorsHere() func(p *partition) bool {
	alone, since := l.alone()
	return func(p *partition) bool {
		return sharing{l.o.Lease.Share(p.dst.Topic, p.dst.Partition), alone, since}.mirrors()
	}
}

// alone tells whether no other process of the link has been on record since this
// one began, and how long ago that was.
func (l *Link) alone() (alone bool, since time.Duration) {
	l.mu.Lock()
	store, clean, began := l.store, l.clean, l.began
	l.mu.Unlock()
	r, known := store.Worker(l.o.Name)
	return clean && known && r.Worker == l.o.Worker && r.Replaced == "", time.Since(began)
}

// share brings the loops of all topics to what the group says. It reports whether
// something is left to be done.
func (l *Link) share(ctx context.Context, wg *sync.WaitGroup) (open bool) {
	alone, since := l.alone()
	open = !alone && since < joinPatience
	here := l.mirrorsHere()
	for _, t := range l.listed() {
		open = t.drop(here) || open
		t.start(ctx, wg)
	}
	return open
}

// drop ends the loops of partitions that are not mirrored here any more; open tells
// that some are still draining.
func (t *topic) drop(here func(*partition) bool) (open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.want.Want != intent.Mirror {
		return false // an order ends them all
	}
	for n, p := range t.partitions {
		l := t.lives[n]
		switch {
		case !p.here:
		case here(p): // it may have been told to end before
			open = open || l != nil && l.told && !l.over()
		case l == nil || l.over():
			t.lives[n], p.here = nil, false
		default:
			l.end()
			open = true
		}
	}
	return open
}

// giveUp ends the loops of partitions that go to another process, and returns once
// nothing of them is under way and their ledgers are on record.
func (l *Link) giveUp(ctx context.Context, ps []workers.Partition) {
	l.mu.Lock()
	ended := l.ended
	l.mu.Unlock()
	if ended {
		return // all is over and on record
	}
	ctx, cancel := context.WithTimeout(ctx, drainTime+putTimeout)
	defer cancel()
	gone := make(map[workers.Partition]bool, len(ps))
	for _, p := range ps {
		gone[p] = true
	}
	given := make(map[*topic]map[int32]*life)
	for _, t := range l.listed() {
		given[t] = t.endLives(func(n int32, p *partition) bool { return gone[workers.Partition{Topic: p.dst.Topic, Partition: n}] })
	}
	for t, lives := range given {
		for n, life := range lives {
			select {
			case <-life.done:
				t.leave(n, life)
			case <-ctx.Done():
				return
			}
		}
	}
	if err := l.recordBooksOf(ctx, l.left(gone), true); err != nil {
		l.log.Debug("ledgers of partitions that were given up are not recorded", "error", err)
	}
}

// leave forgets the run of a loop whose partition somebody else has from now on.
func (t *topic) leave(n int32, l *life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(n) < len(t.lives) && t.lives[n] == l {
		t.lives[n], t.partitions[n].here = nil, false
	}
}

// left lists the partitions of a set that this process has given up.
func (l *Link) left(set map[workers.Partition]bool) (all []*partition) {
	for _, t := range l.listed() {
		t.mu.Lock()
		for n, p := range t.partitions {
			if !p.here && set[workers.Partition{Topic: p.dst.Topic, Partition: int32(n)}] {
				all = append(all, p)
			}
		}
		t.mu.Unlock()
	}
	return all
}

// arrive prepares a partition that begins here, or comes back, while others of the
// link are on record: it forgets what they may have changed, and what they may have
// on its way is a doubt (K8).
func (p *partition) arrive(l *Link) {
	alone, _ := l.alone()
	p.gaps.doubt = p.gaps.doubt || !alone
	if p.bookOpen {
		p.confirmed, p.bookOpen, p.begun = feed.Unknown, false, false
		p.entered.Store(0)
		p.book.reset()
	}
}

// reset forgets all that is on record; what is known of the source's settings stays.
func (b *book) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index, b.added, b.written, b.kept, b.opened = ledger.Index{}, false, time.Time{}, false, false
	b.keys = keys{compacts: b.compacts, tombstonesFor: b.tombstonesFor}
}
