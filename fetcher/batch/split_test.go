package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestSplit(t *testing.T) {
	a := oracleEncode(t, jsonRecords(0, 3, 100), batchShape{codec: CodecGzip})
	b := oracleEncode(t, jsonRecords(3, 1, 1), batchShape{})
	large := oracleEncode(t, jsonRecords(4, 1, 3<<20), batchShape{}) // beyond any limit of the fetch that brought it
	old := oldWrapper(t, 1, 0, 3, CodecGzip)
	joined := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, tc := range map[string]struct {
		log  []byte
		want [][]byte
		rest int
	}{
		"nothing":                {nil, nil, 0},
		"one":                    {a, [][]byte{a}, 0},
		"several":                {joined(a, b, a), [][]byte{a, b, a}, 0},
		"oversized first":        {large, [][]byte{large}, 0},
		"old formats mixed":      {joined(old, a, old), [][]byte{old, a, old}, 0},
		"tail of one byte":       {joined(a, b[:1]), [][]byte{a}, 1},
		"tail without magic":     {joined(a, b[:16]), [][]byte{a}, 16},
		"tail without its last":  {joined(a, b[:len(b)-1]), [][]byte{a}, len(b) - 1},
		"tail alone":             {large[:5000], nil, 5000},
		"tail of a claimed 2GiB": {joined(a, []byte{0, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 2, 9}), [][]byte{a}, 18},
	} {
		t.Run(name, func(t *testing.T) {
			whole, rest, err := Split(tc.log)
			if err != nil {
				t.Fatal(err)
			}
			if len(whole) != len(tc.want) || len(rest) != tc.rest {
				t.Fatalf("%d entries, %d bytes left", len(whole), len(rest))
			}
			for i := range whole {
				if !bytes.Equal(whole[i], tc.want[i]) {
					t.Fatalf("entry %d differs", i)
				}
				if cap(whole[i]) != len(whole[i]) {
					t.Fatal("an append to an entry would overwrite the next")
				}
			}
		})
	}
}

// Every place where an answer can be cut gives the whole batches before it.
func TestSplitAtEveryCut(t *testing.T) {
	a, b := oracleEncode(t, jsonRecords(0, 2, 30), batchShape{}), oracleEncode(t, jsonRecords(2, 1, 20), batchShape{codec: CodecLZ4})
	log := append(bytes.Clone(a), b...)
	for cut := range len(log) {
		whole, rest, err := Split(log[:cut])
		want := 0
		if cut >= len(a) {
			want = 1
		}
		if err != nil || len(whole) != want || len(rest) != cut-want*len(a) {
			t.Fatalf("cut at %d: %d whole, %d left, %v", cut, len(whole), len(rest), err)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	good := oracleEncode(t, jsonRecords(0, 1, 30), batchShape{})
	entry := func(length int32, magic byte) []byte {
		b := make([]byte, 80)
		binary.BigEndian.PutUint32(b[8:], uint32(length))
		b[16] = magic
		return b
	}
	for name, bad := range map[string][]byte{
		"negative length":      entry(-1, 2),
		"smallest length":      entry(-1<<31, 2),
		"zero length":          entry(0, 2),
		"below a v2 header":    entry(48, 2),
		"below a v0 message":   entry(13, 0),
		"negative, magic 0":    entry(-12, 0),
		"unknown magic":        entry(60, 3),
		"magic of a wild tail": entry(1<<30, 0x80),
	} {
		whole, rest, err := Split(append(bytes.Clone(good), bad...))
		if !errors.Is(err, ErrMalformed) || len(whole) != 1 || !bytes.Equal(rest, bad) {
			t.Errorf("%s: %d whole, %d left, %v", name, len(whole), len(rest), err)
		}
	}
}
