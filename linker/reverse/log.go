package reverse

import (
	"context"
	"errors"
	"slices"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/plan"
)

// pieceBytes is how much of a log is read at once while comparing.
const pieceBytes = 256 << 10

// log reads one partition of one side piece by piece. A comparison needs a piece
// of each side at once, and waiting for one side's share of the fetch budget while
// holding the other's could last for ever; so a piece is copied and its share
// given back at once.
type log struct {
	reader Reader
	at     feed.Partition
	id     feed.TopicID
	piece  []byte
}

// records yields what a read_committed consumer sees of the offsets [from, end).
func (l *log) records(ctx context.Context, from, end int64) records {
	return func(yield func(batch.Record, error) bool) {
		for at := from; at < end; {
			next, more, err := l.readPiece(ctx, at, end, yield)
			if err != nil {
				yield(batch.Record{}, err)
				return
			}
			if !more || next <= at {
				return // nothing more below the end: a hole up to it
			}
			at = next
		}
	}
}

// readPiece yields the records of one read, and returns where the next begins.
func (l *log) readPiece(ctx context.Context, at, end int64, yield func(batch.Record, error) bool) (next int64, more bool, err error) {
	c, err := l.reader.Read(ctx, l.at, l.id, at, pieceBytes)
	if err != nil {
		return at, false, err
	}
	aborted := c.Aborted
	batches := l.own(c)
	seen := plan.Visible(batches, aborted)
	for i, b := range batches {
		base, last, err := extent(b)
		switch {
		case err != nil:
			return at, false, feed.NewFault(feed.Corrupt, l.at, at, err)
		case base >= end:
			return at, false, nil
		case last < at:
			continue
		}
		if seen[i] {
			for r, err := range batch.Records(b, batch.Limits{}) {
				if err != nil {
					return at, false, feed.NewFault(feed.Corrupt, l.at, base, err)
				}
				if !yield(r, nil) {
					return at, false, nil
				}
			}
		}
		next = last + 1
	}
	return next, true, nil
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

// extent returns the offsets a batch of any format covers, both inclusive.
func extent(b []byte) (base, last int64, err error) {
	h, err := batch.ParseHeader(b)
	if errors.Is(err, batch.ErrOldFormat) {
		return batch.OldFormatRange(b)
	}
	return h.BaseOffset, h.LastOffset(), err
}
