package linker

import (
	"context"
	"errors"
	"math"
	"slices"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/plan"
	"klink/linker/state"
)

const (
	// pieceBytes is how much of a log is read at once while comparing.
	pieceBytes = 256 << 10
	// comparesAtOnce bounds the comparisons of a link, and with them the pieces
	// held outside the fetch budget: two each.
	comparesAtOnce = 4
)

// tailStart finds an offset from which the target's log holds at least
// tailBytes, guessed from the size of the last batch and doubled until it does.
func (p *partition) tailStart(ctx context.Context, r plan.Range, tail batch.Header) (int64, *stop) {
	perRecord := max(1, int64(tail.Length)/max(1, int64(tail.Count)))
	for back := max(1, tailBytes/perRecord); ; back *= 2 {
		from := r.End - back
		if from <= r.From {
			return r.From, nil
		}
		held, s := p.bytesFrom(ctx, from, r.End)
		if s != nil {
			return 0, s
		}
		if held >= tailBytes {
			return from, nil
		}
	}
}

// bytesFrom sums the target's bytes in [from, end), up to tailBytes.
func (p *partition) bytesFrom(ctx context.Context, from, end int64) (sum int, s *stop) {
	l := log{reader: p.dstReader, partition: p.dstPartition(), id: feed.TopicID(p.dst.ID)}
	err := l.each(ctx, plan.Range{From: from, End: end}, func(b []byte, _ bool) bool {
		sum += len(b)
		return sum < tailBytes
	})
	if err != nil {
		return 0, onTarget(asFault(err, p.dstPartition()))
	}
	return sum, nil
}

// compare holds the two logs side by side over r.
func (p *partition) compare(ctx context.Context, r plan.Range) *stop {
	if r.From >= r.End {
		return nil
	}
	if err := p.compares.Acquire(ctx, 1); err != nil {
		return reprobe("ended")
	}
	defer p.compares.Release(1)
	src := log{reader: p.srcReader, partition: p.src, id: p.srcID}
	dst := log{reader: p.dstReader, partition: p.dstPartition(), id: feed.TopicID(p.dst.ID)}
	equal, diff, err := plan.Compare(src.records(ctx, r), dst.records(ctx, r), r, p.policy().Compaction)
	if err != nil {
		return p.onCompareError(err)
	}
	if diff != nil {
		return p.onDifference(ctx, &dst, r, *diff)
	}
	p.log.Debug("compared with the source", "from", r.From, "end", r.End, "records", equal)
	return nil
}

// onCompareError tells which side an error came from.
func (p *partition) onCompareError(err error) *stop {
	var f *feed.Fault
	switch {
	case errors.As(err, &f) && f.Partition == p.src:
		return onSource(f)
	case errors.As(err, &f):
		return onTarget(f)
	}
	return halt(state.Corrupt, "compare source and target: %v", err)
}

// onDifference names who wrote the target's batch at the first difference. In
// a log that this mirror has been writing a batch of another producer is a
// foreign write, behind what it adopted; else the two logs have different
// histories, or the target's has nothing to do with klink at all.
func (p *partition) onDifference(ctx context.Context, dst *log, r plan.Range, d plan.Difference) *stop {
	foreign, klinks := false, false
	// The batch before tells, too, whether a klink wrote here: its control topic may be lost.
	err := dst.each(ctx, plan.Range{From: max(r.From, d.Offset-1), End: r.End}, func(b []byte, _ bool) bool {
		h, err := batch.ParseHeader(b)
		klinks = klinks || err == nil && appender.Computed(h.ProducerID)
		if _, last, known := extent(b); known == nil && last < d.Offset {
			return true
		}
		foreign = err == nil && !p.owns(h) && h.BaseOffset <= d.Offset
		return false
	})
	adopted := p.adopted(math.MaxInt64)
	if err == nil && foreign && (adopted != feed.Unknown || p.mirrored()) && d.Offset >= adopted {
		return halt(state.ForeignWrite, "%s, in a batch that klink did not write; offsets %d to %d may all be behind it", d, d.Offset, r.End-1)
	}
	s := halt(state.Diverged, "%s", d)
	if err != nil || klinks {
		return s
	}
	return p.otherData(s)
}

// log reads one partition of either cluster piece by piece. A comparison needs
// a piece of each side at once, and waiting for one side's share of the fetch
// budget while holding the other's could last for ever; so a piece is copied
// and its share given back at once.
type log struct {
	reader    Reader
	partition feed.Partition
	id        feed.TopicID
	piece     []byte
}

// each calls f with every batch that touches r, in order, until f says no, and
// tells whether a read_committed consumer sees its records. The bytes are valid
// during the call only.
func (l *log) each(ctx context.Context, r plan.Range, f func(b []byte, visible bool) bool) error {
	for at := r.From; at < r.End; {
		next, more, err := l.readPiece(ctx, at, r.End, f)
		if err != nil || !more {
			return err
		}
		if next <= at {
			return nil // nothing more to read below the end: a hole up to it
		}
		at = next
	}
	return nil
}

// own copies a chunk's batches and gives the chunk back.
func (l *log) own(c *feed.Chunk) [][]byte {
	defer c.Release()
	l.piece = slices.Grow(l.piece[:0], c.Bytes)
	out := make([][]byte, len(c.Batches))
	for i, b := range c.Batches {
		from := len(l.piece)
		l.piece = append(l.piece, b...)
		out[i] = l.piece[from:len(l.piece):len(l.piece)]
	}
	return out
}

// readPiece handles one read and returns where the next begins.
func (l *log) readPiece(ctx context.Context, at, end int64, f func(b []byte, visible bool) bool) (next int64, more bool, err error) {
	c, err := l.reader.Read(ctx, l.partition, l.id, at, pieceBytes)
	if err != nil {
		return at, false, err
	}
	next = at
	batches := l.own(c)
	visible := plan.Visible(batches, c.Aborted)
	for i, b := range batches {
		base, last, err := extent(b)
		if err != nil {
			return at, false, feed.NewFault(feed.Corrupt, l.partition, next, err)
		}
		if base >= end {
			return next, false, nil
		}
		if last < at {
			continue
		}
		if !f(b, visible[i]) {
			return next, false, nil
		}
		next = last + 1
	}
	return next, true, nil
}

// extent returns the offsets a batch of any format covers, both inclusive.
func extent(b []byte) (base, last int64, err error) {
	h, err := batch.ParseHeader(b)
	if errors.Is(err, batch.ErrOldFormat) {
		return batch.OldFormatRange(b)
	}
	return h.BaseOffset, h.LastOffset(), err
}

// records yields the records a read_committed consumer would see in r.
func (l *log) records(ctx context.Context, r plan.Range) plan.Records {
	return func(yield func(batch.Record, error) bool) {
		err := l.each(ctx, r, func(b []byte, visible bool) bool {
			if !visible {
				return true
			}
			for rec, err := range batch.Records(b, batch.Limits{}) {
				if err != nil {
					yield(batch.Record{}, feed.NewFault(feed.Corrupt, l.partition, r.From, err))
					return false
				}
				if !yield(rec, nil) {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(batch.Record{}, err)
		}
	}
}
