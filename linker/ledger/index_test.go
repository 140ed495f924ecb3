package ledger

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// oracle is the dumb index: one entry per offset.
type oracle map[int64]Reason

func (o oracle) totals() map[Reason]int64 {
	out := make(map[Reason]int64)
	for _, r := range o {
		out[r]++
	}
	return out
}

// markers gives those of the oracle's offsets from an offset on that stand in a
// log as markers.
func (o oracle) markers(from int64) iter.Seq2[int64, int32] {
	return func(yield func(int64, int32) bool) {
		for i, at := range slices.Sorted(maps.Keys(o)) {
			if at >= from && o[at].InMarker() && !yield(at, CoordinatorEpoch(int32(i), o[at])) {
				return
			}
		}
	}
}

type fataler interface{ Fatalf(string, ...any) }

// check holds L3 and L4 against the oracle.
func (o oracle) check(t fataler, x *Index) {
	if d := cmp.Diff(o.totals(), x.Totals()); d != "" {
		t.Fatalf("totals: %s", d)
	}
	ws := x.Windows()
	if len(ws) > MaxWindows {
		t.Fatalf("%d windows", len(ws))
	}
	offsets := slices.Sorted(maps.Keys(o))
	last := int64(0)
	for _, w := range ws {
		if w.From < last || w.End <= w.From {
			t.Fatalf("window [%d,%d) after %d", w.From, w.End, last)
		}
		last = w.End
		in := make(map[Reason]int64)
		for len(offsets) > 0 && offsets[0] < w.End {
			if offsets[0] < w.From {
				t.Fatalf("%d is in no window", offsets[0])
			}
			in[o[offsets[0]]]++
			offsets = offsets[1:]
		}
		want := make([]Count, 0, len(in))
		for _, r := range slices.Sorted(maps.Keys(in)) {
			want = append(want, Count{r, in[r]})
		}
		if d := cmp.Diff(want, w.Counts); d != "" {
			t.Fatalf("window [%d,%d): %s", w.From, w.End, d)
		}
		_, first := o[w.From]
		if _, end := o[w.End-1]; !first || !end {
			t.Fatalf("window [%d,%d) is too wide", w.From, w.End)
		}
	}
	if len(offsets) > 0 {
		t.Fatalf("%d is in no window", offsets[0])
	}
	if x.End() < last {
		t.Fatalf("end %d below %d", x.End(), last)
	}
}

func stored(t fataler, x *Index) *Index {
	b, err := json.Marshal(x.Encode())
	if err != nil {
		t.Fatalf("%v", err)
	}
	var s Stored
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v", err)
	}
	again, err := Decode(s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if d := cmp.Diff(x.Encode(), again.Encode()); d != "" {
		t.Fatalf("%s", d)
	}
	return again
}

var reasons = []Reason{None, Marker, Aborted, Compacted, Retention, Padded, Recoded, Split}

func TestIndexAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, o := &Index{}, oracle{}
		few := rapid.SliceOfNDistinct(rapid.SampledFrom(reasons), 1, 4, rapid.ID[Reason]).Draw(t, "reasons")
		for range rapid.IntRange(0, 500).Draw(t, "additions") {
			from := max(0, x.End()+rapid.Int64Range(-3, 12).Draw(t, "from"))
			r := Range{from, from + rapid.Int64Range(0, 4).Draw(t, "length"), rapid.SampledFrom(few).Draw(t, "reason")}
			for at := max(r.From, x.End()); at < r.End; at++ {
				o[at] = r.Reason
			}
			x.Add(r)
			if rapid.IntRange(0, 50).Draw(t, "advance") == 0 {
				x.Advance(x.End() + rapid.Int64Range(-5, 5).Draw(t, "by"))
			}
		}
		o.check(t, x)
		o.check(t, stored(t, x))
	})
}

