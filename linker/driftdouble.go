package linker

import (
	"context"
	"time"

	"klink/linker/ledger"
	"klink/linker/state"
)

// doubt puts on record, before anything is sent, which source offsets may get a second
// copy; a range without offsets is none. Sequences tell of each copy whether it is
// there. They cannot where the copies were deleted and the target forgot the producer.
func (p *partition) doubt(ctx context.Context, r ledger.Range) *stop {
	if !p.bookOpen {
		rec, found := p.records.Ledger(p.link, p.src.Topic, p.src.Partition)
		if !found && r.End == r.From {
			return nil
		}
		p.book.load(rec, found)
		p.bookOpen = true
	}
	fresh := r.End - max(r.From, p.book.end())
	if r.End == r.From || fresh <= 0 {
		return nil
	}
	p.book.add(r)
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	rec, due := p.book.due(p.ledgerRecord(), time.Now(), true)
	if !due {
		return nil
	}
	if err := p.records.PutLedger(ctx, rec); err != nil {
		p.book.failed()
		return targetLost(state.ControlUnwritable, "record that source offsets %d to %d may be copied twice: %v", r.From, r.End-1, err)
	}
	p.count.doubles.Add(context.WithoutCancel(ctx), fresh, p.count.set(p.src))
	p.log.Warn("records may be copied twice: their copies would have been deleted by the target's retention, and it forgot the producer",
		"flag", state.PossiblyDouble, "from", r.From, "end", r.End, "records", fresh)
	return nil
}

// doubled is how many records may have been copied twice.
func (b *book) doubled() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.index.Totals()[ledger.Doubled]
}
