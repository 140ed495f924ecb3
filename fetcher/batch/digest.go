package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// AppendCanonical appends the canonical form of a record, which is the same in
// every part of klink and on both clusters. All integers are big-endian:
// int64 offset, int64 timestamp in milliseconds, int32 key length (-1 for null)
// and key, value likewise, int32 header count, per header int32 length and key,
// int32 length (-1 for null) and value.
func AppendCanonical(dst []byte, r Record) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, uint64(r.Offset))
	dst = be.AppendUint64(dst, uint64(r.Timestamp))
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = be.AppendUint32(dst, uint32(len(r.Headers)))
	for _, h := range r.Headers {
		dst = be.AppendUint32(dst, uint32(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// Chain digests a range of records: d(i) = SHA-256(d(i-1) | canonical record),
// from 32 zero bytes. The zero value is a chain over no record. A Chain is not
// safe for concurrent use.
type Chain struct {
	sum   [sha256.Size]byte
	count int64
	buf   []byte
}

// Add puts the next record on the chain.
func (c *Chain) Add(r Record) {
	c.buf = append(c.buf[:0], c.sum[:]...)
	c.buf = AppendCanonical(c.buf, r)
	c.sum = sha256.Sum256(c.buf)
	c.count++
}

// Sum returns the digest of the records added so far.
func (c *Chain) Sum() [sha256.Size]byte { return c.sum }

// Hex returns the digest as users see it.
func (c *Chain) Hex() string { return hex.EncodeToString(c.sum[:]) }

// Count returns the number of records added.
func (c *Chain) Count() int64 { return c.count }

// ResumeChain returns a chain that goes on from the digest of so many records.
func ResumeChain(sum []byte, records int64) (*Chain, error) {
	c := &Chain{count: records}
	if len(sum) != len(c.sum) || records < 0 {
		return nil, fmt.Errorf("a digest of %d records has %d bytes, and not %d", records, len(sum), len(c.sum))
	}
	copy(c.sum[:], sum)
	return c, nil
}
