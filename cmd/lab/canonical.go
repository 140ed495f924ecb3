package lab

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// offsetBytes are those of the offset, with which the canonical form begins.
const offsetBytes = 8

// canonical appends a record in the one form that all of klink's digests are
// made of: offset, timestamp in milliseconds, key, value, and the headers in
// their order; lengths are 32 bits, -1 for null; all big-endian.
func canonical(b []byte, r *kgo.Record) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
	b = binary.BigEndian.AppendUint64(b, uint64(milliseconds(r.Timestamp)))
	b = appendField(b, r.Key)
	b = appendField(b, r.Value)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Headers)))
	for _, h := range r.Headers {
		b = binary.BigEndian.AppendUint32(b, uint32(len(h.Key)))
		b = append(b, h.Key...)
		b = appendField(b, h.Value)
	}
	return b
}

// milliseconds is -1 for no time at all, which is how messages of the oldest
// format (magic 0) come out of this client, and how brokers and Java write it.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

func appendField(b, field []byte) []byte {
	length := int32(len(field))
	if field == nil {
		length = -1
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(length)), field...)
}

// chain is the digest of a range of records: each step hashes the one before
// and the next record.
type chain struct {
	sum   [sha256.Size]byte
	count int64
	buf   []byte
}

func (c *chain) add(r *kgo.Record) {
	c.buf = canonical(append(c.buf[:0], c.sum[:]...), r)
	c.sum = sha256.Sum256(c.buf)
	c.count++
}

func (c *chain) hex() string { return hex.EncodeToString(c.sum[:]) }

// shownBytes is how much of a field a difference shows; what is longer is shown
// by its length and hash as well.
const shownBytes = 200

// describe shows a record so that null and empty, and times of one
// millisecond apart, look different.
func describe(r *kgo.Record) string {
	if r == nil {
		return "no record"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "offset %d, time %d (%s), key %s, value %s", r.Offset, milliseconds(r.Timestamp),
		r.Timestamp.UTC().Format(time.RFC3339Nano), describeField(r.Key), describeField(r.Value))
	for _, h := range r.Headers {
		fmt.Fprintf(&b, ", header %q %s", h.Key, describeField(h.Value))
	}
	return b.String()
}

func describeField(field []byte) string {
	if field == nil {
		return "null"
	}
	if len(field) <= shownBytes {
		return fmt.Sprintf("%q", field)
	}
	sum := sha256.Sum256(field)
	return fmt.Sprintf("%q... (%d bytes, sha256 %x)", field[:shownBytes], len(field), sum[:8])
}
