package fill

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"klink/linker/ledger"
)

// randomRuns makes a gap of up to 60 offsets.
func randomRuns(n func(int) int) []ledger.Run {
	var out []ledger.Run
	for range 1 + n(4) {
		out = append(out, ledger.Run{Count: int64(1 + n(15)), Reason: ledger.Reason(1 + n(4))})
	}
	return out
}

// runRandom fills a gap with choices of n, of which about one in rarely is a
// fault.
func runRandom(t *testing.T, name string, n func(int) int, rarely int) {
	c := newCluster(t, func(_ string, of int) int {
		if n(rarely) != rarely-1 {
			return 0
		}
		return n(of)
	})
	c.note("%s", name)
	m := newMirror(c, randomRuns(n))
	m.set.BulkMarkers = 2 + n(12)
	m.set.BlockCounters = int32(1 + n(24))
	m.run()
}

// TestG3_RandomFaults fills larger gaps in small requests and blocks, with any
// number of faults. The name of a failure's seed is in the first line of its trace.
func TestG3_RandomFaults(t *testing.T) {
	seeds := uint64(2000)
	if *deep {
		seeds = 20000
	}
	for _, rarely := range []int{3, 6, 15} {
		synctest.Test(t, func(t *testing.T) {
			for seed := range seeds {
				r := rand.New(rand.NewPCG(seed, uint64(rarely)))
				runRandom(t, fmt.Sprintf("seed %d, %d", seed, rarely), r.IntN, rarely)
			}
		})
	}
}

// FuzzFill draws every choice from the input. Invariants: M1 to M6 as verify,
// judge and check hold them.
func FuzzFill(f *testing.F) {
	f.Add([]byte{})
	for seed := range byte(8) {
		b := make([]byte, 300)
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		// A fault takes two bytes or more. At the end of the input there are none any
		// more, so that the gap is filled within the tries that run allows.
		in = in[:min(len(in), 150)]
		synctest.Test(t, func(t *testing.T) {
			runRandom(t, "fuzz", func(n int) int {
				if len(in) == 0 {
					return 0
				}
				v := int(in[0]) % n
				in = in[1:]
				return v
			}, 4)
		})
	})
}
