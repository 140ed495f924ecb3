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
