package drift

import (
	"encoding/binary"
	"fmt"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/batch"
	"klink/linker/plan"
)

// small is an entry of two records that may share a batch with others.
func small(base int64, change func(e *plan.Entry)) plan.Entry {
	e := entry(base, 1, 2, 0x10)
	e.SizeBytes = 100
	if change != nil {
		change(&e)
	}
	return e
}

func marker(base int64) plan.Entry { return entry(base, 0, 1, 0x30) }

func TestGather(t *testing.T) {
	aborted := func(e *plan.Entry) { e.Aborted = true }
	plain := func(e *plan.Entry) { e.Header.Attributes = 0 }
	for name, c := range map[string]struct {
		entries []plan.Entry
		kind    plan.Kind
		taken   int
		end     int64
		limits  func(l *plan.Limits)
	}{
		"alone":                      {entries: []plan.Entry{small(0, nil), marker(2)}, kind: plan.Append, taken: 1, end: 2},
		"two transactions":           {entries: []plan.Entry{small(0, nil), marker(2), small(3, nil), marker(5)}, kind: plan.Recode, taken: 3, end: 5},
		"around an aborted one":      {entries: []plan.Entry{small(0, nil), marker(2), small(3, aborted), marker(5), small(6, nil)}, kind: plan.Recode, taken: 5, end: 8},
		"neighbours stay a merge":    {entries: []plan.Entry{small(0, plain), small(2, plain), marker(4)}, kind: plan.Merge, taken: 2, end: 4},
		"neighbours and more":        {entries: []plan.Entry{small(0, plain), small(2, plain), marker(4), small(5, plain)}, kind: plan.Recode, taken: 4, end: 7},
		"up to a hole":               {entries: []plan.Entry{small(0, nil), small(2, nil), small(5, nil)}, kind: plan.Recode, taken: 2, end: 4},
		"up to another codec":        {entries: []plan.Entry{small(0, nil), marker(2), small(3, func(e *plan.Entry) { e.Header.Attributes = 0x13 })}, kind: plan.Append, taken: 1, end: 2},
		"up to another epoch":        {entries: []plan.Entry{small(0, nil), marker(2), small(3, func(e *plan.Entry) { e.Header.LeaderEpoch = 7 })}, kind: plan.Append, taken: 1, end: 2},
		"up to a large one":          {entries: []plan.Entry{small(0, nil), marker(2), small(3, func(e *plan.Entry) { e.SizeBytes = 100_000 })}, kind: plan.Append, taken: 1, end: 2},
		"up to one with holes":       {entries: []plan.Entry{small(0, nil), marker(2), small(3, func(e *plan.Entry) { e.Header.Count = 1 })}, kind: plan.Append, taken: 1, end: 2},
		"up to one of an old format": {entries: []plan.Entry{small(0, nil), marker(2), {Old: true, OldBase: 3, OldLast: 4, SizeBytes: 50}}, kind: plan.Append, taken: 1, end: 2},
		"as much as goes into one":   {entries: []plan.Entry{small(0, nil), small(2, nil), small(4, nil)}, kind: plan.Recode, taken: 2, end: 4, limits: func(l *plan.Limits) { l.MergeIntoBytes = 250 }},
		"as much as a batch may be":  {entries: []plan.Entry{small(0, nil), small(2, nil), small(4, nil)}, kind: plan.Recode, taken: 2, end: 4, limits: func(l *plan.Limits) { l.MaxBatchBytes = 299 }},
	} {
		limits := plan.DefaultLimits()
		if c.limits != nil {
			c.limits(&limits)
		}
		got := Plan(0, c.entries, plan.Compacted, limits)
		if got.Kind != c.kind || got.Entries != c.taken || got.Base != 0 || got.End != c.end {
			t.Errorf("%s: %s of %d entries, %d to %d, want %s of %d up to %d", name, got.Kind, got.Entries, got.Base, got.End, c.kind, c.taken, c.end)
		}
	}
}

// written makes a batch of n records at a base offset of a producer.
func written(t *testing.T, base int64, n int, producer int64) []byte {
	t.Helper()
	var recs iter.Seq2[batch.Record, error] = func(yield func(batch.Record, error) bool) {
		for i := range n {
			if !yield(batch.Record{Offset: int64(i), Timestamp: 7, Value: fmt.Append(nil, base+int64(i))}, nil) {
				return
			}
		}
	}
	made, err := batch.Encode(recs, batch.RecodeOptions{})
	if err != nil || len(made) != 1 {
		t.Fatal(len(made), err)
	}
	b := made[0].Bytes
	if err := batch.Patch(b, batch.Fields{Identity: batch.Identity{ProducerID: producer}}); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

// What is gathered is packed record by record, and what SpansOf says of it before is
// where its records come from.
func TestPackTogether(t *testing.T) {
	raw := [][]byte{written(t, 10, 2, 1), written(t, 12, 1, 2), written(t, 13, 3, 1), written(t, 16, 1, 1)}
	entries, err := plan.ReadEntries(nil, raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	entries[1].Aborted = true
	packed, err := Pack(entries, raw, batch.RecodeOptions{From: 10})
	if err != nil || len(packed) != 1 {
		t.Fatal(len(packed), err)
	}
	want := []Span{{10, 2}, {13, 4}}
	if d := cmp.Diff(want, packed[0].Spans); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, SpansOf(entries)); d != "" {
		t.Error(d)
	}
	var got []string
	for r, err := range batch.Records(packed[0].Bytes, batch.Limits{}) {
		if err != nil || r.Offset != int64(len(got)) || r.Timestamp != 7 {
			t.Fatalf("%+v, %v", r, err)
		}
		got = append(got, string(r.Value))
	}
	if d := cmp.Diff([]string{"10", "11", "13", "14", "15", "16"}, got); d != "" {
		t.Error(d)
	}
}
