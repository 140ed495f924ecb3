package comparator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

// reader is the Stream of one log's range. It fetches one answer ahead of what it
// decodes, and decodes one ahead of what is compared, so that nothing waits for the
// network while there is something to do, nor one side for the other.
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

	ahead   chan result // one answer ahead
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

// piece is an answer from an offset on, or what ended the fetching.
type piece struct {
	answer
	at  int64
	err error
}

// run reads until the range is read, ctx ends or something fails.
func (r *reader) run(ctx context.Context) {
	defer close(r.ahead)
	inner, cancel := context.WithCancel(ctx)
	pieces := make(chan piece)
	var fetching sync.WaitGroup
	fetching.Go(func() {
		defer close(pieces)
		err := r.fetchAll(inner, pieces)
		if err == nil {
			err = io.EOF
		}
		select {
		case pieces <- piece{err: err}:
		case <-inner.Done():
		}
	})
	err := r.decodeAll(ctx, pieces)
	cancel()
	fetching.Wait()
	select {
	case r.ahead <- result{err: err}:
	case <-ctx.Done():
	}
}

// fetchAll asks for one answer after the other.
func (r *reader) fetchAll(ctx context.Context, pieces chan<- piece) error {
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
		next := at
		for _, p := range a.parts {
			next = max(next, p.Next)
		}
		if next == at && !a.throttled {
			empty++
			continue
		}
		empty = 0
		select {
		case pieces <- piece{answer: a, at: at}:
		case <-ctx.Done():
			return ctx.Err()
		}
		at = next
	}
	return nil
}

// decodeAll makes blocks of the answers, while the next one is on its way. It returns
// what ended the reading.
func (r *reader) decodeAll(ctx context.Context, pieces <-chan piece) error {
	for p := range pieces {
		if p.err != nil {
			return p.err
		}
		blocks, err := r.blocks(p.answer, p.at)
		if err != nil {
			return err
		}
		if c := r.decoder.copies; c != nil {
			for i := range blocks {
				c.place(&blocks[i])
			}
		}
		select {
		case r.ahead <- result{blocks: blocks}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
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

// blocks makes blocks of an answer from an offset on.
func (r *reader) blocks(a answer, at int64) (out []Block, err error) {
	next := at
	for _, p := range a.parts {
		if p.Next <= at {
			continue
		}
		if p.Base >= r.span.To {
			return append(out, Block{Base: next, Next: r.span.To, Floor: a.start}), nil
		}
		b := Block{Base: p.Base, Next: p.Next, Floor: a.start, Records: p.Records}
		switch {
		case p.Hidden:
		case r.raw && p.Records > 0 && (r.decoder.copies == nil || r.decoder.copies.whole(p)):
			b.Raw = p.Bytes
		default:
			if b.Prints, err = r.decoder.decode(make([]Print, 0, min(p.Records, mostPrints)), p.Bytes); err != nil {
				return nil, fmt.Errorf("batch at offset %d: %w", p.Base, err)
			}
		}
		out, next = append(out, b), p.Next
	}
	if len(a.parts) == 0 {
		out = append(out, Block{Base: at, Next: at, Floor: a.start})
	}
	return out, nil
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
