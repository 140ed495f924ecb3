package plan

import (
	"encoding/binary"
	"iter"
	"testing"

	"klink/fetcher/batch"
)

// smallBatches is a Fetch answer's records field of batches of one record each.
func smallBatches(tb testing.TB, bytes int) []byte {
	tb.Helper()
	one := func(offset int64) iter.Seq2[batch.Record, error] {
		return func(yield func(batch.Record, error) bool) {
			yield(batch.Record{Offset: offset, Timestamp: 1_700_000_000_000 + offset, Value: make([]byte, 200)}, nil)
		}
	}
	var all []byte
	for offset := int64(0); len(all) < bytes; offset++ {
		made, err := batch.Encode(one(offset), batch.RecodeOptions{})
		if err != nil {
			tb.Fatal(err)
		}
		binary.BigEndian.PutUint64(made[0].Bytes, uint64(offset)) // outside the CRC
		all = append(all, made[0].Bytes...)
	}
	return all
}

// BenchmarkSmallBatches does with 1 MiB of one-record batches what the mirror
// does, from the answer to the merged batches.
func BenchmarkSmallBatches(b *testing.B) {
	answer := smallBatches(b, 1<<20)
	limits := DefaultLimits()
	var entries []Entry
	var merged []byte
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		raw, _, err := batch.Split(answer)
		if err != nil {
			b.Fatal(err)
		}
		if entries, err = ReadEntries(entries[:0], raw, nil); err != nil {
			b.Fatal(err)
		}
		for rest := entries; len(rest) > 0; {
			step := Next(rest[0].Header.BaseOffset, rest, Policy{}, limits)
			if step.Kind != Merge && len(rest) > 1 {
				b.Fatalf("%v at offset %d", step, rest[0].Header.BaseOffset)
			}
			if step.Kind == Merge {
				if merged, _, err = batch.Merge(merged[:0], raw[:step.Entries], batch.MergeOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			rest, raw = rest[step.Entries:], raw[step.Entries:]
		}
	}
}
