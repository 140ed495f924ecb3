package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// wantRepeats holds one batch of Pieces to RepeatNext: the oracle looks up the
// next surviving record for each offset.
func wantRepeats(tb rapid.TB, p Recoded, survivors []Record, opt RecodeOptions) {
	tb.Helper()
	h, err := opened(p.Bytes)
	if err != nil {
		tb.Fatal(err)
	}
	if h.Codec() != opt.Codec && h.Codec() != CodecLZ4 && h.Codec() != CodecNone {
		tb.Fatalf("codec %s, wanted %s", h.Codec(), opt.Codec)
	}
	wantCanonical(tb, p.Bytes, h.Codec())
	if len(p.Bytes) > maxBatchBytes(opt.MaxBytes) || p.Count > MaxRepeatCount || int(p.Count) > len(p.Bytes)-HeaderLen {
		tb.Fatalf("%d records in %d bytes, limit %d", p.Count, len(p.Bytes), opt.MaxBytes)
	}
	for _, got := range recordsOf(tb, []Recoded{p}) {
		var want *Record
		for i := range survivors {
			if survivors[i].Offset >= got.Offset {
				want = &survivors[i]
				break
			}
		}
		if want == nil {
			tb.Fatalf("a copy at offset %d, after the last record", got.Offset)
		}
		copied := *want
		copied.Offset = got.Offset
		wantRecords(tb, []Record{got}, []Record{copied})
	}
}

func TestRepeatFillsHoles(t *testing.T) {
	for name, tc := range map[string]struct {
		kept []int // offset deltas of ten that survived, base 100
		from int64
		want span
	}{
		"whole":              {[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 100, span{100, 10}},
		"hole at the front":  {[]int{4, 5}, 100, span{100, 6}},
		"hole in the middle": {[]int{0, 7}, 100, span{100, 8}},
		"hole at the back":   {[]int{0, 1}, 100, span{100, 2}},
		"several":            {[]int{1, 3, 9}, 100, span{100, 10}},
		"from before it":     {[]int{1, 3, 9}, 90, span{90, 20}},
		"from inside a hole": {[]int{1, 3, 9}, 105, span{105, 5}},
		"from a record":      {[]int{1, 3, 9}, 103, span{103, 7}},
		"from the last":      {[]int{1, 3, 9}, 109, span{109, 1}},
		"from beyond":        {[]int{1, 3}, 104, span{}},
		"emptied":            {nil, 100, span{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, codec := range allCodecs {
				b := holedBatch(t, batchShape{codec: codec}, tc.kept...)
				opt := RecodeOptions{Codec: codec, From: tc.from, Repeat: RepeatNext}
				pieces, err := Recode(b, opt)
				if err != nil {
					t.Fatal(err)
				}
				if tc.want == (span{}) {
					if pieces != nil {
						t.Fatalf("%s: %v", codec, spansOf(pieces))
					}
					continue
				}
				if !slices.Equal(spansOf(pieces), []span{tc.want}) {
					t.Fatalf("%s: %v", codec, spansOf(pieces))
				}
				wantRepeats(t, pieces[0], mustCollect(t, b), opt)
			}
		})
	}
}

// Records of every kind, entries of every format, any limit: contiguous from
// From to the last survivor, whatever the batches' borders; and from any border
// on the rest comes out again.
func TestRepeatAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(20, 1<<40).Draw(t, "base")
		var kept []Record
		old := rapid.Bool().Draw(t, "old")
		for i, r := range drawRecords(t, base, 20) {
			if old {
				r.Headers = nil
			}
			if i == 0 || rapid.Bool().Draw(t, "keep") {
				kept = append(kept, r)
			}
		}
		b := oracleEncode(t, kept, batchShape{codec: drawCodec.Draw(t, "codec"), lastDelta: 25})
		if old {
			b = oldEncode(t, kept, oldShape{magic: 1, innerMagic: 1, codec: CodecGzip})
		}
		opt := RecodeOptions{
			Codec: drawCodec.Draw(t, "to"), From: base + rapid.Int64Range(-20, 25).Draw(t, "from"), Repeat: RepeatNext,
			MaxBytes: rapid.IntRange(16_000, 40_000).Draw(t, "max"),
		}
		next := opt.From
		for p, err := range Pieces(b, opt) {
			if err != nil {
				t.Fatal(err)
			}
			if p.Base != next {
				t.Fatalf("a batch at %d where %d is due", p.Base, next)
			}
			wantRepeats(t, p, kept, opt)
			next += int64(p.Count)
			if rapid.IntRange(0, 5).Draw(t, "restart") == 0 {
				break
			}
		}
		opt.From = next
		pieces, err := Recode(b, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pieces {
			if p.Base != next {
				t.Fatalf("a batch at %d where %d is due", p.Base, next)
			}
			wantRepeats(t, p, kept, opt)
			next += int64(p.Count)
		}
		if last := kept[len(kept)-1].Offset; next != max(opt.From, last+1) {
			t.Fatalf("ends at %d, the last record is at %d", next, last)
		}
	})
}

