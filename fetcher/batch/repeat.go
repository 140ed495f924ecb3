package batch

import (
	"cmp"
	"errors"
	"slices"
)

// Repeat says what Pieces and Recode make of the offsets that are missing.
type Repeat uint8

const (
	// RepeatNone leaves holes: batches end there.
	RepeatNone Repeat = iota
	// RepeatNext fills every missing offset from RecodeOptions.From up to the last
	// surviving record with a copy of the next surviving record: the same key,
	// value, headers and timestamp. The batches are then contiguous from From on.
	// It is for compacted topics, where a repeated upsert changes nothing and the
	// target's own log cleaner removes it again; consumers see the copies.
	//
	// From must be where the target's log ends: a From far below the entry asks
	// for a copy for each offset between, and one of 0 for all from the beginning.
	// Offsets after the last surviving record are left to the next entry.
	//
	// A gap may be of any length, so take the batches from Pieces: an iterator
	// decodes the entry once however long the gap is, holds no more than one batch
	// beside it, and whoever takes the batches sets the pace. It needs no cursor
	// either: what stands at an offset does not depend on where batches begin, so
	// after a restart Pieces goes on with From where the target's log ends.
	//
	// A batch is bounded before it is compressed, by MaxBytes and by
	// MaxRepeatCount, since copies compress to next to nothing and consumers
	// unpack whole batches. One whose records take less than a byte each is
	// encoded by lz4, or not at all, whatever RecodeOptions.Codec says: a consumer
	// by Sarama stalls at a batch that has more records than bytes.
	RepeatNext
)

// MaxRepeatCount is the most records in a batch that RepeatNext makes. It is
// below MaxPadCount because these stay to be read.
const MaxRepeatCount = 100_000

// packRepeated packs the records with copies before them, one batch at a time.
func (p *packer) packRepeated() error {
	var run []packed
	next, size := max(p.opt.From, 0), 0
	for _, r := range p.records {
		cost := r.bytes() + recordOverhead
		for ; next <= r.offset; next++ {
			if len(run) > 0 && (size+cost > p.maxBytes-HeaderLen || len(run) == MaxRepeatCount) {
				if err := p.packCopies(run); err != nil {
					return err
				}
				run, size = run[:0], 0
			}
			run = append(run, packed{next, r.timestamp, r.from, r.to})
			size += cost
		}
	}
	if len(run) == 0 {
		return nil
	}
	return p.packCopies(run)
}

// packCopies is packRun; a copy that is too large is reported as the record that
// it was made from.
func (p *packer) packCopies(run []packed) error {
	err := p.packRun(run)
	var large *RecordTooLargeError
	if errors.As(err, &large) {
		i, _ := slices.BinarySearchFunc(p.records, large.Offset, func(r packed, offset int64) int { return cmp.Compare(r.offset, offset) })
		large.Offset = p.records[i].offset
	}
	return err
}

// encodeRepeated is encode for batches with copies: in the first of the codecs
// that leaves a byte for each record.
func (p *packer) encodeRepeated(run []packed) (encoded []byte, err error) {
	for _, codec := range [...]Codec{p.opt.Codec, CodecLZ4, CodecNone} {
		encoded, err = p.encodeAs(codec, run)
		if err != nil || len(encoded)-HeaderLen >= len(run) {
			break
		}
	}
	return encoded, err
}