// A crash between fill and record: the log's own markers bring the same totals,
// whatever was stored last, read once or twice.
func TestIndexFromMarkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, o := &Index{}, oracle{}
		kept := &Index{}
		steps := rapid.IntRange(0, 600).Draw(t, "fills")
		for i := range steps {
			x.Advance(x.End() + rapid.Int64Range(0, 5).Draw(t, "copies"))
			r := rapid.SampledFrom(reasons[:5]).Draw(t, "reason")
			o[x.End()] = r
			x.Add(Range{x.End(), x.End() + 1, r})
			if i == steps/3 {
				kept = stored(t, x)
			}
		}
		half := 0
		for at, e := range o.markers(kept.End()) { // read, and broken off
			if half++; half > len(o)/3 {
				break
			}
			kept.FromMarkers(func(yield func(int64, int32) bool) { yield(at, e) })
		}
		kept.FromMarkers(o.markers(0))
		kept.Advance(x.End())
		o.check(t, kept)
		if kept.End() != x.End() {
			t.Fatalf("end %d, want %d", kept.End(), x.End())
		}
	})
}

func TestNeighboursWithOneReasonAreOneWindow(t *testing.T) {
	var x Index
	for _, r := range []Range{{0, 5_000_000_000, Padded}, {5_000_000_000, 5_000_000_003, Marker}, {5_000_000_003, 5_000_000_004, Marker},
		{5_000_000_004, 5_000_000_005, Aborted}, {5_000_000_006, 5_000_000_007, Aborted}} {
		x.Add(r)
	}
	want := []Window{{0, 5_000_000_000, []Count{{Padded, 5_000_000_000}}}, {5_000_000_000, 5_000_000_004, []Count{{Marker, 4}}},
		{5_000_000_004, 5_000_000_005, []Count{{Aborted, 1}}}, {5_000_000_006, 5_000_000_007, []Count{{Aborted, 1}}}}
	if d := cmp.Diff(want, x.Windows()); d != "" {
		t.Error(d)
	}
	x.Windows()[0].Counts[0].Offsets = 1
	if x.Totals()[Padded] != 5_000_000_000 {
		t.Error("the list is not a copy")
	}
}

// L4: what was lost is found in a window of its own among a hundred thousand gaps.
func TestLostRangesKeepTheirWindows(t *testing.T) {
	var x Index
	lost := []Range{{0, 1000, Padded}, {5_000_000, 5_000_010, Retention}, {9_000_000, 9_000_001, Retention}}
	for at := int64(0); at < 10_000_000; at += 100 {
		for _, r := range lost {
			if r.From >= at && r.From < at+100 {
				x.Add(r)
			}
		}
		x.Add(Range{at + 99, at + 100, Marker + Reason(at/100%3)})
	}
	got := x.Windows()
	for _, r := range lost {
		if !slices.ContainsFunc(got, func(w Window) bool { return w.Exact() && w.From == r.From && w.End == r.End }) {
			t.Errorf("%v is not shown", r)
		}
	}
	if n := x.Totals(); n[Marker]+n[Aborted]+n[Compacted] != 100_000-10 {
		t.Errorf("%v", n)
	}
	if b, err := json.Marshal(x.Encode()); err != nil || len(b) > 40_000 {
		t.Errorf("%d bytes (%v)", len(b), err)
	}
}

func TestDecodeRefusesWhatNoIndexIs(t *testing.T) {
	for name, s := range map[string]Stored{
		"wrong way round":   {9, []StoredWindow{{From: 5, End: 5}}},
		"below the log":     {9, []StoredWindow{{From: -1, End: 5}}},
		"out of order":      {9, []StoredWindow{{From: 5, End: 6}, {From: 1, End: 2}}},
		"beyond the end":    {5, []StoredWindow{{From: 5, End: 6}}},
		"more than its own": {9, []StoredWindow{{From: 1, End: 4, Counts: map[Reason]int64{1: 2, 2: 2}}}},
		"less than nothing": {9, []StoredWindow{{From: 1, End: 4, Counts: map[Reason]int64{1: -2}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(s); err == nil {
				t.Error("accepted")
			}
		})
	}
	var long Stored
	for i := range int64(3 * MaxWindows) {
		long.Windows = append(long.Windows, StoredWindow{From: 2 * i, End: 2*i + 1, Reason: Marker})
		long.End = 2*i + 1
	}
	x, err := Decode(long)
	if err != nil || len(x.Windows()) > MaxWindows || x.Totals()[Marker] != 3*MaxWindows {
		t.Errorf("%d windows, %v, %v", len(x.Windows()), x.Totals(), err)
	}
}

func BenchmarkAddLonelyGap(b *testing.B) {
	var x Index
	for i := range int64(b.N) {
		x.Add(Range{100 * i, 100*i + 1, Marker})
	}
}
