package batch

import (
	"errors"
	"fmt"
	"slices"
)

// MergeOptions say how far Merge goes.
type MergeOptions struct {
	// MaxBytes is the most that the merged batch may take as encoded, header
	// included; 0 stands for DefaultMaxBatchBytes.
	MaxBytes int
	// Limits bound what all the merged records together may take uncompressed.
	Limits Limits
}

// Mergeable reports with a *NotMergeableError why the batch with header h can
// never be part of a merge, nil if it can.
func Mergeable(h *Header) error {
	if o := obstacle(h); o != 0 {
		return &NotMergeableError{Base: h.BaseOffset, Obstacle: o}
	}
	return nil
}

func obstacle(h *Header) Obstacle {
	switch {
	case h.IsControl():
		return Control
	case h.Count == 0:
		return Empty
	case h.HasHoles():
		return Holes
	default:
		return 0
	}
}

// Merge appends to dst one batch that holds the records of as many of the
// leading batches as fit, in the codec of the first (B5, B6), and returns dst
// and how many batches that are, at least two.
//
// The batches must be neighbours: whole v2 data batches without holes, each
// beginning where the one before it ends. Codecs, producers and timestamp types
// may differ; LogAppendTime and delete horizons are resolved as in Recode.
// Whatever cannot be merged gives a *NotMergeableError that names the first
// batch in the way; dst is then returned as it was given.
//
// What fits is known exactly for uncompressed output. For compressed output
// Merge first takes the batches whose own sizes add up to MaxBytes, and half of
// them again while the result is too large.
//
// The memory of dst must not overlap that of the batches.
func Merge(dst []byte, batches [][]byte, opt MergeOptions) (out []byte, merged int, err error) {
	if len(batches) < 2 {
		return dst, 0, &NotMergeableError{Base: -1, Obstacle: TooFew}
	}
	first, err := ParseHeader(batches[0])
	if err != nil {
		return dst, 0, mergeError(0, &first, err)
	}
	m := merger{
		codec: first.Codec(), base: first.BaseOffset,
		maxBytes: maxBatchBytes(opt.MaxBytes), maxBody: opt.Limits.maxUncompressed(),
	}
	for len(batches) >= 2 {
		out, merged, err = m.run(dst, batches)
		if !errors.Is(err, errMergedTooLarge) {
			return out, merged, err
		}
		batches = batches[:merged/2]
	}
	return dst, 0, &NotMergeableError{Index: 1, Base: first.NextOffset(), Obstacle: NoRoom}
}

// errMergedTooLarge: the compressed result of a run exceeds the limit.
var errMergedTooLarge = errors.New("merged batch too large")

// merger is what stays the same over the runs of one Merge.
type merger struct {
	codec    Codec
	base     int64 // offset of the first record
	maxBytes int
	maxBody  int // of uncompressed records
}

// run merges once. With errMergedTooLarge, merged tells how many it took.
func (m merger) run(dst []byte, batches [][]byte) (out []byte, merged int, err error) {
	scratch := takeBuffer()
	defer scratch.release()
	if m.codec == CodecNone {
		dst = slices.Grow(dst, m.expectedBytes(batches))
	}
	b := newBuilder(dst, m.codec, scratch)
	next, sources := m.base, 0
	var h Header
	for i, raw := range batches {
		if sources += len(raw); i >= 2 && m.codec != CodecNone && sources > m.maxBytes {
			break
		}
		mark := b.mark()
		err := m.add(&b, raw, next, &h)
		if err != nil && !errors.Is(err, ErrLimit) {
			return dst, 0, mergeError(i, &h, err)
		}
		if err != nil || m.full(&b) {
			b.backTo(mark)
			break
		}
		next = h.NextOffset()
		merged++
	}
	if merged < 2 {
		return dst, 0, &NotMergeableError{Index: merged, Base: next, Obstacle: NoRoom}
	}
	start := len(dst)
	if out, err = b.seal(dst, scratch); err != nil {
		return dst, 0, err
	}
	if len(out)-start > m.maxBytes {
		return dst, merged, errMergedTooLarge
	}
	return out, merged, nil
}

func (m merger) full(b *builder) bool {
	return b.bytes()-HeaderLen > m.maxBody || m.codec == CodecNone && b.bytes() > m.maxBytes
}

// expectedBytes is a guess at the size of an uncompressed result, never above
// the limit.
func (m merger) expectedBytes(batches [][]byte) int {
	sum := 0
	for _, raw := range batches {
		if sum += len(raw); sum > m.maxBytes {
			return m.maxBytes
		}
	}
	return sum
}

// add appends the records of one batch, which must begin at offset next. Its
// header is put into h.
func (m merger) add(b *builder, raw []byte, next int64, h *Header) error {
	if err := openBatch(h, raw); err != nil {
		return err
	}
	if o := obstacle(h); o != 0 {
		return &NotMergeableError{Obstacle: o}
	}
	if h.BaseOffset != next {
		return &NotMergeableError{Obstacle: Gap}
	}
	body, scratch, err := bodyOf(h, raw, m.maxBody)
	if err != nil {
		return err
	}
	defer scratch.release()
	c := newCursor(h, body)
	var r Record // only to see that the payload is sound
	for {
		record, ok, err := c.next()
		if err == nil && ok {
			err = c.payload(record, &r)
		}
		if err != nil || !ok {
			return err
		}
		b.add(c.timestamp(record), record.payload)
	}
}

// mergeError adds to err which batch it is about.
func mergeError(index int, h *Header, err error) error {
	var refused *NotMergeableError
	switch {
	case errors.Is(err, ErrOldFormat):
		return &NotMergeableError{Index: index, Base: -1, Obstacle: Old}
	case errors.As(err, &refused):
		refused.Index, refused.Base = index, h.BaseOffset
		return refused
	default:
		return fmt.Errorf("merge batch %d: %w", index, err)
	}
}
