package batch

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format (version 1.6.x), as far as Kafka uses it. Frames are
// walked here and only blocks are left to the library: that saves its buffers
// and its set-up, which weigh more than the data where batches are small, and
// it bounds the output exactly.
//
// The frame's own checksums are not verified: the batch's CRC covers them and
// was checked before (B4), and message sets of magic 0 carry a header checksum
// that is wrong by tradition (KAFKA-3160). The content size is skipped, as
// Java's reader does.
const (
	lz4BlockIndependent = 0x20
	lz4BlockChecksum    = 0x10
	lz4ContentSize      = 0x08
	lz4ContentChecksum  = 0x04
	lz4Forbidden        = 0x03 // reserved; dictionary id
	lz4Stored           = 1 << 31
	lz4WindowBytes      = 64 << 10
	// lz4MaxRatio is above what a byte of an LZ4 block can expand to (255).
	lz4MaxRatio = 256
)

var lz4Magic = []byte{0x04, 0x22, 0x4d, 0x18}

// lz4Frame is the head of the frames written: what Java's producer writes,
// independent blocks of 64 KiB and no checksums but the head's own.
var lz4Frame = []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}

const lz4BlockBytes = 64 << 10

func readLZ4(dst, src []byte, maxBytes int) ([]byte, error) {
	flags, blockMax, src, err := cutLZ4Header(src)
	if err != nil {
		return dst, err
	}
	for {
		if len(src) < 4 {
			return dst, malformed("lz4: no end mark")
		}
		word := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if word == 0 {
			break
		}
		size, trailer := int64(word&^lz4Stored), int64(0)
		if flags&lz4BlockChecksum != 0 {
			trailer = 4
		}
		if size > int64(blockMax) || size+trailer > int64(len(src)) {
			return dst, malformed("lz4: block of %d bytes in %d", size, len(src))
		}
		block := src[:size]
		src = src[size+trailer:]
		switch {
		case word&lz4Stored == 0:
			linked := flags&lz4BlockIndependent == 0
			dst, err = readLZ4Block(dst, block, lz4Room{blockMax, maxBytes, linked})
		case len(block) > maxBytes-len(dst):
			err = ErrLimit
		default:
			dst = append(dst, block...)
		}
		if err != nil {
			return dst, err
		}
	}
	if flags&lz4ContentChecksum != 0 {
		if len(src) < 4 {
			return dst, malformed("lz4: no content checksum")
		}
		src = src[4:]
	}
	if len(src) != 0 {
		return dst, malformed("lz4: %d bytes after the frame", len(src))
	}
	return dst, nil
}

// cutLZ4Header takes the frame's head off src.
func cutLZ4Header(src []byte) (flags byte, blockMax int, rest []byte, err error) {
	const fixed = 7 // magic, flags, block size, checksum
	if len(src) < fixed || !bytes.HasPrefix(src, lz4Magic) {
		return 0, 0, nil, malformed("lz4: no frame")
	}
	flags = src[4]
	sizeCode := src[5] >> 4 & 0x07
	if flags>>6 != 1 || flags&lz4Forbidden != 0 || sizeCode < 4 {
		return 0, 0, nil, malformed("lz4: frame flags %02x, block size %02x", flags, src[5])
	}
	n := fixed
	if flags&lz4ContentSize != 0 {
		n += 8
	}
	if len(src) < n {
		return 0, 0, nil, malformed("lz4: truncated frame head")
	}
	return flags, 1 << (8 + 2*sizeCode), src[n:], nil
}

// lz4Room says where a block's output may go.
type lz4Room struct {
	blockMax, maxBytes int
	linked             bool // refers to the output before it
}

func readLZ4Block(dst, block []byte, room lz4Room) ([]byte, error) {
	wanted := min(room.blockMax, lz4MaxRatio*len(block))
	size := min(wanted, room.maxBytes-len(dst))
	dst = slices.Grow(dst, size)
	out := dst[len(dst) : len(dst)+size]
	var n int
	var err error
	if room.linked {
		n, err = lz4.UncompressBlockWithDict(block, out, dst[max(0, len(dst)-lz4WindowBytes):])
	} else {
		n, err = lz4.UncompressBlock(block, out)
	}
	switch {
	case err != nil && size < wanted:
		return dst, ErrLimit // what else was wrong with it does not matter
	case err != nil:
		return dst, malformed("lz4: %w", err)
	}
	return dst[:len(dst)+n], nil
}

var lz4Compressors = sync.Pool{New: func() any { return new(lz4.Compressor) }}

func appendLZ4(dst, src []byte) ([]byte, error) {
	c := lz4Compressors.Get().(*lz4.Compressor)
	defer lz4Compressors.Put(c)
	dst = append(dst, lz4Frame...)
	for len(src) > 0 {
		block := src[:min(len(src), lz4BlockBytes)]
		src = src[len(block):]
		at := len(dst)
		dst = slices.Grow(dst, 4+lz4.CompressBlockBound(len(block)))
		n, err := c.CompressBlock(block, dst[at+4:at+4+lz4.CompressBlockBound(len(block))])
		if err != nil {
			return dst, err
		}
		word := uint32(n)
		if n == 0 || n >= len(block) {
			n = copy(dst[at+4:at+4+len(block)], block)
			word = uint32(n) | lz4Stored
		}
		binary.LittleEndian.PutUint32(dst[at:at+4], word)
		dst = dst[:at+4+n]
	}
	return append(dst, 0, 0, 0, 0), nil
}
