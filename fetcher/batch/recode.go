package batch

import "iter"

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

// Recode encodes the records of the whole v2 data batch b again (B5, B6): with
// their timestamps as consumers see them (a LogAppendTime batch becomes a
// CreateTime one), without delete horizon, and in as many batches as MaxBytes
// asks for. Without records at or above opt.From it returns none.
//
// The records must be contiguous: holes give ErrNotContiguous. A record that
// does not fit a batch of its own gives a *RecordTooLargeError.
func Recode(b []byte, opt RecodeOptions) ([]Recoded, error) {
	h, err := openBatch(b)
	if err != nil {
		return nil, err
	}
	if h.IsControl() {
		return nil, ErrControl
	}
	body, scratch, err := bodyOf(h, b, opt.Limits.maxUncompressed())
	if err != nil {
		return nil, err
	}
	defer scratch.release()

	p := newPacker(opt)
	defer p.release()
	c := newCursor(h, body)
	var r Record // only to see that the payload is sound
	for {
		raw, ok, err := c.next()
		if err == nil && ok {
			err = c.payload(raw, &r)
		}
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return p.pack()
		}
		if err := p.take(c.offset(raw), c.timestamp(raw), raw.payload); err != nil {
			return nil, err
		}
	}
}

// Encode is Recode for records that were decoded before or made up. An error
// of the sequence is returned as it is. opt.Limits bounds the records' bytes.
func Encode(records iter.Seq2[Record, error], opt RecodeOptions) ([]Recoded, error) {
	arena := takeBuffer()
	defer arena.release()
	type place struct {
		offset, timestamp int64
		from, to          int
	}
	var places []place
	arena.b = arena.b[:0]
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		from := len(arena.b)
		arena.b = appendPayload(arena.b, r)
		if len(arena.b) > opt.Limits.maxUncompressed() {
			return nil, ErrLimit
		}
		places = append(places, place{r.Offset, r.Timestamp, from, len(arena.b)})
	}
	p := newPacker(opt)
	defer p.release()
	for _, at := range places { // only now the arena does not move any more
		if err := p.take(at.offset, at.timestamp, arena.b[at.from:at.to]); err != nil {
			return nil, err
		}
	}
	return p.pack()
}
