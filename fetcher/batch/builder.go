package batch

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// builder puts records one after the other into a v2 batch (B6). Uncompressed
// records go straight to their place behind the header; others are gathered in
// a scratch buffer and compressed by seal.
type builder struct {
	codec Codec
	// body ends with the records; they begin at origin.
	body   []byte
	origin int
	count  int32
	first  int64 // timestamp of the first record
	max    int64 // largest timestamp, at least noTimestamp
}

// newBuilder returns a builder whose batch is appended to dst, which seal must
// be given again. scratch serves the compressing codecs.
func newBuilder(dst []byte, codec Codec, scratch *buffer) builder {
	b := builder{codec: codec, max: noTimestamp}
	if codec == CodecNone {
		b.body = append(dst, make([]byte, HeaderLen)...)
	} else {
		b.body = scratch.b[:0]
	}
	b.origin = len(b.body)
	return b
}

// bytes returns the size of the batch so far, were it not compressed.
func (b *builder) bytes() int { return HeaderLen + len(b.body) - b.origin }

// add appends the next record.
func (b *builder) add(timestamp int64, payload []byte) {
	if b.count == 0 {
		b.first = timestamp
	}
	b.max = max(b.max, timestamp)
	delta := timestamp - b.first // may wrap around; the reader's sum wraps back
	size := 1 + varintLen(delta) + varintLen(int64(b.count)) + len(payload)
	body := appendVarint(b.body, int64(size))
	body = append(body, 0) // record attributes
	body = appendVarint(body, delta)
	body = appendVarint(body, int64(b.count))
	b.body = append(body, payload...)
	b.count++
}

// mark is a state of a builder to go back to.
type mark struct {
	length int
	count  int32
	max    int64
}

func (b *builder) mark() mark { return mark{len(b.body), b.count, b.max} }

// backTo drops the records added since m was taken.
func (b *builder) backTo(m mark) { b.body, b.count, b.max = b.body[:m.length], m.count, m.max }

// seal completes the batch and returns dst with the batch appended. Of a
// compressing builder the scratch buffer is free again afterwards.
func (b *builder) seal(dst []byte, scratch *buffer) ([]byte, error) {
	start := b.origin - HeaderLen
	if b.codec == CodecNone {
		dst = b.body
	} else {
		scratch.b = b.body
		start = len(dst)
		dst = slices.Grow(dst, HeaderLen+len(b.body)/2)
		dst = dst[:start+HeaderLen]
		var err error
		if dst, err = compress(dst, b.codec, b.body[b.origin:]); err != nil {
			return dst[:start], err
		}
	}
	sealHeader(dst[start:], Header{
		LeaderEpoch: noLeaderEpoch, Magic: currentMagic, Attributes: int16(b.codec), LastOffsetDelta: b.count - 1,
		FirstTimestamp: b.first, MaxTimestamp: b.max,
		ProducerID: noProducerID, ProducerEpoch: noProducerEpoch, BaseSequence: noSequence, Count: b.count,
	})
	return dst, nil
}

// sealHeader writes h to the batch b with the length and CRC of b.
func sealHeader(b []byte, h Header) {
	h.Length = int32(len(b) - entryOverhead)
	h.put(b)
	binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], castagnoli))
}
