package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Positions in an entry of magic 0 or 1: offset (8), size (4), CRC (4, IEEE,
// over what follows it), magic (1), attributes (1), with magic 1 timestamp (8),
// then key and value, each behind its length (4).
const (
	oldCRCAt        = 12
	oldAttributesAt = 17
	oldKeyAtV0      = 18
	oldKeyAtV1      = 26
)

// OldFormatRange returns the offsets (both inclusive) that a whole message-set
// entry of magic 0 or 1 stands for. Nothing but the offsets is decoded.
//
// A compressed entry wraps a message set, and its own offset is that of the
// last inner message. Inner offsets are absolute with magic 0 and, since KIP-31,
// relative with magic 1: there the first is the wrapper's offset less the
// distance from the first inner offset to the last. The CRC is checked before
// a wrapper is opened (B4), which is bounded as Records with zero Limits (B2).
func OldFormatRange(entry []byte) (base, last int64, err error) {
	magic := Magic(entry)
	if magic != 0 && magic != 1 {
		return 0, 0, malformed("magic %d in a message set", magic)
	}
	size := int64(int32(binary.BigEndian.Uint32(entry[lengthAt:])))
	if size < minOldEntryLength || size+entryOverhead != int64(len(entry)) {
		return 0, 0, malformed("length %d in an entry of %d bytes", size, len(entry))
	}
	last = int64(binary.BigEndian.Uint64(entry))
	if last < 0 {
		return 0, 0, malformed("offset %d", last)
	}
	codec := Codec(entry[oldAttributesAt] & codecMask)
	if codec == CodecNone {
		return last, last, nil
	}
	want := binary.BigEndian.Uint32(entry[oldCRCAt:])
	if got := crc32.ChecksumIEEE(entry[magicAt:]); got != want {
		return 0, 0, fmt.Errorf("%w: message at offset %d says %08x, its bytes say %08x", ErrCRC, last, want, got)
	}
	value, err := oldValue(entry)
	if err != nil {
		return 0, 0, err
	}
	firstInner, lastInner, err := innerOffsets(codec, value)
	if err != nil {
		return 0, 0, fmt.Errorf("message set at offset %d (%s): %w", last, codec, err)
	}
	if magic == 1 {
		base = last - (lastInner - firstInner)
	} else {
		base = firstInner
	}
	if base < 0 || base > last {
		return 0, 0, malformed("message set at offset %d begins at %d", last, base)
	}
	return base, last, nil
}

// oldValue returns the value of a message of magic 0 or 1.
func oldValue(entry []byte) ([]byte, error) {
	at := oldKeyAtV0
	if Magic(entry) == 1 {
		at = oldKeyAtV1
	}
	if len(entry) < at {
		return nil, malformed("message of %d bytes", len(entry))
	}
	_, rest, err := cutOldField(entry[at:]) // the key, which a wrapper has no use for
	if err != nil {
		return nil, err
	}
	value, _, err := cutOldField(rest)
	return value, err
}

// cutOldField takes a length of four bytes and that many bytes off b.
func cutOldField(b []byte) (field, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, malformed("truncated message")
	}
	size := int64(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	if size == -1 {
		return nil, b, nil
	}
	if size < 0 || size > int64(len(b)) {
		return nil, nil, malformed("field of %d bytes in %d", size, len(b))
	}
	return b[:size], b[size:], nil
}

// innerOffsets returns the first and the last offset of a compressed message
// set, as they stand there.
func innerOffsets(codec Codec, value []byte) (first, last int64, err error) {
	scratch := takeBuffer()
	defer scratch.release()
	scratch.b, err = decompress(scratch.b[:0], codec, value, DefaultMaxUncompressedBytes)
	if err != nil {
		return 0, 0, err
	}
	inner := scratch.b
	for n := 0; len(inner) > 0; n++ {
		if len(inner) < entryOverhead {
			return 0, 0, malformed("%d bytes after the last inner message", len(inner))
		}
		offset := int64(binary.BigEndian.Uint64(inner))
		size := int64(int32(binary.BigEndian.Uint32(inner[lengthAt:])))
		if size < minOldEntryLength || size > int64(len(inner)-entryOverhead) {
			return 0, 0, malformed("inner message of %d bytes in %d", size, len(inner))
		}
		switch {
		case offset < 0 || n > 0 && offset <= last:
			return 0, 0, malformed("inner offset %d after %d", offset, last)
		case n == 0:
			first = offset
		}
		last = offset
		inner = inner[entryOverhead+size:]
	}
	if len(scratch.b) == 0 {
		return 0, 0, malformed("empty message set")
	}
	return first, last, nil
}
