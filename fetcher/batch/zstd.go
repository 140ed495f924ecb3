package batch

import (
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowBytes is how far back the encoder looks. Batches are seldom larger
// than 1 MiB, and an encoder costs a few times this in memory.
const zstdWindowBytes = 512 << 10

// The constructors below fail only for options out of range.
var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	return pooledZstd(d)
}}

var zstdEncoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindowBytes),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err)
	}
	return e
}}

// zstdDecoder lets a decoder that the pool drops give its memory back.
type zstdDecoder struct{ d *zstd.Decoder }

func pooledZstd(d *zstd.Decoder) *zstdDecoder {
	p := &zstdDecoder{d}
	runtime.AddCleanup(p, func(d *zstd.Decoder) { d.Close() }, d)
	return p
}

// zstdBlockBytes is above what one zstd block can decode to (128 KiB, RFC 8878)
// together with what the library writes beyond it.
const zstdBlockBytes = 128<<10 + 64

// readZstd decodes into the room there is and starts again with four times as
// much while that is too little: the library then never allocates by the size
// that a frame declares (B2), and a buffer from the pool nearly always does.
//
// The library has no single error for too little room. But with room for one
// block more than wanted it can run out only after it has written more than
// wanted, and that shows.
func readZstd(dst, src []byte, maxBytes int) ([]byte, error) {
	p := zstdDecoders.Get().(*zstdDecoder)
	defer zstdDecoders.Put(p)
	wanted := min(max(8*len(src), 64<<10, cap(dst)-zstdBlockBytes), maxBytes)
	for {
		dst = slices.Grow(dst[:0], wanted+zstdBlockBytes)
		out, err := p.d.DecodeAll(src, dst[:0:wanted+zstdBlockBytes])
		ranOut := len(out) > wanted || errors.Is(err, zstd.ErrDecoderSizeExceeded)
		switch {
		case err == nil && len(out) <= maxBytes:
			return out, nil
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			return dst, ErrLimit // half a gigabyte: above any limit worth setting
		case err != nil && !ranOut:
			return dst, malformed("zstd: %w", err)
		case err == nil || wanted == maxBytes:
			return dst, ErrLimit
		}
		wanted = min(4*wanted, maxBytes)
	}
}

func appendZstd(dst, src []byte) []byte {
	e := zstdEncoders.Get().(*zstd.Encoder)
	defer zstdEncoders.Put(e)
	return e.EncodeAll(src, dst)
}
