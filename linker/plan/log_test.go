package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"

	"pgregory.net/rapid"

	"klink/fetcher/batch"
)

// shape is a batch of a source log in the tests' words.
type shape struct {
	base, last int64
	count      int32
	epoch      int32
	pid        int64 // -1: none
	attributes int16
	// marker is "commit", "abort" or "emptied" for a control batch.
	marker string
	// old is a message set of format v1.
	old  bool
	size int
}

// Attribute bits (KIP-98, KIP-534).
const (
	appendTimeBit = 0x08
	txnBit        = 0x10
	controlBit    = 0x20
	horizonBit    = 0x40
)

// bytes returns the shape as it comes with a fetch. Of data only the header is
// true: the planner reads nothing behind it.
func (s shape) bytes(t rapid.TB) []byte {
	t.Helper()
	if s.old {
		return oldSet(t, s.base, s.last)
	}
	body := make([]byte, max(0, s.size-batch.HeaderLen))
	count, attributes := s.count, s.attributes
	switch s.marker {
	case "emptied":
		body, count, attributes = nil, 0, attributes|controlBit|txnBit
	case "abort", "commit":
		kind := map[string]byte{"abort": 0, "commit": 1}[s.marker]
		body = []byte{32, 0, 0, 0, 8, 0, 0, 0, kind, 12, 0, 0, 0, 0, 0, 0, 0}
		count, attributes = 1, attributes|controlBit|txnBit
	}
	b := append(make([]byte, batch.HeaderLen), body...)
	be := binary.BigEndian
	be.PutUint64(b[0:], uint64(s.base))
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint32(b[12:], uint32(s.epoch))
	b[16] = 2
	be.PutUint16(b[21:], uint16(attributes))
	be.PutUint32(b[23:], uint32(s.last-s.base))
	be.PutUint64(b[43:], uint64(s.pid))
	be.PutUint32(b[57:], uint32(count))
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// oldSet is a gzip wrapper of magic 1 whose first and last inner messages lie
// at base and last: relative offsets inside, the wrapper's is the last (KIP-31).
func oldSet(t rapid.TB, base, last int64) []byte {
	t.Helper()
	inner := oldMessage(0, 0, nil)
	if last > base {
		inner = append(inner, oldMessage(last-base, 0, nil)...)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(inner); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return oldMessage(last, 1, packed.Bytes())
}

func oldMessage(offset int64, attributes byte, value []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint64(nil, uint64(offset))
	b = be.AppendUint32(b, uint32(22+len(value)))
	b = be.AppendUint32(b, 0)           // CRC, below
	b = append(b, 1, attributes)        // magic
	b = be.AppendUint64(b, 1)           // timestamp
	b = be.AppendUint32(b, 0xffff_ffff) // null key
	b = be.AppendUint32(b, uint32(len(value)))
	b = append(b, value...)
	be.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}
