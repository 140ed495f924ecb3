package batch

import "math/bits"

// Varints are zigzag encoded, base 128, little end first (KIP-98). A 32-bit one
// takes at most 5 bytes, a 64-bit one at most 10. Encodings longer than needed
// are read, as clients read them; those whose value overflows are not.

// varint32 reads a zigzag varint of 32 bits from b. n is the number of bytes
// read, 0 where b is too short or the value does not fit.
func varint32(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 { // nearly every one
		u := uint32(b[0])
		return int32(u>>1) ^ -int32(u&1), 1
	}
	var u uint32
	for i := 0; i < len(b) && i < 5; i++ {
		c := b[i]
		if i == 4 && c > 0x0f {
			return 0, 0
		}
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	return 0, 0
}

// varint64 is varint32 for 64 bits.
func varint64(b []byte) (v int64, n int) {
	var u uint64
	for i := 0; i < len(b) && i < 10; i++ {
		c := b[i]
		if i == 9 && c > 0x01 {
			return 0, 0
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

// appendVarint appends v as a zigzag varint. 32 and 64 bits encode alike.
func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintLen returns how many bytes appendVarint appends.
func varintLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
