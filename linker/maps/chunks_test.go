package maps

import (
	"math/rand/v2"
	"slices"
	"testing"

	"klink/translate/exact"
)

// disk stands for what is on record: it takes the steps of edits, whole or cut off.
type disk map[int64][]exact.Run

func (d disk) apply(e edit, steps int) {
	for _, n := range e.drop {
		if steps--; steps < 0 {
			return
		}
		delete(d, n)
	}
	for _, c := range e.put {
		if steps--; steps < 0 {
			return
		}
		d[c.number] = slices.Clone(c.runs)
	}
}

func (d disk) runs() (runs []exact.Run, chunks []chunk) {
	for _, n := range slices.Sorted(keysOf(d)) {
		runs, chunks = append(runs, d[n]...), append(chunks, chunkOf(n, d[n]))
	}
	return runs, chunks
}

func keysOf(d disk) func(func(int64) bool) {
	return func(yield func(int64) bool) {
		for n := range d {
			if !yield(n) {
				return
			}
		}
	}
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
// pruned; and a Put cut off in the middle leaves a beginning of one of the two (M1).
func TestEdits(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		d, m, on := disk{}, &exact.Map{}, []chunk(nil)
		for range 12 {
			before, _ := d.runs()
			change(t, rnd, m)
			e := editsOf(on, m)
			for steps := range len(e.drop) + len(e.put) {
				cut := disk{}
				for n, runs := range d {
					cut[n] = runs
				}
				cut.apply(e, steps)
				got, _ := cut.runs()
				if !begins(got, before) && !begins(got, slices.Collect(m.Runs())) {
					t.Fatalf("seed %d: a Put cut off after %d steps leaves neither what was nor what will be", seed, steps)
				}
			}
			d.apply(e, len(e.drop)+len(e.put))
			m.Settled()
			got, chunks := d.runs()
			back, err := exact.FromRuns(got, 0)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if first, ok := firstOf(m); ok {
				back.Prune(first.Dst)
			}
			if !slices.Equal(slices.Collect(back.Runs()), slices.Collect(m.Runs())) {
				t.Fatalf("seed %d: on record %d runs, in the map %d", seed, back.Len(), m.Len())
			}
			if !slices.Equal(chunks, e.now) {
				t.Fatalf("seed %d: chunks %+v, the plan says %+v", seed, chunks, e.now)
			}
			on = chunks
		}
	}
}

func firstOf(m *exact.Map) (exact.Run, bool) {
	for r := range m.Runs() {
		return r, true
	}
	return exact.Run{}, false
}

// begins tells whether runs are the first of all, but for what was pruned of them.
func begins(runs, all []exact.Run) bool {
	if len(runs) == 0 || len(all) == 0 {
		return true
	}
	have, err := exact.FromRuns(runs, 0)
	if err != nil {
		return false
	}
	want, err := exact.FromRuns(all, 0)
	if err != nil {
		return false
	}
	first, _ := firstOf(want)
	have.Prune(first.Dst)
	other, some := firstOf(have)
	if !some {
		return true
	}
	want.Prune(other.Dst)
	src, _ := have.End()
	want.CutSrc(src)
	return slices.Equal(slices.Collect(have.Runs()), slices.Collect(want.Runs()))
}

// TestOneChunkChanges: a run more at the end of a long map rewrites one chunk (M2).
func TestOneChunkChanges(t *testing.T) {
	m := &exact.Map{}
	add := func() {
		src, dst := m.End()
		last, _ := m.Last()
		if err := m.Add(exact.Run{Src: src + 1, Dst: dst, Count: 10, Seq: last.SeqEnd()}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3*exact.MaxChunk + 10 {
		add()
	}
	e := editsOf(nil, m)
	if len(e.put) != 4 || len(e.drop) != 0 {
		t.Fatalf("%d put, %d dropped", len(e.put), len(e.drop))
	}
	m.Settled()
	add()
	if e = editsOf(e.now, m); len(e.put) != 1 || len(e.drop) != 0 || e.put[0].number != 3 || len(e.put[0].runs) != 11 {
		t.Fatalf("%d put, %d dropped", len(e.put), len(e.drop))
	}
	m.Settled()
	if e = editsOf(e.now, m); len(e.put)+len(e.drop) != 0 {
		t.Errorf("%d put, %d dropped where nothing changed", len(e.put), len(e.drop))
	}
}
