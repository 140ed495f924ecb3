package batch

import (
	"errors"
	"fmt"
	"iter"
)

// DefaultMaxBatchBytes is the limit of brokers and topics whose
// max.message.bytes nobody changed: 1 MiB and the 12 bytes that a batch's
// length field does not count.
const DefaultMaxBatchBytes = 1<<20 + entryOverhead

// RecodeOptions say what Pieces, Recode and Encode make.
type RecodeOptions struct {
	// Codec of the batches made; the zero value does not compress.
	Codec Codec
	// MaxBytes is the most that a batch may take as encoded, header included
	// (what the target's max.message.bytes is compared with); 0 stands for
	// DefaultMaxBatchBytes.
	MaxBytes int
	// From drops the records below this offset.
	From int64
	// Repeat says whether copies of records fill the holes. Encode ignores it:
	// its records have none.
	Repeat Repeat
	// Limits bound the decoding.
	Limits Limits
}

func maxBatchBytes(n int) int {
	if n <= 0 {
		return DefaultMaxBatchBytes
	}
	return n
}

// Recoded is a batch made from source records, ready for Patch.
type Recoded struct {
	// Base is the offset of its first record on the source.
	Base int64
	// Count is the number of its records, so Base+Count is the next offset.
	Count int32
	Bytes []byte
}

// Pieces encodes the records of the whole data entry b again (B5, B6), which may
// be of any magic: with their timestamps as consumers see them (a LogAppendTime
// batch becomes a CreateTime one), without delete horizon, and in as many batches
// as MaxBytes asks for. Without records at or above opt.From there are none.
//
// Every batch made holds neighbouring offsets only, in the order of the source:
// where compaction left a hole one batch ends, and the next begins beyond it.
// So the batches need not cover all that b stands for: what lies between opt.From
// and the first Base, between one's Base+Count and the next one's Base, and
// between the last one's and the end of b is missing on the source. With
// opt.Repeat only the last of these is left.
//
// All of b is decoded and checked before the first batch is given, then they are
// made one by one while the loop asks for them. An error comes as the last pair,
// with an empty Recoded: the batches before it are sound. A record that does not
// fit a batch of its own gives a *RecordTooLargeError.
func Pieces(b []byte, opt RecodeOptions) iter.Seq2[Recoded, error] {
	return func(yield func(Recoded, error) bool) {
		p := newPacker(opt, func(r Recoded) error {
			if !yield(r, nil) {
				return errEnough
			}
			return nil
		})
		defer p.release()
		err := p.load(b)
		if err == nil {
			err = p.pack()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Recoded{}, err)
		}
	}
}

// errEnough: whoever takes the batches wants no more.
var errEnough = errors.New("enough")

// Recode returns all of Pieces, or none if there is an error. With opt.Repeat,
// where a few bytes may ask for millions of records, it gives ErrLimit when the
// batches together exceed what opt.Limits allow uncompressed: Pieces has no such
// bound and needs none.
func Recode(b []byte, opt RecodeOptions) ([]Recoded, error) {
	var out []Recoded
	size := 0
	for r, err := range Pieces(b, opt) {
		if err != nil {
			return nil, err
		}
		if size += len(r.Bytes); opt.Repeat != RepeatNone && size > opt.Limits.maxUncompressed() {
			return nil, ErrLimit
		}
		out = append(out, r)
	}
	return out, nil
}

// Encode is Recode for records that were decoded before or made up, in the
// order of their offsets. Whoever makes them knows of each: an offset at or
// above opt.From that is skipped or repeated gives ErrNotContiguous. An error of
// the sequence is returned as it is. opt.Limits bounds the records' bytes.
func Encode(records iter.Seq2[Record, error], opt RecodeOptions) ([]Recoded, error) {
	var out []Recoded
	opt.Repeat = RepeatNone
	p := newPacker(opt, func(r Recoded) error {
		out = append(out, r)
		return nil
	})
	defer p.release()
	if err := p.gather(records, opt.Limits.maxUncompressed()); err != nil {
		return nil, err
	}
	for i, r := range p.records {
		if due := p.records[0].offset + int64(i); r.offset != due {
			return nil, fmt.Errorf("%w: offset %d where %d is due", ErrNotContiguous, r.offset, due)
		}
	}
	if err := p.pack(); err != nil {
		return nil, err
	}
	return out, nil
}
