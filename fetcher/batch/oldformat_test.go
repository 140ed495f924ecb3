package batch

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// oldMessage returns a message-set entry of magic 0 or 1.
func oldBytes(magic byte, offset int64, key, value []byte, codec Codec) []byte {
	be := binary.BigEndian
	b := be.AppendUint64(nil, uint64(offset))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, magic, byte(codec))
	if magic == 1 {
		b = be.AppendUint64(b, 1.5e12)
	}
	for _, field := range [][]byte{key, value} {
		if field == nil {
			b = be.AppendUint32(b, 0xffffffff)
			continue
		}
		b = be.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	be.PutUint32(b[8:], uint32(len(b)-12))
	resealOld(b)
	return b
}

func resealOld(b []byte) { binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:])) }

// oldWrapper returns n messages from base on as one compressed entry, inner
// offsets relative with magic 1, absolute with magic 0; plain for CodecNone (n is 1 then).
func oldWrapper(tb rapid.TB, magic byte, base int64, n int, codec Codec) []byte {
	tb.Helper()
	if codec == CodecNone {
		return oldBytes(magic, base, []byte("key"), []byte("value"), codec)
	}
	var set []byte
	for i := range int64(n) {
		inner := i
		if magic == 0 {
			inner += base
		}
		set = append(set, oldBytes(magic, inner, nil, []byte("inner value"), CodecNone)...)
	}
	return oldBytes(magic, base+int64(n)-1, nil, kgoCompress(tb, codec, set), codec)
}

func TestOldFormatRange(t *testing.T) {
	for _, magic := range []byte{0, 1} {
		for _, codec := range []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4} {
			n := 5
			if codec == CodecNone {
				n = 1
			}
			entry := oldWrapper(t, magic, 1000, n, codec)
			whole, rest, err := Split(append(entry, entry[:20]...))
			if err != nil || len(whole) != 1 || len(rest) != 20 || Magic(whole[0]) != int8(magic) {
				t.Fatalf("magic %d %s: %d entries, %d bytes left, %v", magic, codec, len(whole), len(rest), err)
			}
			base, last, err := OldFormatRange(whole[0])
			if err != nil || base != 1000 || last != 1000+int64(n)-1 {
				t.Fatalf("magic %d %s: %d to %d, %v", magic, codec, base, last, err)
			}
			if _, err := ParseHeader(whole[0]); !errors.Is(err, ErrOldFormat) {
				t.Fatal(err)
			}
		}
	}
}

// A cleaner keeps the relative offsets of the messages that survive.
func TestOldFormatRangeOfCompactedWrapper(t *testing.T) {
	set := append(oldBytes(1, 2, []byte("a"), nil, CodecNone), oldBytes(1, 7, []byte("b"), nil, CodecNone)...)
	entry := oldBytes(1, 107, nil, kgoCompress(t, CodecGzip, set), CodecGzip)
	if base, last, err := OldFormatRange(entry); err != nil || base != 102 || last != 107 {
		t.Fatalf("%d to %d, %v", base, last, err)
	}
}

// Java's producers of magic 0 wrote a wrong checksum in the head of LZ4 frames (KAFKA-3160).
func TestOldFormatRangeOfWrongLZ4HeaderChecksum(t *testing.T) {
	set := oldBytes(0, 41, nil, []byte("value"), CodecNone)
	framed := kgoCompress(t, CodecLZ4, set)
	framed[6] ^= 0xff
	if base, last, err := OldFormatRange(oldBytes(0, 41, nil, framed, CodecLZ4)); err != nil || base != 41 || last != 41 {
		t.Fatalf("%d to %d, %v", base, last, err)
	}
}

func TestOldFormatRangeRefuses(t *testing.T) {
	good := oldWrapper(t, 1, 100, 5, CodecGzip)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-3] ^= 1
	set := append(oldBytes(1, 4, nil, nil, CodecNone), oldBytes(1, 4, nil, nil, CodecNone)...)
	below := oldBytes(1, 3, nil, kgoCompress(t, CodecGzip, append(oldBytes(1, 0, nil, nil, CodecNone), oldBytes(1, 9, nil, nil, CodecNone)...)), CodecGzip)
	for name, tc := range map[string]struct {
		entry []byte
		want  error
	}{
		"damaged":          {flipped, ErrCRC},
		"cut":              {good[:len(good)-1], ErrMalformed},
		"short":            {good[:10], ErrMalformed},
		"v2":               {oracleEncode(t, jsonRecords(0, 1, 1), batchShape{}), ErrMalformed},
		"negative offset":  {oldBytes(1, -5, nil, nil, CodecNone), ErrMalformed},
		"not rising":       {oldBytes(1, 5, nil, kgoCompress(t, CodecGzip, set), CodecGzip), ErrMalformed},
		"begins below 0":   {below, ErrMalformed},
		"empty set":        {oldBytes(1, 5, nil, kgoCompress(t, CodecGzip, nil), CodecGzip), ErrMalformed},
		"cut inner":        {oldBytes(1, 5, nil, kgoCompress(t, CodecGzip, set[:40]), CodecGzip), ErrMalformed},
		"null value":       {oldBytes(1, 5, nil, nil, CodecGzip), ErrMalformed},
		"unknown codec":    {oldBytes(1, 5, nil, []byte("x"), 6), ErrCodec},
		"bomb":             {oldBytes(1, 5, nil, kgoCompress(t, CodecGzip, make([]byte, DefaultMaxUncompressedBytes+1)), CodecGzip), ErrLimit},
		"not a compressed": {oldBytes(1, 5, nil, []byte("no gzip"), CodecGzip), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if base, last, err := OldFormatRange(tc.entry); !errors.Is(err, tc.want) {
				t.Fatalf("%d to %d, %v; wanted %v", base, last, err, tc.want)
			}
		})
	}
}
