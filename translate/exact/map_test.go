package exact

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dumb is a map of every record: copies in the order in which they were made, each
// with its place on both sides.
type dumb struct {
	copies []pair
	src    int64
	start  int64 // of the target's log
}

type pair struct{ src, dst int64 }

func (d *dumb) add(r Run) {
	d.copies = slices.DeleteFunc(d.copies, func(p pair) bool { return p.src >= r.Src || p.dst >= r.Dst })
	for i := range r.Count {
		d.copies = append(d.copies, pair{r.Src + i, r.Dst + i})
	}
	d.src = r.SrcEnd()
}

// end is the end of what was copied on both sides.
func (d *dumb) end() (src, dst int64) {
	if n := len(d.copies); n > 0 {
		dst = d.copies[n-1].dst + 1
	}
	return d.src, dst
}

// next is the first copy whose offset is at or above at.
func (d *dumb) next(at int64, of func(pair) int64) (pair, bool) {
	for _, p := range d.copies {
		if of(p) >= at {
			return p, true
		}
	}
	return pair{}, false
}

func (d *dumb) check(t *testing.T, m *Map) {
	t.Helper()
	src, dst := d.end()
	if s, e := m.End(); s != src || e != dst {
		t.Fatalf("ends at %d, %d, want %d, %d", s, e, src, dst)
	}
	d.checkWay(t, way{"to target", m.ToTarget, src, dst, func(p pair) (int64, int64) { return p.src, p.dst }})
	d.checkWay(t, way{"to source", m.ToSource, dst, src, func(p pair) (int64, int64) { return p.dst, p.src }})
	runs := slices.Collect(m.Runs())
	for i := 1; i < len(runs); i++ {
		if err := after(runs[i-1], runs[i]); err != nil {
			t.Fatal(err)
		}
	}
}

type way struct {
	name       string
	translate  func(int64) Answer
	end, other int64
	sides      func(pair) (from, to int64)
}

func (d *dumb) checkWay(t *testing.T, w way) {
	t.Helper()
	if len(d.copies) == 0 {
		if got := w.translate(3); got != (Answer{}) {
			t.Fatalf("%s of nothing: %+v", w.name, got)
		}
		return
	}
	before := int64(math.MinInt64)
	for at := int64(0); at <= w.end+3; at++ {
		got := w.translate(at)
		if got.Offset < before {
			t.Fatalf("%s: %d leads to %d, the one below it to %d", w.name, at, got.Offset, before)
		}
		before = got.Offset
		if want := d.answer(at, w); got != want {
			t.Fatalf("%s of %d: %+v, want %+v", w.name, at, got, want)
		}
	}
}

func (d *dumb) answer(at int64, w way) Answer {
	from := func(p pair) int64 { f, _ := w.sides(p); return f }
	p, ok := d.next(at, from)
	f, to := w.sides(p)
	switch {
	case !ok && at <= w.end:
		return Answer{Offset: w.other, Kind: AtEnd}
	case !ok:
		return Answer{Offset: w.other, Kind: Ahead, Ahead: at - w.end}
	case f == at:
		return Answer{Offset: to, Kind: Exact}
	case p == d.copies[0]:
		return Answer{Offset: to, Kind: BelowMap}
	}
	return Answer{Offset: to, Kind: Next}
}

// TestAgainstEveryRecord: whatever happens to both logs, the map says of each
// offset what a map of every record says.
func TestAgainstEveryRecord(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			m, d, seq := &Map{}, &dumb{}, int32(rnd.IntN(math.MaxInt32))
			if seed%3 == 0 {
				seq = math.MaxInt32 - 5 // wraps soon
			}
			was := m.Clone()
			for range 40 {
				seq = step(t, rnd, m, d, seq)
				d.check(t, m)
				checkChanged(t, was, m)
				if rnd.IntN(4) == 0 {
					m.Settled()
					was = m.Clone()
				}
			}
		})
	}
}

// checkChanged: what ends at or below ChangedFrom is what it was, or was pruned.
func checkChanged(t *testing.T, was, now *Map) {
	t.Helper()
	from, changed := now.ChangedFrom()
	if !changed {
		from = math.MaxInt64
	}
	settled := func(m *Map, start int64) (runs []Run) {
		m = m.Clone()
		m.Prune(start)
		for r := range m.Runs() {
			if r.SrcEnd() <= from {
				runs = append(runs, r)
			}
		}
		return runs
	}
	start := int64(math.MaxInt64)
	for r := range now.Runs() {
		start = r.Dst
		break
	}
	if got, want := settled(now, start), settled(was, start); !slices.Equal(got, want) {
		t.Fatalf("below %d the runs are %+v, and were %+v", from, got, want)
	}
}

