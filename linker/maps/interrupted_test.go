package maps

import (
	"maps"
	"slices"
	"testing"

	"klink/linker/drift"
	"klink/translate/exact"
)

// TestPutCutOffAfterRecovery: a process dies with some hundred runs on record behind
// its cursor, the next one finds them all in the target's log and dies in the middle
// of its first Put; the third one finds the same position still, whatever part of
// that Put is on record.
func TestPutCutOffAfterRecovery(t *testing.T) {
	truth, cursor := &exact.Map{}, drift.Position{}
	var own []drift.OwnBatch
	for i := range 3*exact.MaxChunk + 10 {
		last, _ := truth.Last()
		src, dst := truth.End()
		r := exact.Run{Src: src + 1, Dst: dst + 1, Count: 2, Seq: last.SeqEnd()} // a marker behind each on both sides
		if err := truth.Add(r); err != nil {
			t.Fatal(err)
		}
		own = append(own, drift.OwnBatch{Base: r.Dst, Count: r.Count, Seq: r.Seq})
		if i == 20 {
			cursor = drift.Position{Src: r.SrcEnd(), Dst: r.DstEnd(), Seq: r.SeqEnd()}
		}
	}
	d := disk{}
	_, end := truth.End()
	recover := func(d disk) (*exact.Map, []chunk, drift.Position) {
		t.Helper()
		m, chunks := d.load(t)
		from := drift.ScanFrom(m, cursor, 0, end)
		i := slices.IndexFunc(own, func(b drift.OwnBatch) bool { return b.Base+b.Count > from })
		m, at, err := drift.Recover(m, cursor, drift.Scan{From: from, End: end, Own: own[i:]})
		if err != nil {
			t.Fatal(err)
		}
		return m, chunks, at
	}
	for part := range slices.Chunk(slices.Collect(truth.Runs()), exact.MaxChunk) { // as several Puts leave them
		d.apply(numbered{int64(len(d)), part})
	}
	_, _, want := recover(d)
	for _, moved := range []int64{0, 3} { // others wrote before the last copies that were planned
		own, end = slices.Clone(own), end+moved
		for i := 2 * exact.MaxChunk; i < len(own); i++ {
			own[i].Base += moved
		}
		want.Dst += moved
		m, on, at := recover(d)
		if at != want {
			t.Fatalf("goes on at %+v, want %+v", at, want)
		}
		writes := steps(editsOf(on, m))
		if moved == 0 != (len(writes) == 0) {
			t.Fatalf("%d writes", len(writes))
		}
		for n := range len(writes) + 1 {
			cut := maps.Clone(d)
			cut.apply(writes[:n]...)
			if _, _, at := recover(cut); at != want {
				t.Errorf("cut off after %d writes: the next process goes on at %+v, want %+v", n, at, want)
			}
		}
	}
}
