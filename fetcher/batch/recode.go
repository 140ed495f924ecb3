package batch

import (
	"fmt"
	"iter"
)

// DefaultMaxBatchBytes is the limit of brokers and topics whose
// max.message.bytes nobody changed: 1 MiB and the 12 bytes that a batch's
// length field does not count.
const DefaultMaxBatchBytes = 1<<20 + entryOverhead

// RecodeOptions say what Recode and Encode make.
type RecodeOptions struct {
	// Codec of the batches made; the zero value does not compress.
	Codec Codec
	// MaxBytes is the most that a batch may take as encoded, header included
	// (what the target's max.message.bytes is compared with); 0 stands for
	// DefaultMaxBatchBytes.
	MaxBytes int
	// From drops the records below this offset.
	From int64
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

// Recode encodes the records of the whole data entry b again (B5, B6), which may
// be of any magic: with their timestamps as consumers see them (a LogAppendTime
// batch becomes a CreateTime one), without delete horizon, and in as many batches
// as MaxBytes asks for. Without records at or above opt.From it returns none.
//
// Every batch made holds neighbouring offsets only, in the order of the source:
// where compaction left a hole one batch ends, and the next begins beyond it.
// So the batches need not cover all that b stands for: what lies between opt.From
// and the first Base, between one's Base+Count and the next one's Base, and
// between the last one's and the end of b is missing on the source.
//
// A record that does not fit a batch of its own gives a *RecordTooLargeError.
func Recode(b []byte, opt RecodeOptions) ([]Recoded, error) {
	return collected(opt, func(p *packer) error { return p.load(b) })
}

// collected returns all batches of what load gives the packer; none on an error.
func collected(opt RecodeOptions, load func(*packer) error) ([]Recoded, error) {
	var out []Recoded
	p := newPacker(opt, func(r Recoded) error {
		out = append(out, r)
		return nil
	})
	defer p.release()
	if err := load(p); err != nil {
		return nil, err
	}
	if err := p.pack(); err != nil {
		return nil, err
	}
	return out, nil
}

// Encode is Recode for records that were decoded before or made up, in the
// order of their offsets. Whoever makes them knows of each: an offset at or
// above opt.From that is skipped or repeated gives ErrNotContiguous. An error of
// the sequence is returned as it is. opt.Limits bounds the records' bytes.
func Encode(records iter.Seq2[Record, error], opt RecodeOptions) ([]Recoded, error) {
	return collected(opt, func(p *packer) error {
		if err := p.gather(records, opt.Limits.maxUncompressed()); err != nil {
			return err
		}
		for i, r := range p.records {
			if due := p.records[0].offset + int64(i); r.offset != due {
				return fmt.Errorf("%w: offset %d where %d is due", ErrNotContiguous, r.offset, due)
			}
		}
		return nil
	})
}
