package batch

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestMergeKeepsRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		base := next
		n := rapid.IntRange(2, 12).Draw(t, "batches")
		same, mixed := drawCodec.Draw(t, "codec"), rapid.Bool().Draw(t, "mixed")
		var batches, before [][]byte
		var want []Record
		var ends []int
		for range n {
			records := drawRecords(t, next, 5)
			next += int64(len(records))
			shape := batchShape{codec: same, identity: Identity{5, 2}}
			if mixed {
				shape.codec = drawCodec.Draw(t, "codec")
			}
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				shape.attributes, shape.maxTime = logAppendTimeBit|transactionalBit, drawTimestamp.Draw(t, "append time")
			}
			b := oracleEncode(t, records, shape)
			decoded, err := oracleDecode(b)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, decoded...)
			ends = append(ends, len(want))
			batches, before = append(batches, b), append(before, bytes.Clone(b))
		}
		first, _ := ParseHeader(batches[0])
		opt := MergeOptions{MaxBytes: rapid.IntRange(61, 20<<10).Draw(t, "max")}
		prefix := []byte("prefix")
		out, merged, err := Merge(prefix, batches, opt)
		for i := range batches {
			if !bytes.Equal(batches[i], before[i]) {
				t.Fatalf("input %d was changed (B8)", i)
			}
		}
		if !bytes.HasPrefix(out, []byte("prefix")) {
			t.Fatal("dst was overwritten")
		}
		var refused *NotMergeableError
		if errors.As(err, &refused) {
			if refused.Obstacle != NoRoom || len(out) != len(prefix) {
				t.Fatalf("%v, %d bytes", err, len(out))
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if merged < 2 || len(out)-len(prefix) > opt.MaxBytes {
			t.Fatalf("%d batches merged to %d bytes, limit %d", merged, len(out)-len(prefix), opt.MaxBytes)
		}
		b := out[len(prefix):]
		wantCanonical(t, b, first.Codec())
		wantRecords(t, recordsOf(t, []Recoded{{Base: base, Count: int32(ends[merged-1]), Bytes: b}}), want[:ends[merged-1]])
	})
}

func TestMergeRefuses(t *testing.T) {
	records := jsonRecords(10, 9, 50)
	plain := func(from, to int, shape batchShape) []byte { return oracleEncode(t, records[from:to], shape) }
	a, b := plain(0, 3, batchShape{}), plain(3, 6, batchShape{})
	holed := oracleEncode(t, []Record{records[3], records[5]}, batchShape{})
	empty := plainBatch(0, 2, nil)
	empty[7] = 13
	large := plain(3, 6, batchShape{codec: CodecSnappy})
	for name, tc := range map[string]struct {
		batches [][]byte
		max     int
		want    NotMergeableError
	}{
		"none":           {nil, 0, NotMergeableError{0, -1, TooFew}},
		"one":            {[][]byte{a}, 0, NotMergeableError{0, -1, TooFew}},
		"gap":            {[][]byte{a, plain(4, 6, batchShape{})}, 0, NotMergeableError{1, 14, Gap}},
		"overlap":        {[][]byte{a, plain(2, 6, batchShape{})}, 0, NotMergeableError{1, 12, Gap}},
		"control":        {[][]byte{a, b, plain(6, 7, batchShape{attributes: controlBit})}, 0, NotMergeableError{2, 16, Control}},
		"control first":  {[][]byte{plain(0, 1, batchShape{attributes: controlBit}), b}, 0, NotMergeableError{0, 10, Control}},
		"holes":          {[][]byte{a, holed}, 0, NotMergeableError{1, 13, Holes}},
		"emptied":        {[][]byte{a, empty}, 0, NotMergeableError{1, 13, Empty}},
		"old":            {[][]byte{a, oldWrapper(t, 1, 13, 2, CodecGzip)}, 0, NotMergeableError{1, -1, Old}},
		"old first":      {[][]byte{oldWrapper(t, 1, 13, 2, CodecGzip), a}, 0, NotMergeableError{0, -1, Old}},
		"no room":        {[][]byte{a, b}, len(a) + 50, NotMergeableError{1, 13, NoRoom}},
		"no room for a":  {[][]byte{a, b}, len(a) - 50, NotMergeableError{0, 10, NoRoom}},
		"no room, codec": {[][]byte{plain(0, 3, batchShape{codec: CodecSnappy}), large}, len(large) - 20, NotMergeableError{1, 13, NoRoom}},
	} {
		t.Run(name, func(t *testing.T) {
			out, n, err := Merge([]byte("dst"), tc.batches, MergeOptions{MaxBytes: tc.max})
			var got *NotMergeableError
			if !errors.As(err, &got) || *got != tc.want || !errors.Is(err, ErrNotMergeable) {
				t.Fatalf("%v, wanted %v", err, &tc.want)
			}
			if string(out) != "dst" || n != 0 {
				t.Fatalf("%q, %d", out, n)
			}
		})
	}
}

func TestMergeable(t *testing.T) {
	for want, h := range map[Obstacle]Header{
		0: {Count: 3, LastOffsetDelta: 2, Attributes: transactionalBit | logAppendTimeBit | deleteHorizonBit}, Control: {Count: 1, Attributes: controlBit},
		Empty: {LastOffsetDelta: 2}, Holes: {Count: 2, LastOffsetDelta: 2},
	} {
		var got *NotMergeableError
		err := Mergeable(&h)
		if (want == 0) != (err == nil) || want != 0 && (!errors.As(err, &got) || got.Obstacle != want) {
			t.Errorf("%v: %v", want, err)
		}
	}
}

// As many as fit, no more, and the rest can be merged next.
func TestMergeTakesAsManyAsFit(t *testing.T) {
	for _, codec := range allCodecs {
		var batches [][]byte
		for _, r := range jsonRecords(0, 200, 300) {
			batches = append(batches, oracleEncode(t, []Record{r}, batchShape{codec: codec}))
		}
		var got []Record
		opt := MergeOptions{MaxBytes: 8 << 10}
		for rest := batches; len(rest) > 0; {
			if len(rest) == 1 {
				got = append(got, mustCollect(t, rest[0])...)
				break
			}
			base := int64(len(got))
			out, n, err := Merge(nil, rest, opt)
			if err != nil || len(out) > opt.MaxBytes {
				t.Fatalf("%s: %d bytes, %v", codec, len(out), err)
			}
			if codec == CodecNone && n < len(rest) && len(out)+310 < opt.MaxBytes {
				t.Fatalf("one more would fit into %d bytes", len(out))
			}
			got = append(got, recordsOf(t, []Recoded{{Base: base, Count: int32(n), Bytes: out}})...)
			rest = rest[n:]
		}
		wantRecords(t, got, jsonRecords(0, 200, 300))
	}
}

func TestMergeUsesItsBufferAgain(t *testing.T) {
	var batches [][]byte
	for _, r := range jsonRecords(0, 50, 100) {
		batches = append(batches, oracleEncode(t, []Record{r}, batchShape{}))
	}
	dst, _, err := Merge(nil, batches, MergeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(20, func() {
		if dst, _, err = Merge(dst[:0], batches, MergeOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Fatalf("%v allocations", allocs)
	}
}
