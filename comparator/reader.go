package comparator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"
)

// reader is the Stream of one log's range. It reads one answer ahead, in a
// goroutine of its own, so that no side waits for the other's network.
type reader struct {
	log *log
	// span is in the log's own offsets.
	span     Range
	maxBytes int32
	decoder  *decoder
	// raw leaves decoding to who compares.
	raw bool
	// took is told the bytes of each answer; it may be nil.
	took func(bytes int)

	ahead   chan result // one answer ahead: twice maxBytes in memory
	pending []Block
	err     error
}

// mostPrints bounds what is set aside on the word of a batch's header.
const mostPrints = 10_000

// result is one answer as blocks, or what ended the reading.
type result struct {
	blocks []Block
	err    error
}

// newReader reads the records of a range of offsets: of the source's, where the
// decoder finds the places of copies.
func newReader(l *log, span Range, maxBytes int32, d *decoder) *reader {
	if d.span = span; d.copies != nil {
		span = d.copies.span
	}
	return &reader{log: l, span: span, maxBytes: maxBytes, decoder: d, ahead: make(chan result)}
}

// run reads until the range is read, ctx ends or something fails.
func (r *reader) run(ctx context.Context) {
	defer close(r.ahead)
	err := r.readAll(ctx)
	if err == nil {
		err = io.EOF
	}
	select {
	case r.ahead <- result{err: err}:
	case <-ctx.Done():
	}
}

func (r *reader) readAll(ctx context.Context) error {
	empty := 0
	for at := r.span.From; at < r.span.To && empty < emptyTwice; {
		a, err := r.log.fetch(ctx, at, r.maxBytes)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			if a, err = r.jump(ctx, at); err == nil {
				at = a.start
			}
		}
		if err != nil {
			return err
		}
		if r.took != nil {
			r.took(a.bytes)
		}
		if err := r.log.pace(ctx, a.bytes); err != nil {
			return err
		}
		blocks, next, err := r.blocks(a, at)
		if err != nil {
			return err
		}
		if p := r.decoder.copies; p != nil {
			for i := range blocks {
				p.place(&blocks[i])
			}
		}
		if next == at && !a.throttled {
			empty++
			continue
		}
		empty = 0
		select {
		case r.ahead <- result{blocks: blocks}:
		case <-ctx.Done():
			return ctx.Err()
		}
		at = next
	}
	return nil
}

// jump goes on at the log's start where retention or a trim overtook the
// reading. An offset that is in the log, or beyond its end, is another matter:
// the log lost its tail.
func (r *reader) jump(ctx context.Context, at int64) (answer, error) {
	b, err := r.log.bounds(ctx)
	switch {
	case err != nil:
		return answer{}, err
	case at >= b.Start:
		return answer{}, fmt.Errorf("offset %d is not in the log any more, which goes from %d to %d: %w", at, b.Start, b.LastStable, kerr.OffsetOutOfRange)
	default:
		return answer{start: b.Start, throttled: true}, nil
	}
}

// blocks makes blocks of an answer, and returns the offset to go on from.
func (r *reader) blocks(a answer, at int64) (out []Block, next int64, err error) {
	next = at
	for _, p := range a.parts {
		if p.Next <= at {
			continue
		}
		if p.Base >= r.span.To {
			return append(out, Block{Base: next, Next: r.span.To, Floor: a.start}), r.span.To, nil
		}
		b := Block{Base: p.Base, Next: p.Next, Floor: a.start, Records: p.Records}
		switch {
		case p.Hidden:
		case r.raw && p.Records > 0 && (r.decoder.copies == nil || r.decoder.copies.whole(p)):
			b.Raw = p.Bytes
		default:
			if b.Prints, err = r.decoder.decode(make([]Print, 0, min(p.Records, mostPrints)), p.Bytes); err != nil {
				return nil, next, fmt.Errorf("batch at offset %d: %w", p.Base, err)
			}
		}
		out, next = append(out, b), p.Next
	}
	if len(a.parts) == 0 {
		out = append(out, Block{Base: at, Next: at, Floor: a.start})
	}
	return out, next, nil
}

// Next returns the next block.
func (r *reader) Next(ctx context.Context) (Block, error) {
	for len(r.pending) == 0 {
		if r.err != nil {
			return Block{}, r.err
		}
		select {
		case got, open := <-r.ahead:
			if !open {
				return Block{}, ctx.Err()
			}
			r.pending, r.err = got.blocks, got.err
		case <-ctx.Done():
			return Block{}, ctx.Err()
		}
	}
	b := r.pending[0]
	r.pending = r.pending[1:]
	return b, nil
}
