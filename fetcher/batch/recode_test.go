package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// wantCanonical holds an encoded batch to B6.
func wantCanonical(tb rapid.TB, b []byte, codec Codec) Header {
	tb.Helper()
	if err := CheckCRC(b); err != nil {
		tb.Fatal(err)
	}
	h, err := ParseHeader(b)
	if err != nil {
		tb.Fatal(err)
	}
	want := Header{
		Length: int32(len(b) - 12), LeaderEpoch: -1, Magic: 2, CRC: h.CRC, Attributes: int16(codec), LastOffsetDelta: h.Count - 1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: h.Count, MaxTimestamp: -1,
	}
	for i, r := range mustCollect(tb, b) {
		if i == 0 {
			want.FirstTimestamp = r.Timestamp
		}
		want.MaxTimestamp = max(want.MaxTimestamp, r.Timestamp)
		if r.Offset != int64(i) {
			tb.Fatalf("record %d has offset delta %d", i, r.Offset)
		}
	}
	if h != want {
		tb.Fatalf("header %+v, wanted %+v", h, want)
	}
	return h
}

// recordsOf returns the records of encoded batches at their source offsets, by
// the oracle.
func recordsOf(tb rapid.TB, pieces []Recoded) []Record {
	tb.Helper()
	var all []Record
	for _, p := range pieces {
		records, err := oracleDecode(p.Bytes)
		if err != nil {
			tb.Fatal(err)
		}
		if len(records) != int(p.Count) {
			tb.Fatalf("%d records, said to be %d", len(records), p.Count)
		}
		for _, r := range records {
			r.Offset += p.Base
			all = append(all, r)
		}
	}
	return all
}

func TestRecodeKeepsRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		records := drawRecords(t, base, 30)
		shape := batchShape{codec: drawCodec.Draw(t, "from"), identity: Identity{7, 1}, sequence: 9, attributes: transactionalBit}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 1:
			shape.attributes, shape.maxTime = logAppendTimeBit, drawTimestamp.Draw(t, "append time")
		case 2:
			shape.attributes, shape.horizon = deleteHorizonBit, drawTimestamp.Draw(t, "horizon")
		}
		b := oracleEncode(t, records, shape)
		want, err := oracleDecode(b)
		if err != nil {
			t.Fatal(err)
		}
		opt := RecodeOptions{
			Codec:    drawCodec.Draw(t, "to"),
			MaxBytes: rapid.IntRange(100, 8<<10).Draw(t, "max"),
			From:     base + rapid.Int64Range(-1, int64(len(records))).Draw(t, "from"),
		}
		pieces, err := Recode(b, opt)
		var tooLarge *RecordTooLargeError
		if errors.As(err, &tooLarge) {
			alone := opt
			alone.MaxBytes = 1 << 20
			one, err := Encode(each(want[tooLarge.Offset-base:tooLarge.Offset-base+1]), alone)
			if err != nil || len(one) != 1 || len(one[0].Bytes) != tooLarge.Bytes || tooLarge.Bytes <= opt.MaxBytes {
				t.Fatalf("%v, but alone it is %v (%v)", tooLarge, one, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want = want[max(0, opt.From-base):]
		if len(want) == 0 {
			want = nil
		}
		for _, p := range pieces {
			if len(p.Bytes) > opt.MaxBytes {
				t.Fatalf("batch of %d bytes above %d", len(p.Bytes), opt.MaxBytes)
			}
			wantCanonical(t, p.Bytes, opt.Codec)
		}
		wantRecords(t, recordsOf(t, pieces), want)

		again, err := Encode(each(want), opt)
		if err != nil {
			t.Fatal(err)
		}
		wantRecords(t, recordsOf(t, again), want)
	})
}

