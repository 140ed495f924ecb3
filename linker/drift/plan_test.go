package drift

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"testing"

	"klink/fetcher/batch"
	"klink/linker/plan"
)

func entry(base int64, last, count int32, attributes int16) plan.Entry {
	return plan.Entry{SizeBytes: 100_000, Header: batch.Header{BaseOffset: base, LastOffsetDelta: last, Count: count, Attributes: attributes, ProducerID: -1}}
}

func TestPlan(t *testing.T) {
	aborted := entry(5, 4, 5, 0x10)
	aborted.Aborted = true
	for name, c := range map[string]struct {
		next       int64
		entries    []plan.Entry
		compaction plan.Compaction
		kind       plan.Kind
		base, end  int64
	}{
		"nothing":              {next: 5, kind: plan.Wait, base: 5, end: 5},
		"dense":                {next: 5, entries: []plan.Entry{entry(5, 4, 5, 0)}, kind: plan.Append, base: 5, end: 10},
		"behind a hole":        {next: 3, entries: []plan.Entry{entry(5, 4, 5, 0)}, compaction: plan.Compacted, kind: plan.Append, base: 5, end: 10},
		"missing":              {next: 3, entries: []plan.Entry{entry(5, 4, 5, 0)}, kind: plan.Halt, base: 3, end: 5},
		"copied already":       {next: 10, entries: []plan.Entry{entry(5, 4, 5, 0)}, kind: plan.Drop, base: 5, end: 10},
		"copied in part":       {next: 7, entries: []plan.Entry{entry(5, 4, 5, 0)}, kind: plan.Recode, base: 7, end: 10},
		"with holes":           {next: 5, entries: []plan.Entry{entry(5, 4, 2, 0)}, compaction: plan.Compacted, kind: plan.Recode, base: 5, end: 10},
		"a marker":             {next: 5, entries: []plan.Entry{entry(5, 0, 1, 0x30)}, kind: plan.Drop, base: 5, end: 6},
		"aborted":              {next: 5, entries: []plan.Entry{aborted}, kind: plan.Drop, base: 5, end: 10},
		"emptied by a cleaner": {next: 5, entries: []plan.Entry{entry(5, 4, 0, 0)}, compaction: plan.Compacted, kind: plan.Drop, base: 5, end: 10},
	} {
		got := Plan(c.next, c.entries, c.compaction, plan.DefaultLimits())
		if got.Kind != c.kind || got.Base != c.base || got.End != c.end {
			t.Errorf("%s: %s %d to %d (%s), want %s %d to %d", name, got.Kind, got.Base, got.End, got.Detail, c.kind, c.base, c.end)
		}
	}
}

func neighbours(n int) iter.Seq2[batch.Record, error] {
	return func(yield func(batch.Record, error) bool) {
		for i := range n {
			if !yield(batch.Record{Offset: int64(i), Timestamp: int64(i), Value: make([]byte, 100)}, nil) {
				return
			}
		}
	}
}

func TestPackCutsAndNames(t *testing.T) {
	made, err := batch.Encode(neighbours(30), batch.RecodeOptions{})
	if err != nil || len(made) != 1 {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint64(made[0].Bytes, 1000)
	raw := [][]byte{made[0].Bytes}
	entries, err := plan.ReadEntries(nil, raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := Pack(entries, raw, batch.RecodeOptions{From: 1003, MaxBytes: 1500})
	if err != nil || len(packed) < 2 {
		t.Fatal(len(packed), err)
	}
	at := int64(1003)
	for _, b := range packed {
		if len(b.Spans) != 1 || b.Spans[0].Src != at || len(b.Bytes) > 1500 {
			t.Fatalf("%+v in %d bytes, want from %d", b.Spans, len(b.Bytes), at)
		}
		at = b.Spans[0].End()
	}
	if at != 1030 {
		t.Errorf("ended at %d", at)
	}
	var big *batch.RecordTooLargeError
	if _, err := Pack(entries, raw, batch.RecodeOptions{From: 1003, MaxBytes: 80}); !errors.As(err, &big) || big.Offset != 1003 {
		t.Errorf("%v, want offset 1003", err)
	}
}

func TestSpansOf(t *testing.T) {
	got := spansOf([]int64{3, 4, 5, 9, 11, 12})
	if want := []Span{{3, 3}, {9, 1}, {11, 2}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
