package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// Identity names a producer to the broker (KIP-98).
type Identity struct {
	ProducerID    int64
	ProducerEpoch int16
}

// Fields are the header fields that Patch sets.
type Fields struct {
	Identity
	// BaseSequence is the sequence number of the first record.
	BaseSequence int32
}

// Patch makes the v2 batch b ready to be produced, in place: base offset 0 and
// leader epoch -1 (outside the CRC), the given producer fields, and the
// transactional bit cleared (inside it).
//
// The CRC is corrected by the difference that the changed bits make and never
// computed from the payload (B3). The cost does not depend on the length of b.
//
// Control batches are refused with ErrControl (B7).
func Patch(b []byte, f Fields) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	if h.IsControl() {
		return ErrControl
	}
	var diff [countAt - attributesAt]byte
	copy(diff[:], b[attributesAt:countAt])

	patched := h
	patched.BaseOffset, patched.LeaderEpoch = 0, noLeaderEpoch
	patched.Attributes &^= transactionalBit
	patched.ProducerID, patched.ProducerEpoch, patched.BaseSequence = f.ProducerID, f.ProducerEpoch, f.BaseSequence
	patched.put(b)

	for i := range diff {
		diff[i] ^= b[attributesAt+i]
	}
	binary.BigEndian.PutUint32(b[crcAt:], h.CRC^crcOfDifference(diff[:], len(b)-countAt))
	return nil
}

// crcOfDifference returns what has to be added (XOR) to a CRC32C when diff was
// added to the message and after bytes follow the changed ones.
//
// A CRC is linear: crc(m ^ d) = crc(m) ^ rem(d), where rem is the remainder
// without the initial and final inversion, and trailing zero bytes multiply the
// remainder by x^8 each.
//
// The remainder is taken byte by byte: for so few bytes that is as quick as
// crc32.Update, which would move diff to the heap.
func crcOfDifference(diff []byte, after int) uint32 {
	var remainder uint32
	for _, c := range diff {
		remainder = castagnoli[byte(remainder)^c] ^ remainder>>8
	}
	return mulPoly(powerOfX8(after), remainder)
}

// mulPoly multiplies two polynomials over GF(2) modulo the Castagnoli
// polynomial, in the reflected form that CRC32C uses: bit 31 is x^0.
func mulPoly(a, b uint32) uint32 {
	var product uint32
	for range 32 {
		product ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}

const (
	polyOne = uint32(1) << 31 // x^0
	polyX8  = uint32(1) << 23 // x^8
)

// powersOfX8 holds x^(8*n) for every n that has a single non-zero byte: row i,
// column v is n = v*256^i. Any length then takes at most three multiplications
// more; the table is 4 KiB.
var powersOfX8 = newPowersOfX8()

func newPowersOfX8() *[4][256]uint32 {
	var table [4][256]uint32
	step := polyX8
	for i := range table {
		table[i][0] = polyOne
		for v := 1; v < 256; v++ {
			table[i][v] = mulPoly(table[i][v-1], step)
		}
		step = mulPoly(table[i][255], step)
	}
	return &table
}

// powerOfX8 returns x^(8*n) for 0 <= n < 2^32.
func powerOfX8(n int) uint32 {
	power := powersOfX8[0][n&0xff]
	for i := 1; i < len(powersOfX8); i++ {
		n >>= 8
		if v := n & 0xff; v != 0 {
			power = mulPoly(power, powersOfX8[i][v])
		}
	}
	return power
}
