package app

import (
	"context"
	"crypto/sha256"
	"fmt"

	"klink/fetcher"
	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/plan"
	"klink/translate/takeover"
)

// takeoverPiece is how much of a log is read at once.
const takeoverPiece = 1 << 20

// pieces reads what a read_committed consumer sees of a partition, from an offset to
// an end.
type pieces struct {
	log  *fetcher.LogReader
	at   feed.Partition
	id   feed.TopicID
	next int64
	end  int64
}

// read gives the records of one piece, those of aborted transactions too; more is
// false where the end is reached.
func (p *pieces) read(ctx context.Context, take func(r batch.Record, aborted bool) error) (more bool, err error) {
	if p.next >= p.end {
		return false, nil
	}
	c, err := p.log.Read(ctx, fetcher.ReadRequest{Partition: p.at, ID: p.id, From: p.next, MaxBytes: takeoverPiece, ReadCommitted: true})
	if err != nil {
		return false, fmt.Errorf("read %s/%d: %w", p.at.Topic, p.at.Partition, err)
	}
	defer c.Release()
	entries, err := plan.ReadEntries(nil, c.Batches, c.Aborted)
	if err != nil {
		return false, fmt.Errorf("read %s/%d from offset %d on: %w", p.at.Topic, p.at.Partition, p.next, err)
	}
	if len(entries) == 0 {
		p.next = p.end
		return false, nil
	}
	from := p.next
	for i, e := range entries {
		if p.next = e.Header.NextOffset(); e.Old {
			p.next = e.OldLast + 1
		} else if e.Header.IsControl() {
			continue
		}
		for r, err := range batch.Records(c.Batches[i], batch.Limits{}) {
			if err != nil {
				return false, fmt.Errorf("read %s/%d from offset %d on: %w", p.at.Topic, p.at.Partition, from, err)
			}
			if r.Offset < from || r.Offset >= p.end {
				continue
			}
			if err := take(r, e.Aborted); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// all reads to the end what a consumer sees.
func (p *pieces) all(ctx context.Context, take func(batch.Record)) error {
	for {
		more, err := p.read(ctx, func(r batch.Record, aborted bool) error {
			if !aborted {
				take(r)
			}
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
}

// comparedLog implements takeover.Log.
type comparedLog struct {
	pieces
	// withAborted: records of aborted transactions are given too.
	withAborted bool
	ready       []takeover.Record
}

// Begin implements takeover.Log.
func (l *comparedLog) Begin(offset int64) { l.next, l.ready = offset, nil }

// Next implements takeover.Log.
func (l *comparedLog) Next(ctx context.Context) (takeover.Record, bool, error) {
	var scratch []byte
	for len(l.ready) == 0 {
		l.ready = make([]takeover.Record, 0, 64)
		more, err := l.read(ctx, func(r batch.Record, aborted bool) error {
			if aborted && !l.withAborted {
				return nil
			}
			at := r.Offset
			r.Offset = 0
			scratch = batch.AppendCanonical(scratch[:0], r)
			l.ready = append(l.ready, takeover.Record{Offset: at, Sum: sha256.Sum256(scratch), Aborted: aborted})
			return nil
		})
		if err != nil || !more {
			return takeover.Record{}, false, err
		}
	}
	r := l.ready[0]
	l.ready = l.ready[1:]
	return r, true, nil
}
