package maps

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"klink/translate/exact"
)

// disk stands for what is on record: it takes the steps of edits, whole or cut off.
type disk map[int64][]exact.Run

// steps are the writes of an edit, in an order in which they may arrive.
func steps(e edit) []numbered {
	all := slices.Concat(e.first, e.more)
	for _, n := range e.drop {
		all = append(all, numbered{number: n})
	}
	return all
}

func (d disk) apply(writes ...numbered) {
	for _, w := range writes {
		if w.runs == nil {
			delete(d, w.number)
			continue
		}
		d[w.number] = slices.Clone(w.runs)
	}
}

// load reads what is on record as a Store does.
func (d disk) load(t testing.TB) (*exact.Map, []chunk) {
	t.Helper()
	v := newView()
	for n, runs := range d {
		k, err := here.key(kindRuns, n).encode()
		if err != nil {
			t.Fatal(err)
		}
		value, err := exact.Encode(nil, runs)
		if err != nil {
			t.Fatal(err)
		}
		v.apply(k, value)
	}
	m, _, chunks, err := v.read(here)
	if err != nil {
		t.Fatal(err)
	}
	return m, chunks
}

// change does to a map what a mirror may do between two Puts.
func change(t *testing.T, rnd *rand.Rand, m *exact.Map) {
	t.Helper()
	src, dst := m.End()
	switch rnd.IntN(12) {
	case 0:
		m.CutDst(rnd.Int64N(dst + 1))
	case 1:
		m.CutSrc(rnd.Int64N(src + 1))
	case 2:
		m.Prune(rnd.Int64N(dst/2 + 1))
	case 3:
		m.Prune(dst + 5)
	}
	for range rnd.IntN(400) {
		last, _ := m.Last()
		src, dst := m.End()
		if err := m.Add(exact.Run{Src: src + int64(rnd.IntN(2)), Dst: dst, Count: 1 + rnd.Int64N(3), Seq: last.SeqEnd()}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEdits: after each Put the record says what the map says, but for what was
// pruned; and wherever one is cut off, the record still has each copy that both have
// (M1), and the next Put mends it.
func TestEdits(t *testing.T) {
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		d, m, on := disk{}, &exact.Map{}, []chunk(nil)
		for range 12 {
			before, _ := d.load(t)
			change(t, rnd, m)
			e := editsOf(on, m)
			writes := steps(e)
			for n := range writes {
				cut := maps.Clone(d)
				cut.apply(writes[:n]...)
				got, chunks := cut.load(t)
				mustHoldCommon(t, got, before, m)
				again := before.Clone()
				again.CutSrc(0) // all of it is to be written
				for r := range m.Runs() {
					mustAdd(t, again, r)
				}
				cut.apply(steps(editsOf(chunks, again))...)
				mustSay(t, cut, again)
			}
			d.apply(writes...)
			m.Settled()
			mustSay(t, d, m)
			if _, on = d.load(t); len(on) != len(e.kept)+len(e.first)+len(e.more) {
				t.Fatalf("seed %d: %d chunks", seed, len(on))
			}
		}
	}
}

func mustAdd(t testing.TB, m *exact.Map, r exact.Run) {
	t.Helper()
	if err := m.Add(r); err != nil {
		t.Fatal(err)
	}
}

// mustSay holds the record to a map, but for what was pruned of it.
func mustSay(t testing.TB, d disk, m *exact.Map) {
	t.Helper()
	back, _ := d.load(t)
	first, _ := firstOf(m)
	if m.Len() == 0 {
		first.Dst = math.MaxInt64
	}
	back.Prune(first.Dst)
	if !slices.Equal(slices.Collect(back.Runs()), slices.Collect(m.Runs())) {
		t.Fatalf("on record %d runs, in the map %d", back.Len(), m.Len())
	}
}

// mustHoldCommon holds the record to the copies that two maps have in common.
func mustHoldCommon(t testing.TB, got, a, b *exact.Map) {
	t.Helper()
	have, all := slices.Collect(got.Runs()), slices.Collect(b.Runs())
	for r := range a.Runs() {
		for _, src := range []int64{r.Src, r.SrcEnd() - 1} {
			seq, _ := seqOf([]exact.Run{r}, src)
			if other, ok := seqOf(all, src); !ok || other != seq {
				continue
			}
			if now, ok := seqOf(have, src); !ok || now != seq {
				t.Fatalf("the record of source offset %d has sequence %d, on record %d %v", src, seq, now, ok)
			}
		}
	}
}

func seqOf(runs []exact.Run, src int64) (int32, bool) {
	i := sort.Search(len(runs), func(i int) bool { return runs[i].SrcEnd() > src })
	if i == len(runs) || runs[i].Src > src {
		return 0, false
	}
	return int32((int64(runs[i].Seq) + src - runs[i].Src) & math.MaxInt32), true
}

func firstOf(m *exact.Map) (exact.Run, bool) {
	for r := range m.Runs() {
		return r, true
	}
	return exact.Run{}, false
}

// TestOneChunkChanges: a run more at the end of a long map rewrites one chunk (M2),
// and so does what is added again as it was.
func TestOneChunkChanges(t *testing.T) {
	d, m := disk{}, &exact.Map{}
	add := func(n int) {
		for range n {
			src, dst := m.End()
			last, _ := m.Last()
			mustAdd(t, m, exact.Run{Src: src + 1, Dst: dst, Count: 10, Seq: last.SeqEnd()})
		}
	}
	put := func(most int) []numbered {
		t.Helper()
		_, on := d.load(t)
		writes := steps(editsOf(on, m))
		if len(writes) > most {
			t.Fatalf("%d writes, want %d at most", len(writes), most)
		}
		d.apply(writes...)
		m.Settled()
		return writes
	}
	for range 30 {
		add(100)
		put(1)
	}
	add(1)
	if w := put(1); len(w) != 1 || len(w[0].runs) > exact.MaxChunk+100 {
		t.Fatalf("%d writes", len(w))
	}
	put(0)
	runs := slices.Collect(m.Runs())
	m.CutSrc(runs[1000].Src)
	for _, r := range runs[1000:] {
		mustAdd(t, m, r)
	}
	put(0)
	m.CutSrc(runs[2000].Src)
	add(1)
	if w := put(100); len(w) < 2 || w[0].runs == nil {
		t.Errorf("%d writes, the first one of %d runs", len(w), len(w[0].runs))
	}
	add(mostNew + 1)
	if w := put(2); len(w) != 2 {
		t.Errorf("%d writes", len(w))
	}
}
