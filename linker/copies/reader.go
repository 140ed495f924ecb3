package copies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/drift"
	"klink/linker/maps"
	"klink/translate/exact"
)

// pieceBytes is how much of a log is read at once.
const pieceBytes = 1 << 20

// Record is what is on record, as maps.Reader tells it.
type Record interface {
	Refresh(ctx context.Context) error
	Map(p maps.Place) (*exact.Map, maps.Cursor, error)
}

// Log reads target partitions, as fetcher.LogReader does. Read returns the batches up
// to the high watermark from the one that holds from on; the receiver releases the
// chunk.
type Log interface {
	Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error)
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// Partition is a partition whose copies are asked for.
type Partition struct {
	maps.Place
	Target feed.Partition
	// Producer is the id of the mirror's batches in the target's log.
	Producer int64
}

// Reader tells where copies lie. It is safe for concurrent use.
type Reader struct {
	record Record
	log    Log

	mu sync.Mutex // guards seen; held over a look at the record
	// seen is when the last look began.
	seen time.Time
}

// New makes a reader of one target.
func New(r Record, l Log) *Reader { return &Reader{record: r, log: l} }

// Copies returns a partition's map with all that its log holds (Y1), and the position
// where copying goes on; nil for a partition that is not in checkpoint mode (Y3). The
// map is the caller's. Errors are those of reading, drift.ErrUnmapped and
// drift.ErrMoved.
func (r *Reader) Copies(ctx context.Context, p Partition) (*exact.Map, drift.Position, error) {
	bounds, err := r.log.Bounds(ctx, p.Target, p.TargetID)
	if err != nil {
		return nil, drift.Position{}, fmt.Errorf("look at the target's log: %w", err)
	}
	// The map is put before the copies, so only a look that is younger than the bounds
	// knows of all of them (Y2).
	if err := r.look(ctx); err != nil {
		return nil, drift.Position{}, fmt.Errorf("read %s: %w", maps.TopicName, err)
	}
	recorded, c, err := r.record.Map(p.Place)
	if err != nil || c.At.IsZero() {
		return nil, drift.Position{}, err
	}
	cursor := drift.Position{Src: c.Src, Dst: c.Dst, Seq: c.Seq}
	scan := drift.Scan{From: drift.ScanFrom(recorded, cursor, bounds.LogStart, bounds.HighWatermark),
		Start: bounds.LogStart, End: bounds.HighWatermark}
	for {
		if scan.Own, err = r.scan(ctx, p, scan.From, scan.End); err != nil {
			return nil, drift.Position{}, err
		}
		m, at, err := drift.Recover(recorded, cursor, scan)
		if !errors.Is(err, drift.ErrMoved) || scan.From == scan.Start {
			return m, at, err
		}
		// A cleaner took the last copy before the cursor, or the log was truncated.
		scan.From = scan.Start
	}
}

// look refreshes the record unless somebody else began to after this call.
func (r *Reader) look(ctx context.Context) error {
	asked := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen.After(asked) {
		return nil
	}
	began := time.Now()
	if err := r.record.Refresh(ctx); err != nil {
		return err
	}
	r.seen = began
	return nil
}

// scan lists the mirror's batches between two target offsets.
func (r *Reader) scan(ctx context.Context, p Partition, from, end int64) (own []drift.OwnBatch, err error) {
	for at := from; at < end; {
		next, err := r.piece(ctx, p, at, end, &own)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the target's log from offset %d on: %w", at, err)
		case next <= at:
			return own, nil // nothing more below the end: a hole up to it
		}
		at = next
	}
	return own, nil
}

// piece reads some batches and returns the offset after them.
func (r *Reader) piece(ctx context.Context, p Partition, at, end int64, own *[]drift.OwnBatch) (next int64, err error) {
	c, err := r.log.Read(ctx, p.Target, p.TargetID, at, pieceBytes)
	if err != nil {
		return at, err
	}
	defer c.Release()
	next = at
	for _, b := range c.Batches {
		h, err := batch.ParseHeader(b)
		base, last := h.BaseOffset, h.LastOffset()
		if errors.Is(err, batch.ErrOldFormat) {
			base, last, err = batch.OldFormatRange(b) // of others
		}
		switch {
		case err != nil:
			return at, err
		case base >= end:
			return next, nil
		case h.ProducerID == p.Producer && !h.IsControl() && h.Magic == 2:
			*own = append(*own, drift.OwnBatch{Base: base, Count: int64(h.LastOffsetDelta) + 1, Seq: h.BaseSequence})
		}
		next = last + 1
	}
	return next, nil
}
