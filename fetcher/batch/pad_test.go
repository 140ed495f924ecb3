package batch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
)

// A pad batch holds what is asked for, by the oracle, and is canonical (B6).
func TestPad(t *testing.T) {
	for _, codec := range allCodecs {
		for _, count := range []int32{1, 2, 63, 64, 65, 8191, 8192, 20_000} {
			t.Run(fmt.Sprintf("%s %d", codec, count), func(t *testing.T) {
				b, err := Pad(count, PadOptions{Codec: codec, Timestamp: 1})
				if err != nil {
					t.Fatal(err)
				}
				if h := wantCanonical(t, b, codec); h.Count != count || h.HasHoles() || h.FirstTimestamp != 1 || h.MaxTimestamp != 1 {
					t.Fatalf("%+v", h)
				}
				records, err := oracleDecode(b)
				if err != nil || len(records) != int(count) {
					t.Fatalf("%d records, %v", len(records), err)
				}
				for i, r := range records {
					if want := (Record{Offset: int64(i), Timestamp: 1}); !reflect.DeepEqual(r, want) {
						t.Fatalf("record %d is %+v", i, r)
					}
				}
			})
		}
	}
}

// opened is openBatch for where a header by value is handier.
func opened(b []byte) (h Header, err error) {
	err = openBatch(&h, b)
	return h, err
}

// The largest batches, and what the comment on PadOptions says of their size.
func TestPadSizes(t *testing.T) {
	for codec, perRecord := range map[Codec]float64{CodecNone: 9, CodecGzip: 1.45, CodecSnappy: 4.1, CodecLZ4: 4.1, CodecZstd: 0.8} {
		b, err := Pad(MaxPadCount, PadOptions{Codec: codec, Timestamp: 1})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := opened(b); err != nil || h.Count != MaxPadCount {
			t.Fatalf("%+v, %v", h, err)
		}
		if got := float64(len(b)) / MaxPadCount; got > perRecord {
			t.Errorf("%s takes %.2f bytes a record", codec, got)
		}
	}
}

func TestPadRefuses(t *testing.T) {
	pads := NewPads(DefaultPadOptions())
	for _, count := range []int32{0, -1, -1 << 31, MaxPadCount + 1, 1<<31 - 1} {
		if b, err := Pad(count, DefaultPadOptions()); err == nil || b != nil {
			t.Errorf("%d: %d bytes", count, len(b))
		}
		if b, err := pads.Append([]byte("dst"), count); err == nil || string(b) != "dst" {
			t.Errorf("%d: %q", count, b)
		}
	}
	if _, err := Pad(3, PadOptions{Codec: 5}); !errors.Is(err, ErrCodec) {
		t.Error(err)
	}
}

// Every caller gets bytes of its own: patching one changes no other.
func TestPadsAreCopies(t *testing.T) {
	pads := NewPads(DefaultPadOptions())
	want, err := Pad(1000, DefaultPadOptions())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b, err := pads.Append([]byte("before"), 1000)
		if err != nil || string(b[:6]) != "before" || !bytes.Equal(b[6:], want) {
			t.Fatalf("copy %d differs: %v", i, err)
		}
		if err := Patch(b[6:], Fields{Identity{1 << 62, 3}, int32(i)}); err != nil {
			t.Fatal(err)
		}
		if err := CheckCRC(b[6:]); err != nil {
			t.Fatal(err)
		}
	}
}

// What is kept is bounded, and what was used last is kept.
func TestPadsKeepFew(t *testing.T) {
	pads := NewPads(PadOptions{Timestamp: 1}) // uncompressed, 9 bytes a record
	dst := []byte(nil)
	for count := int32(99_001); count <= 99_020; count++ {
		var err error
		if dst, err = pads.Append(dst[:0], count); err != nil {
			t.Fatal(err)
		}
		if dst, err = pads.Append(dst[:0], 99_001); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for _, k := range pads.kept {
		sum += len(k.batch)
		if cap(k.batch) > len(k.batch)+8<<10 { // sizes of the allocator
			t.Fatalf("%d bytes held for %d", cap(k.batch), len(k.batch))
		}
	}
	if sum != pads.bytes || sum > maxPadsBytes || len(pads.kept) < 3 {
		t.Fatalf("%d batches, %d bytes, counted %d", len(pads.kept), sum, pads.bytes)
	}
	if pads.kept[0].count != 99_001 || pads.kept[1].count != 99_020 {
		t.Fatalf("%d and %d were used last", pads.kept[0].count, pads.kept[1].count)
	}
	big := NewPads(PadOptions{Codec: CodecLZ4})
	for range 2 {
		if _, err := big.Append(nil, MaxPadCount); err != nil || len(big.kept) != 1 {
			t.Fatal(len(big.kept), err)
		}
	}
}

func TestPadsConcurrently(t *testing.T) {
	pads := NewPads(DefaultPadOptions())
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range int32(50) {
				count := 1 + i%7*100
				b, err := pads.Append(nil, count)
				if err != nil {
					t.Error(err)
					return
				}
				if err := Patch(b, Fields{Identity{int64(worker), 0}, i}); err != nil {
					t.Error(err)
				}
				if h, err := opened(b); err != nil || h.Count != count {
					t.Errorf("%+v, %v", h, err)
				}
			}
		})
	}
	wg.Wait()
	if len(pads.kept) != 7 {
		t.Fatalf("%d kept", len(pads.kept))
	}
}

// BenchmarkPads is what each pad batch costs once it was built; BenchmarkPad
// builds one.
func BenchmarkPads(b *testing.B) {
	pads := NewPads(DefaultPadOptions())
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = pads.Append(dst[:0], 200_000); err != nil {
			b.Fatal(err)
		}
		if err := Patch(dst, Fields{Identity{1 << 62, 1}, 5}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(200_000*float64(b.N)/b.Elapsed().Seconds(), "offsets/s")
}

func BenchmarkPad(b *testing.B) {
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Pad(200_000, PadOptions{Codec: codec, Timestamp: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(200_000*float64(b.N)/b.Elapsed().Seconds(), "offsets/s")
		})
	}
}
