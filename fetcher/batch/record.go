package batch

import "bytes"

// Record is one record as a consumer sees it.
type Record struct {
	// Offset in the partition (absolute).
	Offset int64
	// Timestamp in milliseconds since 1970; -1 where the record has none. With
	// LogAppendTime it is the batch's MaxTimestamp (KIP-32).
	Timestamp int64
	// Key and Value are nil for null; an empty one is not nil.
	Key, Value []byte
	// Headers in the order of the record; keys may repeat.
	Headers []RecordHeader
}

// RecordHeader is one header of a record (KIP-82).
type RecordHeader struct {
	// Key is never null; it may be empty.
	Key []byte
	// Value is nil for null.
	Value []byte
}

// Clone returns a copy of r that shares no memory with it.
func (r Record) Clone() Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	headers := r.Headers
	r.Headers = nil
	for _, h := range headers {
		r.Headers = append(r.Headers, RecordHeader{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)})
	}
	return r
}

// rawRecord is a record as it lies in a batch: its payload (key, value and
// headers, encoded) does not depend on its place, so that it can be moved to
// another batch as it is.
type rawRecord struct {
	timestampDelta int64
	offsetDelta    int32
	payload        []byte
}

// cursor walks the records of one batch and holds them to what its header
// declares (B9).
type cursor struct {
	body []byte // what is left of it
	h    *Header
	seen int32
	last int64 // offset delta of the record before; -1 at first
}

func newCursor(h *Header, body []byte) cursor { return cursor{body: body, h: h, last: -1} }

// next returns the next record; ok is false at the end, which is then checked.
func (c *cursor) next() (r rawRecord, ok bool, err error) {
	if c.seen == c.h.Count {
		if len(c.body) != 0 {
			return r, false, malformed("%d bytes after the last of %d records", len(c.body), c.seen)
		}
		return r, false, nil
	}
	r, c.body, err = cutRecord(c.body)
	if err != nil {
		return r, false, malformed("record %d of %d of the batch at offset %d: %w", c.seen, c.h.Count, c.h.BaseOffset, err)
	}
	if delta := int64(r.offsetDelta); delta <= c.last || delta > int64(c.h.LastOffsetDelta) {
		return r, false, malformed("offset delta %d after %d, up to %d, in the batch at offset %d",
			delta, c.last, c.h.LastOffsetDelta, c.h.BaseOffset)
	}
	c.last = int64(r.offsetDelta)
	c.seen++
	return r, true, nil
}

func (c *cursor) offset(r rawRecord) int64 { return c.h.BaseOffset + int64(r.offsetDelta) }

func (c *cursor) timestamp(r rawRecord) int64 {
	if c.h.LogAppendTime() {
		return c.h.MaxTimestamp
	}
	return c.h.FirstTimestamp + r.timestampDelta
}

// cutRecord takes the first record off body.
func cutRecord(body []byte) (r rawRecord, rest []byte, err error) {
	size, n := varint32(body)
	if n == 0 {
		return r, nil, errVarint
	}
	body = body[n:]
	if size < 0 || int(size) > len(body) {
		return r, nil, errLength
	}
	record, rest := body[:size:size], body[size:]
	if len(record) == 0 {
		return r, nil, errLength
	}
	record = record[1:] // attributes: unused by every version
	if r.timestampDelta, n = varint64(record); n == 0 {
		return r, nil, errVarint
	}
	record = record[n:]
	if r.offsetDelta, n = varint32(record); n == 0 {
		return r, nil, errVarint
	}
	r.payload = record[n:]
	return r, rest, nil
}

// parsePayload fills key, value and headers of r from a record's payload. They
// share memory with it. The slice r.Headers is used again.
func parsePayload(payload []byte, r *Record) (err error) {
	if r.Key, payload, err = cutNullable(payload); err != nil {
		return err
	}
	if r.Value, payload, err = cutNullable(payload); err != nil {
		return err
	}
	count, n := varint32(payload)
	if n == 0 {
		return errVarint
	}
	payload = payload[n:]
	r.Headers = r.Headers[:0]
	if count < 0 || int(count) > len(payload)/2 { // a header takes two bytes at least
		return errLength
	}
	for range count {
		var h RecordHeader
		if h.Key, payload, err = cutNullable(payload); err != nil {
			return err
		}
		if h.Key == nil {
			return errNullHeaderKey
		}
		if h.Value, payload, err = cutNullable(payload); err != nil {
			return err
		}
		r.Headers = append(r.Headers, h)
	}
	if len(payload) != 0 {
		return errTrailing
	}
	return nil
}

// cutNullable takes a length and that many bytes off b; nil for length -1.
func cutNullable(b []byte) (field, rest []byte, err error) {
	size, n := varint32(b)
	if n == 0 {
		return nil, nil, errVarint
	}
	b = b[n:]
	if size == -1 {
		return nil, b, nil
	}
	if size < 0 || int(size) > len(b) {
		return nil, nil, errLength
	}
	return b[:size:size], b[size:], nil
}

// appendPayload appends key, value and headers of r as a batch holds them.
func appendPayload(dst []byte, r Record) []byte {
	dst = appendSized(dst, r.Key)
	dst = appendSized(dst, r.Value)
	dst = appendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendSized(dst, h.Value)
	}
	return dst
}

func appendSized(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
