package survey

import (
	"context"
	"fmt"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/plan"
)

const (
	// likeBytes is what is read of each side at either end of what both logs hold.
	likeBytes = 64 << 10
	// likeTail is how many offsets before the common end the second look begins.
	likeTail = 100
)

// unlike looks whether a target partition that this link never wrote to holds what the
// source does, at either end of what both have, and says what is different. Records in
// between are compared by the mirror itself.
func (p *planner) unlike(ctx context.Context, j *job, pos position, dst feed.TopicID) (string, error) {
	common := plan.Common(plan.Range{From: pos.src.LogStart, End: pos.src.LastStable}, plan.Range{From: pos.dstStart, End: pos.dstEnd})
	for _, at := range []int64{common.From, max(common.From, common.End-likeTail)} {
		if at >= common.End {
			continue
		}
		src, err := readPiece(ctx, p.o.SrcReader, piece{j.src, j.plan.Source.ID, at, common.End})
		if err != nil {
			return "", sided(onSource, err)
		}
		there, err := readPiece(ctx, p.o.DstReader, piece{j.dst, dst, at, common.End})
		if err != nil {
			return "", sided(onTarget, err)
		}
		r := plan.Range{From: at, End: min(src.end, there.end)}
		_, d, err := plan.Compare(src.records(), there.records(), r, plan.Compaction(j.means.compacted))
		if err != nil {
			return "", err
		}
		if d != nil {
			return fmt.Sprintf("the target has other data: %s", d), nil
		}
	}
	return "", nil
}

// piece names a part of a log, from at up to end.
type piece struct {
	partition feed.Partition
	id        feed.TopicID
	at, end   int64
}

// seen are the batches of a part of a log that read_committed consumers see. It is
// known up to end.
type seen struct {
	batches [][]byte
	end     int64
}

// readPiece reads once. What lies between the last batch read and the end is unknown;
// without a batch there is nothing up to it.
func readPiece(ctx context.Context, r Reader, p piece) (seen, error) {
	c, err := r.Read(ctx, p.partition, p.id, p.at, likeBytes)
	if err != nil {
		return seen{}, err
	}
	defer c.Release()
	out := seen{end: p.end}
	visible := plan.Visible(c.Batches, c.Aborted)
	for i, b := range c.Batches {
		h, err := batch.ParseHeader(b)
		if err != nil {
			return seen{end: p.at}, nil // of an old format: for the mirror to compare
		}
		out.end = min(p.end, h.LastOffset()+1)
		if visible[i] {
			out.batches = append(out.batches, append([]byte{}, b...))
		}
	}
	return out, nil
}

func (s seen) records() plan.Records {
	return func(yield func(batch.Record, error) bool) {
		for _, b := range s.batches {
			for r, err := range batch.Records(b, batch.Limits{}) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}
