package mm2

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// reader takes the fields of a struct off its bytes, in order
// (org.apache.kafka.common.protocol.types.Type). After the first error it gives
// zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.b) {
		r.err = fmt.Errorf("%w: %s takes %d bytes, %d are left", ErrCorrupt, what, n, len(r.b))
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) int16(what string) int16 {
	if b := r.take(2, what); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32(what string) int32 {
	if b := r.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64(what string) int64 {
	if b := r.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// offset reads an offset that cannot be negative.
func (r *reader) offset(what string) int64 {
	v := r.int64(what)
	if r.err == nil && v < 0 {
		r.err = fmt.Errorf("%w: %s %d", ErrCorrupt, what, v)
	}
	return v
}

func (r *reader) partition() int32 {
	v := r.int32("partition")
	if r.err == nil && v < 0 {
		r.err = fmt.Errorf("%w: partition %d", ErrCorrupt, v)
	}
	return v
}

func (r *reader) string(what string) string {
	n := r.int16(what)
	if r.err == nil && n < 0 {
		r.err = fmt.Errorf("%w: %s of length %d", ErrCorrupt, what, n)
	}
	b := r.take(int(max(n, 0)), what)
	if r.err == nil && !utf8.Valid(b) {
		r.err = fmt.Errorf("%w: %s is not UTF-8", ErrCorrupt, what)
	}
	if r.err != nil {
		return ""
	}
	return string(b)
}

func (r *reader) version() {
	if v := r.int16("version"); r.err == nil && v != 0 {
		r.err = fmt.Errorf("%w: %d", ErrVersion, v)
	}
}

func appendString(b []byte, s, what string) ([]byte, error) {
	if len(s) > math.MaxInt16 {
		return nil, fmt.Errorf("%w: %s of %d bytes, at most %d", ErrValue, what, len(s), math.MaxInt16)
	}
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%w: %s is not UTF-8", ErrValue, what)
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...), nil
}

func appendPartition(b []byte, p int32) ([]byte, error) {
	if p < 0 {
		return nil, fmt.Errorf("%w: partition %d", ErrValue, p)
	}
	return binary.BigEndian.AppendUint32(b, uint32(p)), nil
}

// present refuses a record without a key or a value. Empty is not missing: it is
// too short.
func present(key, value []byte) error {
	if key == nil || value == nil {
		return ErrNull
	}
	return nil
}
