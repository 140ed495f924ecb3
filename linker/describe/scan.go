package describe

import (
	"context"
	"errors"
	"fmt"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/ledger"
)

// pieceBytes is how much of a log is read at a time.
const pieceBytes = 1 << 20

// Reader reads the target. Every error is a *feed.Fault. Read returns the
// batches from the one that holds from on, up to the high watermark; the
// receiver releases the chunk.
type Reader interface {
	Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error)
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// Scan brings the partition's ledger forward from the recorded index to the
// target's high watermark, by the markers in the target's log. Only their records
// are decoded; of data the headers are read. Where the index is fresh that is the
// last seconds of the log, and without an index all of it. After an error the
// ledger is as it was.
//
// The log does not show what was padded, recoded or split, nor fills by records:
// of these only the index and the pad goals tell.
func (p *Partition) Scan(ctx context.Context, r Reader, d Detail) error {
	if p.trail.producerID == 0 {
		p.Ledger.Notes = append(p.Ledger.Notes, "nothing on record tells which markers of the log are the link's")
		return nil
	}
	b, err := r.Bounds(ctx, p.trail.partition, p.trail.id)
	if err != nil {
		return fmt.Errorf("find the ends of the target's log: %w", err)
	}
	s := newScan(p.trail, r)
	if err := s.run(ctx, b); err != nil {
		return fmt.Errorf("read the target's log: %w", err)
	}
	s.padBelow(unbounded)
	p.Ledger = s.ledger(d)
	p.Ledger.AsOf, p.Ledger.UpTo = &b.SeenAt, &s.upTo
	return nil
}

// scan is one reading of a partition's log.
type scan struct {
	*tally
	log    trail
	reader Reader
	// next is where reading goes on, upTo the end of what is known without a
	// hole: it follows next until something is missed.
	next, upTo int64
	missed     bool
}

func newScan(t trail, r Reader) *scan {
	s := &scan{tally: newTally(t), log: t, reader: r}
	s.next, _ = s.reach()
	s.upTo = s.next
	return s
}

// run reads up to the high watermark.
func (s *scan) run(ctx context.Context, b feed.Bounds) error {
	s.skipTo(b.LogStart)
	for s.next < b.HighWatermark {
		was := s.next
		err := s.piece(ctx, b.HighWatermark)
		var f *feed.Fault
		switch {
		case errors.As(err, &f) && f.Kind == feed.Overrun && f.LogStart > was:
			s.skipTo(f.LogStart)
		case err != nil:
			return err
		case s.next == was:
			s.miss(fmt.Sprintf("the target's log gives nothing between offset %d and its end %d", was, b.HighWatermark))
			return nil
		}
	}
	return nil
}

// skipTo goes on at the log's start. What was below it is not seen any more, but
// for what is known to be padding.
func (s *scan) skipTo(logStart int64) {
	s.padBelow(logStart)
	s.advance(s.index.End())
	if s.next < logStart {
		s.miss(fmt.Sprintf("the target's log begins at offset %d: what was filled from %d on is not in it any more", logStart, s.next))
		s.advance(logStart)
	}
}

func (s *scan) miss(note string) {
	s.missed = true
	s.notes = append(s.notes, note)
}

func (s *scan) advance(next int64) {
	s.next = max(s.next, next)
	if !s.missed {
		s.upTo = s.next
	}
}

// piece reads once and takes in the markers below an end.
func (s *scan) piece(ctx context.Context, end int64) error {
	c, err := s.reader.Read(ctx, s.log.partition, s.log.id, s.next, pieceBytes)
	if err != nil {
		return err
	}
	defer c.Release()
	for _, b := range c.Batches {
		h, err := header(b)
		if err != nil {
			return feed.NewFault(feed.Corrupt, s.log.partition, s.next, err)
		}
		if h.BaseOffset >= end {
			s.advance(end)
			return nil
		}
		if h.LastOffset() < s.next {
			continue
		}
		if h.IsControl() && h.ProducerID == s.log.producerID {
			if err := s.marker(b); err != nil {
				return feed.NewFault(feed.Corrupt, s.log.partition, h.BaseOffset, err)
			}
		}
		s.advance(min(h.NextOffset(), end))
	}
	return nil
}

// header returns a batch's header. Of old formats, which no marker has, only the
// offsets are filled in.
func header(b []byte) (batch.Header, error) {
	h, err := batch.ParseHeader(b)
	if errors.Is(err, batch.ErrOldFormat) {
		base, last, err := batch.OldFormatRange(b)
		return batch.Header{BaseOffset: base, LastOffsetDelta: int32(last - base)}, err
	}
	return h, err
}

// marker takes in one of the link's own (D3).
func (s *scan) marker(b []byte) error {
	m, err := batch.ParseMarker(b)
	switch {
	case errors.Is(err, batch.ErrNotMarker):
		return nil
	case err != nil:
		return err
	case m.HeaderOnly:
		s.unexplained++
		return nil
	}
	s.padBelow(m.Base)
	_, reason := ledger.SplitEpoch(m.CoordinatorEpoch)
	s.index.Add(ledger.Range{From: m.Base, End: m.Base + 1, Reason: reason})
	return nil
}
