package lab

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDeliveriesAgreeWithASet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := Partition{"t", 0}
	for range 200 {
		var d Deliveries
		set := map[int64]bool{}
		var twice int64
		for range rng.IntN(100) {
			offset := rng.Int64N(40)
			if set[offset] {
				twice++
			}
			set[offset] = true
			d.Note(p, offset)
		}
		var covered []int64
		last := int64(-2)
		for _, r := range d.Ranges(p) {
			if r.From <= last {
				t.Fatalf("ranges touch or are out of order: %v", d.Ranges(p))
			}
			last = r.To
			for o := r.From; o < r.To; o++ {
				covered = append(covered, o)
			}
		}
		if len(covered) != len(set) || slices.ContainsFunc(covered, func(o int64) bool { return !set[o] }) {
			t.Fatalf("ranges %v, want the set %v", d.Ranges(p), set)
		}
		if d.Twice()[p] != twice {
			t.Fatalf("%d read twice, want %d", d.Twice()[p], twice)
		}
	}
}
