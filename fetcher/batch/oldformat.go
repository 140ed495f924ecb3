package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// oldMinBytes is the size of a message of magic 0 with null key and null value:
// CRC (4, IEEE, over what follows it), magic (1), attributes (1), the lengths of
// key and value (4 each). Magic 1 (KIP-32) has a timestamp (8) before the key.
// Offset (8) and size (4) come before a message and do not count.
const oldMinBytes = 14

// oldMessage is a message of magic 0 or 1. In a log it stands for itself or, if
// it is compressed, wraps the message set that its value holds.
type oldMessage struct {
	// offset as it is written: of a wrapper that of its last message.
	offset     int64
	crc        uint32
	covered    []byte // what crc covers
	magic      int8
	attributes int8
	timestamp  int64 // noTimestamp with magic 0
	key, value []byte
}

func (m *oldMessage) codec() Codec { return Codec(m.attributes & codecMask) }

// logAppendTime reports whether the timestamp is the broker's; magic 0 has none.
func (m *oldMessage) logAppendTime() bool { return m.magic == 1 && m.attributes&logAppendTimeBit != 0 }

func (m *oldMessage) checkCRC() error {
	if got := crc32.ChecksumIEEE(m.covered); got != m.crc {
		return fmt.Errorf("%w: message at offset %d says %08x, its bytes say %08x", ErrCRC, m.offset, m.crc, got)
	}
	return nil
}

// cutOldFrame takes offset, size and as many bytes off a message set.
func cutOldFrame(set []byte) (offset int64, message, rest []byte, err error) {
	if len(set) < entryOverhead {
		return 0, nil, nil, malformed("message set of %d bytes", len(set))
	}
	be := binary.BigEndian
	offset, size := int64(be.Uint64(set)), int64(int32(be.Uint32(set[lengthAt:])))
	set = set[entryOverhead:]
	switch {
	case offset < 0 || offset > maxBaseOffset:
		return 0, nil, nil, malformed("message offset %d", offset)
	case size < oldMinBytes || size > int64(len(set)):
		return 0, nil, nil, malformed("message of %d bytes in %d", size, len(set))
	}
	return offset, set[:size:size], set[size:], nil
}

// cutOldMessage takes the first message off a message set. Its CRC is not
// checked.
func cutOldMessage(set []byte) (m oldMessage, rest []byte, err error) {
	m.offset, m.covered, rest, err = cutOldFrame(set)
	if err != nil {
		return oldMessage{}, nil, err
	}
	be := binary.BigEndian
	m.crc, m.covered = be.Uint32(m.covered), m.covered[4:]
	m.magic, m.attributes, m.timestamp = int8(m.covered[0]), int8(m.covered[1]), noTimestamp
	fields := m.covered[2:]
	switch {
	case m.magic != 0 && m.magic != 1:
		return oldMessage{}, nil, malformed("magic %d in a message set", m.magic)
	case m.magic == 1 && len(fields) < 8:
		return oldMessage{}, nil, malformed("message of magic 1 without a timestamp")
	case m.magic == 1:
		m.timestamp, fields = int64(be.Uint64(fields)), fields[8:]
	}
	if m.key, fields, err = cutOldField(fields); err != nil {
		return oldMessage{}, nil, err
	}
	if m.value, fields, err = cutOldField(fields); err != nil {
		return oldMessage{}, nil, err
	}
	if len(fields) != 0 {
		return oldMessage{}, nil, malformed("%d bytes after the value of the message at offset %d", len(fields), m.offset)
	}
	return m, rest, nil
}

// cutOldField takes a length of four bytes and that many bytes off b; nil for
// length -1.
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
	return b[:size:size], b[size:], nil
}

// oldEntry is a whole message-set entry, its inner messages uncompressed.
type oldEntry struct {
	wrapper oldMessage
	// inner messages of a compressed entry.
	inner []byte
	// shift leads from an inner message's written offset to the true one.
	shift int64
	// base is the offset of the first message.
	base int64
}

// openOldEntry opens a whole entry of magic 0 or 1. A wrapper's CRC is checked
// before it is opened (B4); the scratch buffer that then holds its messages is
// the caller's to release.
//
// Inner offsets are absolute with magic 0. With magic 1 they are relative
// (KIP-31): the last one, whichever that is after compaction, stands for the
// wrapper's offset.
func openOldEntry(entry []byte, maxBytes int) (e oldEntry, scratch *buffer, err error) {
	m, rest, err := cutOldMessage(entry)
	if err != nil {
		return oldEntry{}, nil, err
	}
	if len(rest) != 0 {
		return oldEntry{}, nil, malformed("%d bytes after the message at offset %d", len(rest), m.offset)
	}
	if m.codec() == CodecNone {
		return oldEntry{wrapper: m, base: m.offset}, nil, nil
	}
	scratch = takeBuffer()
	if e, err = m.unwrap(scratch, maxBytes); err != nil {
		scratch.release()
		return oldEntry{}, nil, fmt.Errorf("message set at offset %d (%s): %w", m.offset, m.codec(), err)
	}
	return e, scratch, nil
}

// unwrap uncompresses what m wraps into scratch.
func (m *oldMessage) unwrap(scratch *buffer, maxBytes int) (oldEntry, error) {
	if err := m.checkCRC(); err != nil {
		return oldEntry{}, err
	}
	if m.codec() >= CodecZstd { // zstd needs magic 2 (KIP-110)
		return oldEntry{}, fmt.Errorf("%w: %d", ErrCodec, int8(m.codec()))
	}
	var err error
	if scratch.b, err = decompress(scratch.b[:0], m.codec(), m.value, maxBytes); err != nil {
		return oldEntry{}, err
	}
	first, last, err := innerOffsets(scratch.b)
	if err != nil {
		return oldEntry{}, err
	}
	if last > m.offset {
		return oldEntry{}, malformed("last inner offset %d", last)
	}
	e := oldEntry{wrapper: *m, inner: scratch.b}
	if m.magic == 1 {
		e.shift = m.offset - last
	}
	e.base = first + e.shift
	return e, nil
}

// innerOffsets returns the first and the last offset of a message set as they
// are written. They rise strictly.
func innerOffsets(set []byte) (first, last int64, err error) {
	first, last = -1, -1
	for len(set) > 0 {
		var offset int64
		if offset, _, set, err = cutOldFrame(set); err != nil {
			return 0, 0, err
		}
		if offset <= last {
			return 0, 0, malformed("inner offset %d after %d", offset, last)
		}
		if first < 0 {
			first = offset
		}
		last = offset
	}
	if first < 0 {
		return 0, 0, malformed("empty message set")
	}
	return first, last, nil
}

// OldFormatRange returns the offsets (both inclusive) that a whole message-set
// entry of magic 0 or 1 stands for: from its first message to the entry's own
// offset. That is the last message's; only with magic 0, where it can be written
// otherwise, may messages be missing at the end (consumers go on after it).
//
// The CRC of a compressed entry is checked before it is opened (B4), which is
// bounded as Records with zero Limits (B2). That of others is left to Records.
func OldFormatRange(entry []byte) (base, last int64, err error) {
	e, scratch, err := openOldEntry(entry, DefaultMaxUncompressedBytes)
	if err != nil {
		return 0, 0, err
	}
	scratch.release()
	return e.base, e.wrapper.offset, nil
}
