package batch

import "iter"

// DefaultMaxUncompressedBytes bounds what one batch may decompress to where
// Limits leaves it open. It is 64 times the default size limit of a batch
// (message.max.bytes, 1 MiB): real data seldom compresses better than 20 to 1,
// and a few batches decoded side by side still fit a small process.
const DefaultMaxUncompressedBytes = 64 << 20

// Limits bound what decoding one batch may cost.
type Limits struct {
	// MaxUncompressedBytes is the most that the records of one batch may
	// decompress to; 0 stands for DefaultMaxUncompressedBytes. Records that
	// are not compressed are not limited: they are in memory already.
	MaxUncompressedBytes int
}

func (l Limits) maxUncompressed() int {
	if l.MaxUncompressedBytes <= 0 {
		return DefaultMaxUncompressedBytes
	}
	return l.MaxUncompressedBytes
}

// Records iterates over the records of the whole entry b of any magic, in offset
// order. Holes are skipped. The records of control batches are given too: look
// at Header.IsControl first.
//
// The header and the CRC are checked before anything is decoded (B4), and the
// batch is held to B9 while it is walked. The messages inside a compressed entry
// of magic 0 or 1 have a CRC each, which is checked before the message is given. An error comes as the last pair, with
// an empty Record; the records before it are then not to be used for anything
// that cannot be undone.
//
// Key, Value and the headers' bytes share memory with b or with a pooled
// buffer and are valid until the loop ends; the slice Headers is used again for
// the next record. Use Record.Clone to keep one.
func Records(b []byte, lim Limits) iter.Seq2[Record, error] {
	if isOld(b) {
		return oldRecords(b, lim)
	}
	return func(yield func(Record, error) bool) {
		var h Header
		if err := openBatch(&h, b); err != nil {
			yield(Record{}, err)
			return
		}
		body, scratch, err := bodyOf(&h, b, lim.maxUncompressed())
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer scratch.release()
		c := newCursor(&h, body)
		var r Record
		for {
			raw, ok, err := c.next()
			if err == nil && ok {
				err = c.payload(raw, &r)
			}
			switch {
			case err != nil:
				yield(Record{}, err)
				return
			case !ok:
				return
			}
			r.Offset, r.Timestamp = c.offset(raw), c.timestamp(raw)
			if !yield(r, nil) {
				return
			}
		}
	}
}

// payload is parsePayload with the place of the record in its error.
func (c *cursor) payload(raw rawRecord, r *Record) error {
	if err := parsePayload(raw.payload, r); err != nil {
		return malformed("record at offset %d: %w", c.offset(raw), err)
	}
	return nil
}

// openBatch parses the header of b into h and checks the CRC (B4). With an error
// h is empty.
func openBatch(h *Header, b []byte) error {
	err := h.Parse(b)
	if err != nil {
		return err
	}
	if err = checkCRC(h, b); err != nil {
		*h = Header{}
	}
	return err
}

// bodyOf returns the records of b uncompressed: a part of b where they are not
// compressed, else bytes of a scratch buffer, which the caller releases when it
// is done with them.
func bodyOf(h *Header, b []byte, maxBytes int) (body []byte, scratch *buffer, err error) {
	body = b[HeaderLen:]
	if h.Codec() == CodecNone || h.Count == 0 && len(body) == 0 {
		return body, nil, nil
	}
	scratch = takeBuffer()
	scratch.b, err = decompress(scratch.b[:0], h.Codec(), body, maxBytes)
	if err != nil {
		scratch.release()
		return nil, nil, batchError(h, err)
	}
	return scratch.b, scratch, nil
}