// A gap of 2^40 offsets costs no more than the batches that are taken of it.
func TestRepeatIsBounded(t *testing.T) {
	const far = int64(1) << 40
	for name, r := range map[string]Record{
		"small": {Offset: far, Timestamp: 1, Key: []byte("k")},
		"large": {Offset: far, Timestamp: 1, Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 300_000)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, codec := range []Codec{CodecNone, CodecSnappy, CodecLZ4, CodecZstd} {
				b := oracleEncode(t, []Record{r}, batchShape{codec: codec})
				opt := RecodeOptions{Codec: codec, Repeat: RepeatNext}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				var first Recoded
				for p, err := range Pieces(b, opt) {
					if err != nil {
						t.Fatal(err)
					}
					first = p
					break
				}
				runtime.ReadMemStats(&after)
				if cost := after.TotalAlloc - before.TotalAlloc; cost > 64<<20 {
					t.Errorf("%s: %d bytes allocated", codec, cost)
				}
				h, err := opened(first.Bytes)
				if err != nil || first.Base != 0 || first.Count == 0 {
					t.Fatalf("%+v, %v", first.Count, err)
				}
				body, scratch, err := bodyOf(&h, first.Bytes, DefaultMaxBatchBytes)
				if err != nil {
					t.Fatalf("%s: more than a batch's limit uncompressed: %v", codec, err)
				}
				if h.Count < 1000 && len(body)+2*len(r.Value) < DefaultMaxBatchBytes {
					t.Errorf("%s: %d bytes in a batch", codec, len(body))
				}
				scratch.release()
			}
		})
	}
}

// B2: a few bytes that ask for 2^31 records do not fill the memory with batches.
func TestRecodeOfHostileGap(t *testing.T) {
	b := plainBatch(1, 1<<31-1, encodedRecord([]byte{0}, zigzag(0, 1<<31-1, -1, -1, 0)))
	opt := RecodeOptions{Repeat: RepeatNext, Limits: Limits{MaxUncompressedBytes: 4 << 20}}
	if pieces, err := Recode(b, opt); !errors.Is(err, ErrLimit) || pieces != nil {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
}

// Copies of tiny records compress to less than a byte each, which consumers
// exist that cannot read.
func TestRepeatLeavesAByteForEachRecord(t *testing.T) {
	b := oracleEncode(t, []Record{{Offset: 150_000, Timestamp: 1}}, batchShape{codec: CodecZstd})
	opt := RecodeOptions{Codec: CodecZstd, Repeat: RepeatNext}
	pieces, err := Recode(b, opt)
	if err != nil || len(pieces) < 2 {
		t.Fatalf("%v, %v", spansOf(pieces), err)
	}
	for _, p := range pieces {
		if h, err := opened(p.Bytes); err != nil || h.Count > MaxRepeatCount || len(p.Bytes)-HeaderLen < int(h.Count) {
			t.Fatalf("%d records in %d bytes, %v", h.Count, len(p.Bytes), err)
		}
	}
	if h, err := opened(pieces[0].Bytes); err != nil || h.Codec() != CodecLZ4 {
		t.Fatalf("%s, %v", h.Codec(), err)
	}
}

// The record that is too large is named, not its copy.
func TestRepeatOfRecordTooLarge(t *testing.T) {
	records := []Record{{Offset: 10, Value: []byte("small")}, {Offset: 50, Value: make([]byte, 5000)}}
	_, err := Recode(oracleEncode(t, records, batchShape{}), RecodeOptions{Repeat: RepeatNext, From: 5, MaxBytes: 1000})
	var large *RecordTooLargeError
	if !errors.As(err, &large) || large.Offset != 50 {
		t.Fatal(err)
	}
}

func TestPieces(t *testing.T) {
	holed := holedBatch(t, batchShape{}, 0, 1, 5)
	var got []Recoded
	for p, err := range Pieces(holed, RecodeOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	if want := []span{{100, 2}, {105, 1}}; !slices.Equal(spansOf(got), want) {
		t.Fatalf("%v", spansOf(got))
	}
	// What is not sound as a whole gives nothing.
	binary.BigEndian.PutUint32(holed[countAt:], 4)
	resealCRC(holed)
	for p, err := range Pieces(holed, RecodeOptions{}) {
		if !errors.Is(err, ErrMalformed) || p.Bytes != nil {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	// The batches before a record that does not fit are given.
	large := oracleEncode(t, []Record{{Offset: 1}, {Offset: 3, Value: make([]byte, 2000)}}, batchShape{})
	got = nil
	for p, err := range Pieces(large, RecodeOptions{MaxBytes: 500}) {
		if err != nil {
			if !errors.Is(err, ErrRecordTooLarge) || len(got) != 1 || got[0].Base != 1 {
				t.Fatalf("%v, %v", spansOf(got), err)
			}
			continue
		}
		got = append(got, p)
	}
}
