package linker

import (
	"context"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/state"
	"klink/linker/topics"
)

const (
	// stockTombstones is delete.retention.ms as brokers come, for where it cannot
	// be read.
	stockTombstones = 24 * time.Hour
	// syncShare is the part of delete.retention.ms by which the time on record may
	// be too early after a crash: a mirror that was away for that much less than
	// it is taken for one that was away too long.
	syncShare = 24
)

// keys is what a partition's book knows of tombstones that were missed: see
// ledger.Missed. The book's mutex guards it.
type keys struct {
	// compacts: a cleaner may have run on the source's log, now or ever.
	compacts bool
	// tombstonesFor is the source's delete.retention.ms.
	tombstonesFor time.Duration
	sync          ledger.Sync
	stale         *ledger.Stale
	// late: the last hole was passed too late. untold says that this began and was
	// not told yet.
	late, untold bool
}

// passed takes in that the mirror came by a range that is not a copy.
func (k *keys) passed(r ledger.Range, now time.Time) {
	if r.Reason != ledger.Compacted {
		return
	}
	k.sync.Mirrored(r.From)
	was := k.sync.Synced()
	if !ledger.Missed(was, now, k.tombstonesFor) {
		k.late = false
		return
	}
	k.stale = k.stale.Join(&ledger.Stale{From: r.From, End: r.End, Since: was.As})
	k.untold = k.untold || !k.late
	k.late = true
}

// watch sets what is known of the source's cleaner.
func (b *book) watch(compacts bool, t topics.Traits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.compacts = b.compacts || compacts
	if t.Known {
		b.tombstonesFor = t.TombstonesFor
	}
}

// begin says that the target holds no record.
func (b *book) begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Begin(now)
}

// guess reckons from the target's last batch where nothing is on record: what
// follows it on the source was written later, as far as its time can be trusted. A
// marker's time is when it was written here, which says nothing of the source.
func (b *book) guess(tail batch.Header, end int64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := time.UnixMilli(tail.MaxTimestamp)
	if !b.sync.Known() && !tail.IsControl() && tail.MaxTimestamp >= 0 && !at.After(now) {
		b.sync.Load(ledger.Synced{As: at, End: end})
	}
}

// sawSource notes the source's last stable offset; Unknown changes nothing.
func (b *book) sawSource(end int64, at time.Time) {
	if end == feed.Unknown {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Saw(end, at)
}

// mirrored notes the target's log end.
func (b *book) mirrored(next int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Mirrored(next)
}

// join takes in what another process of the link has on record.
func (b *book) join(recorded *ledger.Stale) *ledger.Stale {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale = b.stale.Join(recorded)
	return b.stale
}

// staleKeys is where tombstones may have been missed, nil for nowhere; news says
// that this is to be told.
func (b *book) staleKeys() (s *ledger.Stale, news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news, b.untold = b.untold, false
	return b.stale, news
}

// flags are those that the ledger knows of.
func (b *book) flags() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	if b.stale != nil {
		all = append(all, state.PossiblyStaleKeys)
	}
	if b.index.Totals()[ledger.Doubled] > 0 {
		all = append(all, state.PossiblyDouble)
	}
	return all
}

// trackKeys finds out from when on tombstones may have been missed. Where the
// target holds no record yet that is now, and goes on record before the first one
// is written: a later process could not tell how old the first of them are.
func (p *partition) trackKeys(ctx context.Context, src, dst feed.Bounds, tail batch.Header) *stop {
	now := time.Now()
	switch {
	case dst.LogStart < dst.LogEnd && !p.onlyPads(dst.LogEnd):
		p.book.guess(tail, dst.LogEnd, now)
	default:
		p.book.begin(now)
		if s := p.recordBegin(ctx, now); s != nil {
			return s
		}
	}
	p.book.mirrored(dst.LogEnd)
	p.book.sawSource(src.LastStable, src.SeenAt)
	return nil
}

// onlyPads tells whether all that the target holds is padding.
func (p *partition) onlyPads(end int64) bool {
	r := p.pad.record
	return r.Reason == ledger.Padded && end <= r.Goal
}

func (p *partition) recordBegin(ctx context.Context, now time.Time) *stop {
	if p.begun || !p.compacted.Load() {
		return nil
	}
	r, _ := p.book.due(p.ledgerRecord(), now, true)
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := p.records.PutLedger(ctx, r); err != nil {
		p.book.failed()
		return targetLost(state.ControlUnwritable, "record the beginning of the mirror: %v", err)
	}
	p.begun = true
	return nil
}

// tellStale logs that tombstones may have been missed, once each time.
func (p *partition) tellStale() {
	if s, news := p.book.staleKeys(); news {
		p.log.Warn("tombstones may have been missed", "flag", state.PossiblyStaleKeys, "from", s.From, "end", s.End,
			"hint", "the mirror was behind for longer than delete.retention.ms of the source: keys that were deleted there may live on in the target; compare the keys, or mirror the topic anew with klink repair --recreate")
	}
}
