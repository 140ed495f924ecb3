package plan

import (
	"bytes"
	"fmt"
	"iter"

	"klink/fetcher/batch"
)

// Range is the offsets [From, End).
type Range struct{ From, End int64 }

// Common returns what two logs both retain, or an empty range.
func Common(a, b Range) Range {
	r := Range{max(a.From, b.From), min(a.End, b.End)}
	r.End = max(r.From, r.End)
	return r
}

// Difference is the first place where two logs are not the same.
type Difference struct {
	Offset int64
	// What says which part differs: "missing", "extra", "key", "value",
	// "headers" or "timestamp", seen from the target.
	What string
}

// String returns a sentence for a halt's detail.
func (d Difference) String() string {
	switch d.What {
	case "missing":
		return fmt.Sprintf("the source's record at offset %d is missing on the target", d.Offset)
	case "extra":
		return fmt.Sprintf("the target has a record at offset %d where the source has none", d.Offset)
	}
	return fmt.Sprintf("the records at offset %d differ in %s", d.Offset, d.What)
}

// Records is a run of records in offset order.
type Records = iter.Seq2[batch.Record, error]

// Compare reads two runs side by side and returns the first difference within
// r and how many records were equal. Where compacted is true a record that only
// one side still has is no difference (G1: it was superseded, or is an expired
// tombstone, on the other side). An error is the first one of either run.
func Compare(src, dst Records, r Range, compacted Compaction) (equal int64, diff *Difference, err error) {
	a, stopA := pull(src, r)
	defer stopA()
	b, stopB := pull(dst, r)
	defer stopB()
	x, okX, err := a()
	if err != nil {
		return 0, nil, err
	}
	y, okY, err := b()
	if err != nil {
		return 0, nil, err
	}
	for okX || okY {
		takeX := okX && (!okY || x.Offset <= y.Offset)
		takeY := okY && (!okX || y.Offset <= x.Offset)
		switch {
		case takeX && takeY:
			if what := unlike(&x, &y); what != "" {
				return equal, &Difference{x.Offset, what}, nil
			}
			equal++
		case compacted == Compacted:
		case takeX:
			return equal, &Difference{x.Offset, "missing"}, nil
		default:
			return equal, &Difference{y.Offset, "extra"}, nil
		}
		if takeX {
			if x, okX, err = a(); err != nil {
				return equal, nil, err
			}
		}
		if takeY {
			if y, okY, err = b(); err != nil {
				return equal, nil, err
			}
		}
	}
	return equal, nil, nil
}

// Compaction tells whether either side of a comparison is compacted.
type Compaction bool

// The two answers.
const (
	Compacted    Compaction = true
	NotCompacted Compaction = false
)

// pull turns a run into a function that returns its records within r.
func pull(seq Records, r Range) (next func() (batch.Record, bool, error), stop func()) {
	n, stop := iter.Pull2(seq)
	return func() (batch.Record, bool, error) {
		for {
			rec, err, ok := n()
			switch {
			case !ok:
				return batch.Record{}, false, nil
			case err != nil:
				return batch.Record{}, false, err
			case rec.Offset >= r.End:
				return batch.Record{}, false, nil
			case rec.Offset >= r.From:
				return rec, true, nil
			}
		}
	}, stop
}

// unlike names the first part in which two records differ, "" if none. Null
// and empty are different.
func unlike(a, b *batch.Record) string {
	switch {
	case !same(a.Key, b.Key):
		return "key"
	case !same(a.Value, b.Value):
		return "value"
	case a.Timestamp != b.Timestamp:
		return "timestamp"
	case len(a.Headers) != len(b.Headers):
		return "headers"
	}
	for i := range a.Headers {
		if !same(a.Headers[i].Key, b.Headers[i].Key) || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return "headers"
		}
	}
	return ""
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
