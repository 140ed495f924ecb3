package comparator

import (
	"context"
	"errors"
	"io"
	"time"
)

// awaitEnd waits for a target that is mirrored to until its end reaches where
// the source ended. A target that does not move ends there; moving says that it
// did and was not done in time.
func (p *pair) awaitEnd(ctx context.Context, end int64) (b Bounds, moving bool, err error) {
	began := time.Now()
	last, moved := int64(-1), began
	for {
		if b, err = p.dst.bounds(ctx); err != nil {
			return b, false, err
		}
		now := time.Now()
		if b.LastStable != last {
			last, moved = b.LastStable, now
		}
		switch {
		case b.LastStable >= end || now.Sub(moved) >= stillFor:
			return b, false, nil
		case now.Sub(began) >= lagFor:
			return b, true, nil
		}
		if !sleep(ctx, lookEvery) {
			return b, false, ctx.Err()
		}
	}
}

// awaitStart looks where the logs start, again and again where a mirror may
// still follow.
func (p *pair) awaitStart(ctx context.Context, dst Bounds) (src, now Bounds, err error) {
	began := time.Now()
	for {
		if src, err = p.src.bounds(ctx); err != nil {
			return src, dst, err
		}
		if _, found := judgeStart(src, dst, p.opt.starts()); !found || dst.Start > src.Start || time.Since(began) >= trimFor {
			return src, dst, nil
		}
		if !sleep(ctx, lookEvery) {
			return src, dst, ctx.Err()
		}
		if dst.Start, err = p.dst.listOffset(ctx, earliestOffset); err != nil {
			return src, dst, err
		}
	}
}

// drain hands over all prints of a stream.
func drain(ctx context.Context, s Stream, do func(Print)) error {
	for {
		b, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, p := range b.Prints {
			do(p)
		}
	}
}