// step does one thing to both and returns the next sequence.
func step(t *testing.T, rnd *rand.Rand, m *Map, d *dumb, seq int32) int32 {
	src, dst := m.End()
	switch rnd.IntN(10) {
	case 0: // the source was cut off, or is read again
		src = rnd.Int64N(src + 1)
		m.CutSrc(src)
		d.copies = slices.DeleteFunc(d.copies, func(p pair) bool { return p.src >= src })
		d.src = min(d.src, src)
	case 1: // the target was cut off
		dst = d.start + rnd.Int64N(max(0, dst-d.start)+2)
		m.CutDst(dst)
		if p, ok := d.next(dst, func(p pair) int64 { return p.dst }); ok {
			d.src = min(d.src, p.src)
		}
		d.copies = slices.DeleteFunc(d.copies, func(p pair) bool { return p.dst >= dst })
	case 2: // nothing to be copied
		m.Advance(src + 2)
		d.src = max(d.src, src+2)
	case 3: // the target's retention
		d.start = max(d.start, rnd.Int64N(dst+1))
		start := d.start
		m.Prune(start)
		d.copies = slices.DeleteFunc(d.copies, func(p pair) bool { return p.dst < start })
	case 4: // records again, that were copied already
		src = rnd.Int64N(src + 1)
		fallthrough
	default:
		r := Run{Src: src + int64(rnd.IntN(3)), Dst: max(dst, d.start) + int64(rnd.IntN(3)), Count: 1 + int64(rnd.IntN(5)), Seq: seq}
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
		d.add(r)
		return r.SeqEnd()
	}
	return seq
}

func TestAddRefusesWhatIsNoRun(t *testing.T) {
	for _, r := range []Run{{Count: 0}, {Count: -1}, {Src: -1, Count: 1}, {Dst: -1, Count: 1}, {Seq: -1, Count: 1}, {Src: 1, Count: math.MaxInt64}} {
		m := &Map{}
		if err := m.Add(r); err == nil || m.Len() != 0 {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestBySeq(t *testing.T) {
	m := &Map{}
	for _, r := range []Run{{0, 7, 5, math.MaxInt32 - 1}, {6, 12, 3, 3}, {10, 20, 2, 6}} {
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	for seq, want := range map[int32]int64{math.MaxInt32 - 1: 0, math.MaxInt32: 1, 0: 2, 2: 4, 3: 6, 5: 8, 6: 10, 7: 11, 8: 12} {
		if got, ok := m.BySeq(seq); !ok || got != want {
			t.Errorf("sequence %d: %d %v, want %d", seq, got, ok, want)
		}
	}
	for _, seq := range []int32{9, 1000, math.MaxInt32 - 2} {
		if got, ok := m.BySeq(seq); ok {
			t.Errorf("sequence %d: %d", seq, got)
		}
	}
	// Behind a fence sequences begin at 0 again, and the one that would have come next
	// belongs to nobody.
	fenced := &Map{}
	for _, r := range []Run{{0, 0, 10, 0}, {10, 11, 3, 0}} {
		if err := fenced.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := fenced.BySeq(10); ok {
		t.Errorf("a sequence that was never used: %d", got)
	}
	// A run may be longer than there are sequences: the nearest to the end counts.
	long := &Map{}
	if err := long.Add(Run{Count: 3_000_000_000}); err != nil {
		t.Fatal(err)
	}
	if got, ok := long.BySeq(addSeq(0, 2_999_999_999)); !ok || got != 2_999_999_999 {
		t.Errorf("the last of three billion: %d %v", got, ok)
	}
	if _, ok := new(Map).BySeq(0); ok {
		t.Error("an empty map knows a sequence")
	}
}

// TestSize: a billion records with a thousand places where the difference changes
// take kilobytes.
func TestSize(t *testing.T) {
	m, rnd := &Map{}, rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		src, dst := m.End()
		last, _ := m.Last()
		if err := m.Add(Run{Src: src + 1, Dst: dst, Count: 1_000_000 + rnd.Int64N(1000), Seq: last.SeqEnd()}); err != nil {
			t.Fatal(err)
		}
	}
	total, runs := 0, slices.Collect(m.Runs())
	var again []Run
	for chunk := range slices.Chunk(runs, MaxChunk) {
		b, err := Encode(nil, chunk)
		if err != nil {
			t.Fatal(err)
		}
		part, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		total, again = total+len(b), append(again, part...)
	}
	if total > 8<<10 {
		t.Errorf("%d bytes", total)
	}
	src, _ := m.End()
	m.Settled()
	back, err := FromRuns(again, src)
	if err != nil || cmp.Diff(m, back, cmp.AllowUnexported(Map{})) != "" {
		t.Error(err)
	}
}

// TestAdopt: below the floor there is no answer, where the first copy would be the
// wrong one; above it all is as in any map.
func TestAdopt(t *testing.T) {
	m := &Map{}
	if err := m.Add(Run{Src: 50, Dst: 80, Count: 10}); err != nil {
		t.Fatal(err)
	}
	m.Adopt(50, 95)
	m = m.Clone()
	for _, c := range []struct {
		src, dst    int64
		there, back Answer
	}{
		{49, 79, Answer{}, Answer{}},
		{50, 80, Answer{Offset: 80, Kind: Exact}, Answer{Offset: 50, Kind: Exact}},
		{60, 90, Answer{Offset: 90, Kind: AtEnd}, Answer{Offset: 60, Kind: AtEnd}},
	} {
		if there, back := m.ToTarget(c.src), m.ToSource(c.dst); there != c.there || back != c.back {
			t.Errorf("%d leads to %+v, %d back to %+v", c.src, there, c.dst, back)
		}
	}
	if m.Adopted() != 95 || m.Floor() != 50 {
		t.Error(m.Adopted(), m.Floor())
	}
}
