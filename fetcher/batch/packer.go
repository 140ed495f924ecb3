package batch

import (
	"iter"
	"math"
	"sync"
)

// packer distributes records over batches that hold a size limit: each batch
// holds neighbouring offsets only. Packers are pooled for their list of records.
type packer struct {
	opt      RecodeOptions
	maxBytes int
	// emit takes each batch as it is made; its error ends the packing.
	emit     func(Recoded) error
	records  []packed
	payloads []byte  // that the records point into
	scratch  *buffer // of the batch under way
	source   *buffer // of the payloads; nil where they lie elsewhere
}

// packed is a record to pack. It holds positions instead of a slice, for lists
// of pointers are what the garbage collector would spend its time on here.
type packed struct {
	offset    int64
	timestamp int64
	from, to  int // of the payload in packer.payloads
}

func (r packed) bytes() int { return r.to - r.from }

// recordOverhead is what a record usually takes beside its payload, rounded up:
// length, attributes, timestamp delta, offset delta.
const recordOverhead = 10

// maxPooledRecords is the longest list of records that is kept for the next use:
// 2 MiB, more than batches of 1 MiB usually need.
const maxPooledRecords = 64 << 10

var packers = sync.Pool{New: func() any { return new(packer) }}

func newPacker(opt RecodeOptions, emit func(Recoded) error) *packer {
	p := packers.Get().(*packer)
	*p = packer{opt: opt, maxBytes: maxBatchBytes(opt.MaxBytes), emit: emit, records: p.records[:0], scratch: takeBuffer()}
	return p
}

// release gives the packer back; it must not be used any more.
func (p *packer) release() {
	p.scratch.release()
	p.source.release()
	records := p.records
	if cap(records) > maxPooledRecords {
		records = nil
	}
	*p = packer{records: records}
	packers.Put(p)
}

// take adds a record, whose offset must be above that of the one before.
func (p *packer) take(r packed) {
	if r.offset >= p.opt.From {
		p.records = append(p.records, r)
	}
}

// load takes the records of a data entry of any magic: all of them or, with an
// error, none that may be used.
func (p *packer) load(b []byte) error {
	if isOld(b) {
		// What is uncompressed was bounded by then, and is no larger encoded anew.
		return p.gather(oldRecords(b, p.opt.Limits), math.MaxInt)
	}
	var h Header
	if err := openBatch(&h, b); err != nil {
		return err
	}
	if h.IsControl() {
		return ErrControl
	}
	body, scratch, err := bodyOf(&h, b, p.opt.Limits.maxUncompressed())
	if err != nil {
		return err
	}
	p.source, p.payloads = scratch, body
	c := newCursor(&h, body)
	var r Record // only to see that the payload is sound
	for {
		raw, ok, err := c.next()
		if err == nil && ok {
			err = c.payload(raw, &r)
		}
		if err != nil || !ok {
			return err
		}
		to := len(body) - len(c.body) // a payload ends its record
		p.take(packed{c.offset(raw), c.timestamp(raw), to - len(raw.payload), to})
	}
}

// gather takes decoded records: their payloads are encoded, and together must
// not exceed maxBytes.
func (p *packer) gather(records iter.Seq2[Record, error], maxBytes int) error {
	p.source = takeBuffer()
	arena := p.source.b[:0]
	for r, err := range records {
		if err != nil {
			return err
		}
		if r.Offset < p.opt.From {
			continue
		}
		from := len(arena)
		arena = appendPayload(arena, r)
		if len(arena) > maxBytes {
			return ErrLimit
		}
		p.take(packed{r.Offset, r.Timestamp, from, len(arena)})
	}
	p.source.b, p.payloads = arena, arena
	return nil
}

// pack encodes what was taken, run by run of neighbouring offsets.
func (p *packer) pack() error {
	if p.opt.Repeat != RepeatNone {
		return p.packRepeated()
	}
	for rest := p.records; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].offset == rest[n-1].offset+1 {
			n++
		}
		if err := p.packRun(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// packRun encodes neighbours, at least one. What does not fit is cut in pieces
// of equal bytes, as many as the excess suggests, and each piece is tried again.
func (p *packer) packRun(run []packed) error {
	encoded, err := p.encode(run)
	if err != nil {
		return err
	}
	base := run[0].offset
	if len(encoded) <= p.maxBytes {
		return p.emit(Recoded{Base: base, Count: int32(len(run)), Bytes: encoded})
	}
	if len(run) == 1 {
		return &RecordTooLargeError{Offset: base, Bytes: len(encoded), MaxBytes: p.maxBytes}
	}
	// At most half of the whole, so that at least two pieces come out.
	share := payloadBytes(run) / (len(encoded)/p.maxBytes + 1)
	for len(run) > 0 {
		n, sum := 1, run[0].bytes()
		for n < len(run) && sum+run[n].bytes() <= share {
			sum += run[n].bytes()
			n++
		}
		if err := p.packRun(run[:n]); err != nil {
			return err
		}
		run = run[n:]
	}
	return nil
}

func payloadBytes(run []packed) int {
	sum := 0
	for _, r := range run {
		sum += r.bytes()
	}
	return sum
}

// encode returns neighbours as one batch of its own memory.
func (p *packer) encode(run []packed) ([]byte, error) {
	if p.opt.Repeat != RepeatNone {
		return p.encodeRepeated(run)
	}
	return p.encodeAs(p.opt.Codec, run)
}

func (p *packer) encodeAs(codec Codec, run []packed) ([]byte, error) {
	var dst []byte
	if codec == CodecNone {
		dst = make([]byte, 0, HeaderLen+payloadBytes(run)+recordOverhead*len(run))
	}
	b := newBuilder(dst, codec, p.scratch)
	for _, r := range run {
		b.add(r.timestamp, p.payloads[r.from:r.to])
	}
	return b.seal(dst, p.scratch)
}
