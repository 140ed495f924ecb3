package shapes

import (
	"encoding/binary"
	"hash/crc32"
)

// message is one record of the formats before batches: no headers, and no time
// in the oldest.
type message struct {
	offset     int64
	timestamp  int64 // of magic 1
	key, value []byte
}

// encode appends a message of magic 0 or 1 (message sets of Kafka 0.7 to 0.9,
// and KIP-32's of 0.10).
func (m message) encode(b []byte, magic, attributes byte) []byte {
	body := []byte{magic, attributes}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(m.timestamp))
	}
	for _, field := range [][]byte{m.key, m.value} {
		length := int32(len(field))
		if field == nil {
			length = -1
		}
		body = append(binary.BigEndian.AppendUint32(body, uint32(length)), field...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(m.offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}

// wrap appends messages as one compressed message. Those of magic 0 keep their
// offsets inside; those of magic 1 have offsets relative to the first that there
// ever was in it (KIP-31), which is base: cleaners leave holes.
func wrap(b []byte, magic, attributes byte, base int64, inner []message) ([]byte, error) {
	var plain []byte
	last := inner[len(inner)-1]
	wrapper := message{offset: last.offset, timestamp: last.timestamp}
	for _, m := range inner {
		wrapper.timestamp = max(wrapper.timestamp, m.timestamp)
		if magic == 1 {
			m.offset -= base
		}
		plain = m.encode(plain, magic, 0)
	}
	var err error
	if wrapper.value, err = compress(plain, magic, attributes&7); err != nil {
		return nil, err
	}
	return wrapper.encode(b, magic, attributes), nil
}
