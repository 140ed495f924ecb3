package fill

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"

	"klink/linker/ledger"
)

var deep = flag.Bool("deep", false, "three faults in every gap, and ten times the seeds: some minutes")

// odometer enumerates all choices of a run with at most budget that are not 0.
type odometer struct {
	path, sizes []int
	at          int
	budget      int
}

func (o *odometer) pick(_ string, n int) int {
	if o.at == len(o.path) {
		o.path, o.sizes = append(o.path, 0), append(o.sizes, n)
	}
	v := o.path[o.at]
	o.at++
	return v
}

// turn moves on to the next run; false when there is none.
func (o *odometer) turn() bool {
	o.path, o.sizes = o.path[:o.at], o.sizes[:o.at]
	o.at = 0
	for i := len(o.path) - 1; i >= 0; i-- {
		used := 0
		for _, v := range o.path[:i] {
			if v != 0 {
				used++
			}
		}
		if o.path[i]+1 < o.sizes[i] && used < o.budget {
			o.path, o.sizes = o.path[:i+1], o.sizes[:i+1]
			o.path[i]++
			return true
		}
	}
	return false
}

// shapes are gaps of k offsets: of one reason, and of as many as can be.
func shapes(k int64) [][]ledger.Run {
	var mixed []ledger.Run
	for i := range k {
		mixed = append(mixed, ledger.Run{Count: 1, Reason: ledger.Reason(1 + i%3)})
	}
	out := [][]ledger.Run{{{Count: k, Reason: ledger.Compacted}}}
	if k > 1 {
		out = append(out, mixed)
	}
	if k > 3 {
		out = append(out, []ledger.Run{{Count: k - 1, Reason: ledger.Aborted}, {Count: 1, Reason: ledger.Marker}})
	}
	return out
}

// TestG3_EveryFaultAtEveryStep takes each fault at each step of gaps of 1 to 5
// offsets, then each two of them (three with -deep): the log never is one offset short or long.
func TestG3_EveryFaultAtEveryStep(t *testing.T) {
	for k := int64(1); k <= 5; k++ {
		for i, runs := range shapes(k) {
			budget := 2
			if *deep || k <= 2 && !testing.Short() {
				budget = 3
			}
			t.Run(fmt.Sprintf("%d-%d", k, i), func(t *testing.T) {
				o := &odometer{budget: budget}
				n := 0
				synctest.Test(t, func(t *testing.T) {
					for more := true; more; more = o.turn() {
						newMirror(newCluster(t, o.pick), runs).run()
						n++
					}
				})
				t.Logf("%d runs", n)
			})
		}
	}
}
