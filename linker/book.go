package linker

import (
	"context"
	"iter"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/plan"
)

const (
	// entryEvery is how often the ledger of a partition with new entries goes to
	// the control topic, and coverEvery how often one without goes there, so that a
	// start after a crash has not much of the log to read again.
	entryEvery = 5 * time.Second
	coverEvery = time.Minute
)

// book is a partition's ledger in memory. The partition adds, the link's record
// loop writes it down, reports read it.
type book struct {
	mu      sync.Mutex // guards all below
	index   ledger.Index
	added   bool
	written time.Time
	// kept: something was ever entered, so that the record is kept up to date.
	kept bool
	// opened: what is on record is known, so that writing loses none of it.
	opened bool
	keys
}

// load begins with what is on record.
func (b *book) load(r control.LedgerRecord, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = true
	if !found {
		return
	}
	x, err := ledger.Decode(r.Index)
	if err == nil {
		b.index, b.kept = *x, true
		b.sync.Load(r.Synced)
		b.stale = b.stale.Join(r.Stale)
	}
}

// end is up to where the ledger tells all.
func (b *book) end() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.index.End()
}

// add enters a range behind all that was entered or covered before.
func (b *book) add(r ledger.Range) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index.Add(r)
	b.added, b.kept = true, true
	b.passed(r, time.Now())
}

// cover says that up to an offset nothing is missing.
func (b *book) cover(end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index.Advance(end)
}

// counts tells how many offsets were filled and how many padded.
func (b *book) counts() (filled, padded int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, n := range b.index.Totals() {
		switch r {
		case ledger.Marker, ledger.Aborted, ledger.Compacted:
			filled += n
		case ledger.Padded, ledger.Retention:
			padded += n
		}
	}
	return filled, padded
}

// due fills in a record where it is time to write it down. all is the end of the
// run, where everything is.
func (b *book) due(r control.LedgerRecord, now time.Time, all bool) (control.LedgerRecord, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	age := now.Sub(b.written)
	if !b.opened || !b.kept && !b.compacts || !(all || b.added && age >= entryEvery || age >= b.coverEvery()) {
		return r, false
	}
	b.written, b.added = now, false
	r.Index, r.Synced, r.Stale, r.AsOf = b.index.Encode(), b.sync.Synced(), b.stale, now
	return r, true
}

// coverEvery is how often the record is renewed where nothing was entered.
func (b *book) coverEvery() time.Duration {
	if b.kept {
		return coverEvery
	}
	return max(coverEvery, b.tombstonesFor/syncShare)
}

// failed takes back that the ledger was written down.
func (b *book) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written, b.added = time.Time{}, true
}

// recordBooks writes down the ledgers that are due.
func (l *Link) recordBooks(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	return l.recordBooksOf(ctx, l.partitions(), all)
}

func (l *Link) recordBooksOf(ctx context.Context, ps []*partition, all bool) error {
	for _, p := range ps {
		p.tellStale()
		p.book.cover(p.entered.Load())
		r, due := p.book.due(p.ledgerRecord(), time.Now(), all)
		if !due {
			continue
		}
		if was, ok := l.store.Ledger(r.Link, r.Topic, r.Partition); ok {
			// Another process of the link may have seen what this one did not.
			r.Stale = p.book.join(was.Stale)
		}
		if err := l.store.PutLedger(ctx, r); err != nil {
			p.book.failed()
			return err
		}
	}
	return nil
}

// ledgerRecord is the record of this partition, without what it tells.
func (p *partition) ledgerRecord() control.LedgerRecord {
	return control.LedgerRecord{Link: p.link, Topic: p.src.Topic, SourceID: p.srcID, Partition: p.src.Partition,
		TargetID: feed.TopicID(p.dst.ID)}
}

// openBook loads the ledger once, and adds what a crash kept from being written
// down: the markers in the target's log from the recorded end on. Without a
// counter ever reserved there are none.
func (p *partition) openBook(ctx context.Context, dst feed.Bounds) *stop {
	if p.bookOpen {
		return nil
	}
	p.book.load(p.records.Ledger(p.link, p.src.Topic, p.src.Partition))
	if r, ok := p.records.Pad(p.link, p.src.Topic, p.src.Partition); ok && p.book.end() <= r.From {
		p.book.add(ledger.Range{From: r.From, End: min(r.Goal, dst.LogEnd), Reason: r.Reason})
	}
	if p.records.CounterEnd(p.link, p.src.Topic, p.srcID, p.src.Partition) > 0 {
		var err error
		p.book.scan(p.markers(ctx, plan.Range{From: max(p.book.end(), dst.LogStart, p.adopted(dst.LogEnd)), End: dst.LogEnd}, &err))
		if err != nil {
			return onTarget(asFault(err, p.dstPartition()))
		}
	}
	p.book.cover(dst.LogEnd)
	p.bookOpen = true
	return nil
}

// scan enters markers read from the target's log.
func (b *book) scan(markers iter.Seq2[int64, int32]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index.FromMarkers(func(yield func(int64, int32) bool) {
		for at, epoch := range markers {
			if _, reason := ledger.SplitEpoch(epoch); reason == ledger.Compacted {
				b.passed(ledger.Range{From: at, End: at + 1, Reason: reason}, time.Now())
			}
			if !yield(at, epoch) {
				return
			}
		}
	})
	b.kept, b.added = true, true
}

// markers yields this mirror's markers in a range of the target's log: offset
// and coordinator epoch. Reading ends at the first error, which is left in err.
func (p *partition) markers(ctx context.Context, r plan.Range, err *error) iter.Seq2[int64, int32] {
	return func(yield func(int64, int32) bool) {
		l := log{reader: p.dstReader, partition: p.dstPartition(), id: feed.TopicID(p.dst.ID)}
		*err = l.each(ctx, r, func(b []byte, visible bool) bool {
			if visible {
				return true
			}
			m, bad := batch.ParseMarker(b)
			if bad != nil || m.HeaderOnly || m.ProducerID != p.identity.ProducerID || m.Base < r.From {
				return true
			}
			return yield(m.Base, m.CoordinatorEpoch)
		})
	}
}