func TestRecodeRefuses(t *testing.T) {
	records := jsonRecords(10, 5, 50)
	holed := append(append([]Record(nil), records[:2]...), records[3:]...)
	for name, tc := range map[string]struct {
		b    []byte
		opt  RecodeOptions
		want error
	}{
		"control":       {oracleEncode(t, records, batchShape{attributes: controlBit}), RecodeOptions{}, ErrControl},
		"unknown codec": {oracleEncode(t, records, batchShape{}), RecodeOptions{Codec: 5}, ErrCodec},
	} {
		if pieces, err := Recode(tc.b, tc.opt); !errors.Is(err, tc.want) || pieces != nil {
			t.Errorf("%s: %d pieces, %v", name, len(pieces), err)
		}
	}
	falling := []Record{records[1], records[0]}
	if pieces, err := Encode(each(falling), RecodeOptions{}); !errors.Is(err, ErrNotContiguous) || pieces != nil {
		t.Errorf("Encode: %v, %v", pieces, err)
	}
	if pieces, err := Encode(each(holed), RecodeOptions{From: 13}); err != nil || len(pieces) != 1 || pieces[0].Base != 13 {
		t.Errorf("Encode above the hole: %v, %v", pieces, err)
	}
	if pieces, err := Encode(each(holed), RecodeOptions{}); !errors.Is(err, ErrNotContiguous) || pieces != nil {
		t.Errorf("Encode: %v, %v", pieces, err)
	}
	broken := errors.New("broken")
	if _, err := Encode(func(yield func(Record, error) bool) { yield(Record{}, broken) }, RecodeOptions{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := Encode(each(records), RecodeOptions{Limits: Limits{MaxUncompressedBytes: 100}}); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if pieces, err := Encode(each(nil), RecodeOptions{}); err != nil || pieces != nil {
		t.Error(pieces, err)
	}
}

func TestRecodeOneRecordTooLarge(t *testing.T) {
	records := jsonRecords(10, 5, 50)
	records[3].Value = bytes.Repeat([]byte{1}, 5000)
	_, err := Recode(oracleEncode(t, records, batchShape{codec: CodecZstd}), RecodeOptions{MaxBytes: 1000})
	var tooLarge *RecordTooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Offset != 13 || tooLarge.MaxBytes != 1000 || tooLarge.Bytes < 5061 || tooLarge.Bytes > 5100 {
		t.Fatalf("%+v", err)
	}
	if !errors.Is(err, ErrRecordTooLarge) {
		t.Fatal(err)
	}
	// Compressed it fits.
	if pieces, err := Recode(oracleEncode(t, records, batchShape{}), RecodeOptions{MaxBytes: 1000, Codec: CodecLZ4}); err != nil || len(pieces) == 0 {
		t.Fatal(pieces, err)
	}
}

// Splitting makes few batches, not one for each record.
func TestRecodeFillsItsBatches(t *testing.T) {
	records := jsonRecords(0, 1000, 1000)
	for _, codec := range allCodecs {
		pieces, err := Encode(each(records), RecodeOptions{Codec: codec, MaxBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, p := range pieces {
			sum += len(p.Bytes)
		}
		if least := sum/(64<<10) + 1; len(pieces) > 2*least {
			t.Errorf("%s: %d batches where %d would do", codec, len(pieces), least)
		}
	}
}

// span is where a recoded batch lies.
type span struct {
	base  int64
	count int32
}

func spansOf(pieces []Recoded) []span {
	var spans []span
	for _, p := range pieces {
		spans = append(spans, span{p.Base, p.Count})
	}
	return spans
}

// holedBatch returns a batch of base offset 100 that keeps of ten records those
// at the given offset deltas.
func holedBatch(tb rapid.TB, shape batchShape, deltas ...int) []byte {
	tb.Helper()
	all := jsonRecords(100, 10, 50)
	var kept []Record
	for _, d := range deltas {
		kept = append(kept, all[d])
	}
	shape.lastDelta = 9
	b := oracleEncode(tb, kept, shape)
	if len(deltas) > 0 && deltas[0] > 0 { // the cleaner keeps the base offset
		b = rebased(tb, kept, shape)
	}
	return b
}

// rebased encodes records behind a first one at offset 100, and takes that out
// of the uncompressed body again.
func rebased(tb rapid.TB, kept []Record, shape batchShape) []byte {
	tb.Helper()
	codec := shape.codec
	shape.codec = CodecNone
	marker := Record{Offset: 100, Timestamp: kept[0].Timestamp}
	b := oracleEncode(tb, append([]Record{marker}, kept...), shape)
	size, n := varint32(b[HeaderLen:])
	b = append(b[:HeaderLen], kgoCompress(tb, codec, b[HeaderLen+n+int(size):])...)
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-entryOverhead))
	binary.BigEndian.PutUint32(b[countAt:], uint32(len(kept)))
	b[attributesAt+1] |= byte(codec)
	resealCRC(b)
	return b
}

// One piece for each run of offsets that compaction left.
func TestRecodeSplitsAtHoles(t *testing.T) {
	for name, tc := range map[string]struct {
		shape batchShape
		kept  []int
		from  int64
		want  []span
	}{
		"none":             {kept: nil, want: nil},
		"all":              {kept: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, want: []span{{100, 10}}},
		"first":            {kept: []int{0}, want: []span{{100, 1}}},
		"last":             {kept: []int{9}, want: []span{{109, 1}}},
		"both ends":        {kept: []int{0, 9}, want: []span{{100, 1}, {109, 1}}},
		"every other":      {kept: []int{1, 3, 5, 7}, want: []span{{101, 1}, {103, 1}, {105, 1}, {107, 1}}},
		"runs":             {kept: []int{0, 1, 2, 5, 6, 8}, want: []span{{100, 3}, {105, 2}, {108, 1}}},
		"from inside":      {kept: []int{0, 1, 2, 5, 6, 8}, from: 102, want: []span{{102, 1}, {105, 2}, {108, 1}}},
		"from in a hole":   {kept: []int{0, 1, 2, 5, 6, 8}, from: 104, want: []span{{105, 2}, {108, 1}}},
		"from beyond them": {kept: []int{0, 1, 2, 5, 6, 8}, from: 109, want: nil},
		"from below":       {kept: []int{4, 5}, from: 7, want: []span{{104, 2}}},
		"append time":      {shape: batchShape{attributes: logAppendTimeBit, maxTime: 77}, kept: []int{2, 3, 6}, want: []span{{102, 2}, {106, 1}}},
		"delete horizon":   {shape: batchShape{attributes: deleteHorizonBit, horizon: 1.9e12}, kept: []int{2, 3, 6}, want: []span{{102, 2}, {106, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, codec := range allCodecs {
				tc.shape.codec = codec
				b := holedBatch(t, tc.shape, tc.kept...)
				pieces, err := Recode(b, RecodeOptions{Codec: codec, From: tc.from})
				if err != nil || !slices.Equal(spansOf(pieces), tc.want) {
					t.Fatalf("%s: %v, %v", codec, spansOf(pieces), err)
				}
				var want []Record
				for _, r := range mustCollect(t, b) {
					if r.Offset >= tc.from {
						want = append(want, r)
					}
				}
				wantRecords(t, recordsOf(t, pieces), want)
				for _, p := range pieces {
					wantCanonical(t, p.Bytes, codec)
				}
			}
		})
	}
}

// A batch that compaction emptied.
func TestRecodeOfEmptiedBatch(t *testing.T) {
	b := plainBatch(0, 9, nil)
	if pieces, err := Recode(b, RecodeOptions{}); err != nil || pieces != nil {
		t.Fatal(pieces, err)
	}
}
