package linker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"klink/fetcher/feed"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/plan"
	"klink/linker/state"
)

// An operator may accept that a halted partition does not hold what the source
// holds (klink repair --accept). Nothing of its log is changed, since no client can
// cut a log: what differs is entered in the ledger, is compared no more, and
// mirroring goes on at the target's end, once the source has passed it.

// acceptance is the order to accept that is not carried out yet; nil is none.
type acceptance struct{ atomic.Pointer[intent.Command] }

// accept lets halted partitions accept what their logs hold. Their loops have
// ended.
func (t *topic) accept(c intent.Command) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, p := range t.partitions {
		pos := p.shown.position()
		if t.lives[n] == nil && about(c, int32(n)) && pos.State == state.Halted && slices.Contains(state.Acceptable, pos.Reason) {
			p.accepting.Store(&c)
		}
	}
}

// accept carries out what was ordered: it looks for the first difference and
// enters all from there to the target's end in the ledger, on record before
// anything is written behind it (G8).
func (p *partition) accept(ctx context.Context, src, dst feed.Bounds) *stop {
	c := p.accepting.Load()
	if c == nil || dst.LogEnd < src.LogStart { // retention overran the mirror: begin pads
		return nil
	}
	from, s := p.firstDifference(ctx, src, dst)
	if s != nil {
		return s
	}
	if from < dst.LogEnd {
		p.book.accept(ledger.Range{From: from, End: dst.LogEnd, Reason: ledger.Accepted})
		if s := p.recordBook(ctx); s != nil {
			return s
		}
		p.log.Warn("what the target holds is accepted, though the source holds another thing", "from", from, "end", dst.LogEnd,
			"command", c.Number, "by", c.By)
	}
	p.accepting.Store(nil)
	return nil
}

// firstDifference returns where the target's log ceases to be the source's; its end
// where it does not.
func (p *partition) firstDifference(ctx context.Context, src, dst feed.Bounds) (int64, *stop) {
	r := plan.Common(plan.Range{From: src.LogStart, End: src.LastStable}, plan.Range{From: dst.LogStart, End: dst.LogEnd})
	r.From = max(r.From, min(p.book.accepted(), r.End))
	if r.From >= r.End {
		return r.End, nil
	}
	if err := p.compares.Acquire(ctx, 1); err != nil {
		return 0, reprobe("ended")
	}
	defer p.compares.Release(1)
	srcLog := log{reader: p.srcReader, partition: p.src, id: p.srcID}
	dstLog := log{reader: p.dstReader, partition: p.dstPartition(), id: feed.TopicID(p.dst.ID)}
	_, diff, err := plan.Compare(srcLog.records(ctx, r), dstLog.records(ctx, r), r, p.policy().Compaction)
	switch {
	case err != nil:
		return 0, p.onCompareError(err)
	case diff != nil:
		return diff.Offset, nil
	}
	return r.End, nil
}

// recordBook writes the ledger down now.
func (p *partition) recordBook(ctx context.Context) *stop {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	r, _ := p.book.due(p.ledgerRecord(), time.Now(), true)
	if err := p.records.PutLedger(ctx, r); err != nil {
		p.book.failed()
		return targetLost(controlTrouble(err).Reason, "record what was accepted: %v", err)
	}
	return nil
}

// short tells that the source's log ends within what was accepted: nothing can be
// mirrored until it has passed that.
func (p *partition) short(src feed.Bounds) *stop {
	if end := p.book.accepted(); end > src.LogEnd {
		return &stop{event: state.SourceLost, reason: state.SourceShort,
			detail: fmt.Sprintf("the source ends at %d, and the target up to %d was accepted as it is", src.LogEnd, end)}
	}
	return nil
}

// accepted is the end of what was accepted last, Unknown where nothing was.
func (b *book) accepted() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if end, ok := b.index.Accepted(); ok {
		return end
	}
	return feed.Unknown
}

// accept enters a range in place of all that is entered above its beginning.
func (b *book) accept(r ledger.Range) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index.Accept(r)
	b.added, b.kept = true, true
}
