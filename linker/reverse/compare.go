package reverse

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"klink/fetcher/batch"
)

// Comparison is what two logs were found to hold in the offsets [From, End).
type Comparison struct {
	From, End int64
	// Equal is how many records both hold.
	Equal int64
	// Differs is the first place below the cut that is not the same.
	Differs *Difference
	Tail    Extra
	Taken   Gaps
}

// Difference is a place below the cut where the two logs are not the same.
type Difference struct {
	Offset int64
	What   string
}

// String returns a sentence.
func (d Difference) String() string { return fmt.Sprintf("at offset %d %s", d.Offset, d.What) }

// Extra are records from the cut on that the promoted side does not hold.
type Extra struct {
	Count int64
	// From is the first one's offset, End lies behind the last one's.
	From, End int64
	// First and Last are the earliest and the latest timestamp, in milliseconds.
	First, Last int64
}

// String returns a sentence.
func (x Extra) String() string {
	return fmt.Sprintf("%d records at offsets %d to %d, from %s to %s, never came to the promoted side",
		x.Count, x.From, x.End-1, when(x.First).Format(time.RFC3339Nano), when(x.Last).Format(time.RFC3339Nano))
}

func when(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

func (x *Extra) add(r *batch.Record) {
	if x.Count == 0 {
		x.From, x.First, x.Last = r.Offset, r.Timestamp, r.Timestamp
	}
	x.Count++
	x.End, x.First, x.Last = r.Offset+1, min(x.First, r.Timestamp), max(x.Last, r.Timestamp)
}

// Gaps are offsets from the cut on at which the promoted side holds a record and
// the old source none.
type Gaps struct{ Count, From int64 }

func (g *Gaps) add(offset int64) {
	if g.Count == 0 {
		g.From = offset
	}
	g.Count++
}

// Bounds say what is compared: the offsets [From, End), in which those below Cut
// were mirrored from the old source.
type Bounds struct {
	From, Cut, End int64
	// Compacted: below the cut a record that one side alone still holds was
	// superseded on the other, or is an expired tombstone (G1).
	Compacted bool
}

// bounds are those of a partition: some offsets below the cut, and all from it on
// up to the old source's end.
func bounds(f Facts, sample int64) Bounds {
	b := Bounds{Cut: mirrored(f.Cut, f.New), End: min(f.Old.Stable, f.Old.End), Compacted: f.Compacted}
	b.From = max(f.Old.Start, f.New.Start, min(b.Cut, b.End)-sample)
	return b
}

// records is a run of records in offset order; each is valid until the next.
type records = iter.Seq2[batch.Record, error]

// compare reads two runs side by side: what a consumer sees of the old source's
// log, and of the promoted side's. The error is the first one of either run.
func compare(old, promoted records, b Bounds) (Comparison, error) {
	c := comparing{Bounds: b, Comparison: Comparison{From: b.From, End: b.End}}
	nextOld, stopOld := pull(old, b)
	defer stopOld()
	nextNew, stopNew := pull(promoted, b)
	defer stopNew()
	x, okX, err := nextOld()
	if err != nil {
		return c.Comparison, err
	}
	y, okY, err := nextNew()
	if err != nil {
		return c.Comparison, err
	}
	for okX || okY {
		takeX := okX && (!okY || x.Offset <= y.Offset)
		takeY := okY && (!okX || y.Offset <= x.Offset)
		switch {
		case takeX && takeY:
			c.both(&x, &y)
		case takeX:
			c.onlyOld(&x)
		default:
			c.onlyNew(&y)
		}
		if takeX {
			if x, okX, err = nextOld(); err != nil {
				return c.Comparison, err
			}
		}
		if takeY {
			if y, okY, err = nextNew(); err != nil {
				return c.Comparison, err
			}
		}
	}
	return c.Comparison, nil
}

// comparing is a Comparison that grows.
type comparing struct {
	Bounds
	Comparison
	a, b []byte
}

func (c *comparing) both(x, y *batch.Record) {
	c.a, c.b = batch.AppendCanonical(c.a[:0], *x), batch.AppendCanonical(c.b[:0], *y)
	switch {
	case bytes.Equal(c.a, c.b):
		c.Equal++
	case x.Offset < c.Cut:
		c.differs(x.Offset, "the two logs hold different records")
	default:
		c.Tail.add(x)
	}
}

func (c *comparing) onlyOld(x *batch.Record) {
	switch {
	case x.Offset >= c.Cut:
		c.Tail.add(x)
	case !c.Compacted:
		c.differs(x.Offset, "only the old source holds a record")
	}
}

func (c *comparing) onlyNew(y *batch.Record) {
	switch {
	case y.Offset >= c.Cut:
		c.Taken.add(y.Offset)
	case !c.Compacted:
		c.differs(y.Offset, "only the promoted side holds a record")
	}
}

func (c *comparing) differs(at int64, what string) {
	if c.Differs == nil {
		c.Differs = &Difference{Offset: at, What: what}
	}
}

// pull turns a run into a function that returns its records within the bounds.
func pull(seq records, b Bounds) (next func() (batch.Record, bool, error), stop func()) {
	n, stop := iter.Pull2(seq)
	return func() (batch.Record, bool, error) {
		for {
			r, err, ok := n()
			switch {
			case !ok || err != nil:
				return batch.Record{}, false, err
			case r.Offset >= b.End:
				return batch.Record{}, false, nil
			case r.Offset >= b.From:
				return r, true, nil
			}
		}
	}, stop
}
