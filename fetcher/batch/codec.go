package batch

import (
	"fmt"
	"sync"
)

// Codec is how the records of a batch are compressed, as in the lowest three
// bits of its attributes.
type Codec int8

// The codecs of Kafka. zstd came with KIP-110 (2.1).
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the codec's name as in Kafka's compression.type.
func (c Codec) String() string {
	if c.known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec-%d", int8(c))
}

func (c Codec) known() bool { return c >= 0 && int(c) < len(codecNames) }

// compress appends src in the given codec to dst.
func compress(dst []byte, codec Codec, src []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		return appendGzip(dst, src)
	case CodecSnappy:
		return appendXerial(dst, src), nil
	case CodecLZ4:
		return appendLZ4(dst, src)
	case CodecZstd:
		return appendZstd(dst, src), nil
	default:
		return dst, fmt.Errorf("%w: %d", ErrCodec, int8(codec))
	}
}

// decompress appends to dst, which is empty, what src was before compression.
// It stops with ErrLimit when that exceeds maxBytes (B2). On an error the
// returned slice is still the one to keep for its capacity.
func decompress(dst []byte, codec Codec, src []byte, maxBytes int) ([]byte, error) {
	switch codec {
	case CodecGzip:
		return readGzip(dst, src, maxBytes)
	case CodecSnappy:
		return readSnappy(dst, src, maxBytes)
	case CodecLZ4:
		return readLZ4(dst, src, maxBytes)
	case CodecZstd:
		return readZstd(dst, src, maxBytes)
	default:
		return dst, fmt.Errorf("%w: %d", ErrCodec, int8(codec))
	}
}

// maxPooledBytes is the largest scratch buffer that is kept for the next use:
// a 1 MiB batch that decompresses fourfold. Larger ones are left to the
// garbage collector so that one odd batch does not hold memory for good.
const maxPooledBytes = 4 << 20

// buffer is a scratch buffer from the pool.
type buffer struct{ b []byte }

var bufferPool = sync.Pool{New: func() any { return new(buffer) }}

func takeBuffer() *buffer { return bufferPool.Get().(*buffer) }

// release gives the buffer back; its bytes must not be used any more. A nil
// buffer is allowed.
func (s *buffer) release() {
	if s == nil {
		return
	}
	if cap(s.b) > maxPooledBytes {
		s.b = nil
	}
	bufferPool.Put(s)
}
