package batch

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Java clients wrap snappy blocks in the framing of the xerial library: a
// header of 16 bytes (a magic, its version, the oldest version that can read
// it), then blocks behind their big-endian length. librdkafka and others write
// one bare block. Both are read, as every client does; the framing is written,
// since then a reader needs no more than a block's memory.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

const (
	xerialMagicLen = 8
	// xerialBlockBytes is the block size of Java's SnappyOutputStream.
	xerialBlockBytes = 32 << 10
	// snappyMaxRatio is above what a snappy element can expand to (64 bytes from 3).
	snappyMaxRatio = 22
)

func readSnappy(dst, src []byte, maxBytes int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialHeader[:xerialMagicLen]) {
		return readSnappyBlock(dst, src, maxBytes)
	}
	for len(src) > 0 {
		if bytes.HasPrefix(src, xerialHeader[:xerialMagicLen]) { // streams may be joined
			if len(src) < len(xerialHeader) {
				return dst, malformed("snappy: truncated header")
			}
			src = src[len(xerialHeader):]
			continue
		}
		if len(src) < 4 {
			return dst, malformed("snappy: truncated block length")
		}
		size := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if size > int64(len(src)) {
			return dst, malformed("snappy: block of %d bytes in %d", size, len(src))
		}
		var err error
		if dst, err = readSnappyBlock(dst, src[:size], maxBytes); err != nil {
			return dst, err
		}
		src = src[size:]
	}
	return dst, nil
}

func readSnappyBlock(dst, block []byte, maxBytes int) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return dst, malformed("snappy: %w", err)
	case size > snappyMaxRatio*len(block):
		return dst, malformed("snappy: %d bytes declared to come from %d", size, len(block))
	case size > maxBytes-len(dst):
		return dst, ErrLimit
	}
	dst = slices.Grow(dst, size)
	if _, err := s2.Decode(dst[len(dst):len(dst)+size], block); err != nil {
		return dst, malformed("snappy: %w", err)
	}
	return dst[:len(dst)+size], nil
}

func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlockBytes)]
		src = src[len(block):]
		at := len(dst)
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(block)))
		encoded := s2.EncodeSnappy(dst[at+4:cap(dst)], block)
		binary.BigEndian.PutUint32(dst[at:at+4], uint32(len(encoded)))
		dst = dst[:at+4+len(encoded)]
	}
	return dst
}
