package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// B3: the corrected CRC is what a full computation gives.
func TestPatchEqualsRecompute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := oracleEncode(t, drawRecords(t, 12, 20), batchShape{
			codec: drawCodec.Draw(t, "codec"), epoch: 3,
			attributes: rapid.SampledFrom([]int16{0, transactionalBit, deleteHorizonBit, -1 << 8}).Draw(t, "attributes"),
			identity:   Identity{rapid.Int64().Draw(t, "old id"), rapid.Int16().Draw(t, "old epoch")}, sequence: rapid.Int32().Draw(t, "old sequence"),
		})
		f := Fields{Identity{rapid.Int64().Draw(t, "id"), rapid.Int16().Draw(t, "epoch")}, rapid.Int32().Draw(t, "sequence")}
		want, err := ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		payload := bytes.Clone(b[HeaderLen:])
		if err := Patch(b, f); err != nil {
			t.Fatal(err)
		}
		want.BaseOffset, want.LeaderEpoch = 0, -1
		want.Attributes &^= transactionalBit
		want.ProducerID, want.ProducerEpoch, want.BaseSequence = f.ProducerID, f.ProducerEpoch, f.BaseSequence
		want.CRC = crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
		got, err := ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
		if !bytes.Equal(payload, b[HeaderLen:]) {
			t.Fatal("payload changed")
		}
	})
}

// B3: damage is as visible after patching as before it.
func TestPatchKeepsDamageVisible(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	whole := oracleEncode(t, jsonRecords(0, 50, 100), batchShape{attributes: transactionalBit})
	for range 2000 {
		b := bytes.Clone(whole)
		at := crcAt + rnd.IntN(len(b)-crcAt)
		if at >= attributesAt && at < HeaderLen {
			continue // a damaged header field may be overwritten or refused
		}
		b[at] ^= 1 << rnd.IntN(8)
		if err := CheckCRC(b); !errors.Is(err, ErrCRC) {
			t.Fatalf("damage at %d not seen before: %v", at, err)
		}
		if err := Patch(b, Fields{Identity{1 << 62, 4}, 99}); err != nil {
			t.Fatal(err)
		}
		if err := CheckCRC(b); !errors.Is(err, ErrCRC) {
			t.Fatalf("damage at %d not seen after: %v", at, err)
		}
	}
}

// The table of powers against one multiplication per byte.
func TestPowerOfX8(t *testing.T) {
	step := polyOne
	for n := range 70_000 {
		if got := powerOfX8(n); got != step {
			t.Fatalf("x^(8*%d) is %08x, wanted %08x", n, got, step)
		}
		step = mulPoly(step, polyX8)
	}
	for _, n := range []int{1<<24 - 1, 1 << 24, 1<<31 - 1} { // a+b as a product
		if got, want := powerOfX8(n), mulPoly(powerOfX8(n/2), powerOfX8(n-n/2)); got != want {
			t.Fatalf("x^(8*%d) is %08x, wanted %08x", n, got, want)
		}
	}
}

func TestPatchRefuses(t *testing.T) {
	control := oracleEncode(t, jsonRecords(0, 1, 10), batchShape{attributes: controlBit | transactionalBit})
	old := make([]byte, 100)
	old[magicAt] = 1
	long := append(oracleEncode(t, jsonRecords(0, 1, 10), batchShape{}), 0)
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"control": {control, ErrControl}, "old": {old, ErrOldFormat}, "short": {control[:60], ErrMalformed},
		"cut": {control[:len(control)-1], ErrMalformed}, "long": {long, ErrMalformed}, "nil": {nil, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(tc.b)
			if err := Patch(tc.b, Fields{}); !errors.Is(err, tc.want) {
				t.Fatalf("%v, wanted %v", err, tc.want)
			}
			if !bytes.Equal(before, tc.b) {
				t.Fatal("bytes changed all the same")
			}
		})
	}
}

func BenchmarkPatch(b *testing.B) {
	for name, size := range map[string]int{"200B": 200, "16KiB": 16 << 10, "1MiB": 1 << 20} {
		raw := oracleEncode(b, jsonRecords(0, 1, size), batchShape{})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Patch(raw, Fields{Identity{1 << 62, 1}, int32(binary.BigEndian.Uint32(raw[baseSequenceAt:]) + 1)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
