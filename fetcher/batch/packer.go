package batch

import "fmt"

// packer distributes contiguous records over batches that hold a size limit.
type packer struct {
	opt      RecodeOptions
	maxBytes int
	base     int64 // offset of records[0]
	records  []packed
	scratch  *buffer
	out      []Recoded
}

// packed is a record to pack. Its payload is not copied: it must stay as it is
// until pack has returned.
type packed struct {
	timestamp int64
	payload   []byte
}

// recordOverhead is what a record usually takes beside its payload, rounded up:
// length, attributes, timestamp delta, offset delta.
const recordOverhead = 10

func newPacker(opt RecodeOptions) *packer {
	return &packer{opt: opt, maxBytes: maxBatchBytes(opt.MaxBytes), scratch: takeBuffer()}
}

func (p *packer) release() { p.scratch.release() }

// take adds the record at the given offset.
func (p *packer) take(offset, timestamp int64, payload []byte) error {
	if offset < p.opt.From {
		return nil
	}
	if len(p.records) == 0 {
		p.base = offset
	}
	if next := p.base + int64(len(p.records)); offset != next {
		return fmt.Errorf("%w: offset %d where %d is due", ErrNotContiguous, offset, next)
	}
	p.records = append(p.records, packed{timestamp, payload})
	return nil
}

// pack encodes what was taken.
func (p *packer) pack() ([]Recoded, error) {
	if len(p.records) == 0 {
		return nil, nil
	}
	if err := p.packRange(0, len(p.records)); err != nil {
		return nil, err
	}
	return p.out, nil
}

// packRange encodes records lo to hi (exclusive), at least one. What does not
// fit is cut in pieces of equal bytes, as many as the excess suggests, and each
// piece is tried again.
func (p *packer) packRange(lo, hi int) error {
	encoded, err := p.encode(lo, hi)
	if err != nil {
		return err
	}
	if len(encoded) <= p.maxBytes {
		p.out = append(p.out, Recoded{Base: p.base + int64(lo), Count: int32(hi - lo), Bytes: encoded})
		return nil
	}
	if hi-lo == 1 {
		return &RecordTooLargeError{Offset: p.base + int64(lo), Bytes: len(encoded), MaxBytes: p.maxBytes}
	}
	// At most half of the whole, so that at least two pieces come out.
	share := p.payloadBytes(lo, hi) / (len(encoded)/p.maxBytes + 1)
	for from := lo; from < hi; {
		to, sum := from+1, len(p.records[from].payload)
		for to < hi && sum+len(p.records[to].payload) <= share {
			sum += len(p.records[to].payload)
			to++
		}
		if err := p.packRange(from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (p *packer) payloadBytes(lo, hi int) int {
	sum := 0
	for _, r := range p.records[lo:hi] {
		sum += len(r.payload)
	}
	return sum
}

// encode returns records lo to hi (exclusive) as one batch of its own memory.
func (p *packer) encode(lo, hi int) ([]byte, error) {
	var dst []byte
	if p.opt.Codec == CodecNone {
		dst = make([]byte, 0, HeaderLen+p.payloadBytes(lo, hi)+recordOverhead*(hi-lo))
	}
	b := newBuilder(dst, p.opt.Codec, p.scratch)
	for _, r := range p.records[lo:hi] {
		b.add(r.timestamp, r.payload)
	}
	return b.seal(dst, p.scratch)
}
