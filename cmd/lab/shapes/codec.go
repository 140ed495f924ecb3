package shapes

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Bits of the attributes of batches and messages.
const (
	noneBits      = 0
	gzipBits      = 1
	snappyBits    = 2
	lz4Bits       = 3
	zstdBits      = 4 // of batches only
	appendTimeBit = 8
)

// compress is what a producer that writes the magic does to records.
func compress(plain []byte, magic, codec byte) ([]byte, error) {
	var out bytes.Buffer
	switch codec {
	case noneBits:
		return plain, nil
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
	case zstdBits:
		w, err := zstd.NewWriter(&out)
		if err != nil {
			return nil, err
		}
		err = through(w, plain)
		return out.Bytes(), err
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
