package shapes

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/klauspost/compress/snappy"
	"github.com/pierrec/lz4/v4"
)

// message is one record of the formats before batches: no headers, and no time
// in the oldest.
type message struct {
	offset     int64
	timestamp  int64 // of magic 1
	key, value []byte
}

// Bits of a message's attributes.
const (
	gzipBits      = 1
	snappyBits    = 2
	lz4Bits       = 3
	appendTimeBit = 8
)

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

func compress(plain []byte, magic, codec byte) ([]byte, error) {
	var out bytes.Buffer
	switch codec {
	case gzipBits:
		err := through(gzip.NewWriter(&out), plain)
		return out.Bytes(), err
	case snappyBits:
		return framedSnappy(plain), nil
	case lz4Bits:
		w := lz4.NewWriter(&out)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			return nil, err
		}
		if err := through(w, plain); err != nil {
			return nil, err
		}
		if magic == 0 {
			spoilHeaderChecksum(out.Bytes())
		}
		return out.Bytes(), nil
	}
	return nil, fmt.Errorf("no codec has the bits %d", codec)
}

func through(w io.WriteCloser, plain []byte) error {
	_, err := w.Write(plain)
	return errors.Join(err, w.Close())
}

// framedSnappy is the framing of xerial's snappy-java, which Kafka's own
// producers have always used: a header, then blocks behind their lengths.
func framedSnappy(plain []byte) []byte {
	const blockBytes = 1 << 10 // small, so that there are several
	b := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for len(plain) > 0 {
		n := min(blockBytes, len(plain))
		block := snappy.Encode(nil, plain[:n])
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(block))), block...)
		plain = plain[n:]
	}
	return b
}

// spoilHeaderChecksum writes the checksum that Kafka's producers before magic 1
// put into LZ4 frames (KAFKA-3160): over the frame's magic number as well.
func spoilHeaderChecksum(frame []byte) {
	const at = 6 // after the magic number, the flags and the block descriptor
	frame[at] = byte(shortXXH32(frame[:at]) >> 8)
}

// shortXXH32 is the XXH32 hash, seed 0, of less than 16 bytes.
func shortXXH32(b []byte) uint32 {
	const prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := uint32(prime5) + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}
