package fill

import (
	"errors"
	"fmt"

	"klink/linker/ledger"
)

// Trust is what makes a write right without a look at the log end before it: the
// last answer about the partition's tail was error-free, or the log end was
// read as expected and replicated, and nothing was sent since (M1).
type Trust struct {
	Known       bool
	LeaderEpoch int32
}

// Gap is what is to be filled.
type Gap struct {
	// Expect is the target's log end before the gap, and the gap's first offset.
	Expect int64
	// Runs are the gap's offsets in order.
	Runs []ledger.Run
	// Trust lets the first marker go without a look.
	Trust Trust
	// Doubt says that markers of somebody else, or of an earlier fill that ended
	// in doubt, may still be on their way: set it where the partition was taken
	// over without a clean release of its former owner, and where the last
	// Result was InDoubt.
	Doubt bool
}

func (g *Gap) count() (int64, error) {
	var n int64
	for i, r := range g.Runs {
		if r.Count < 1 || !r.Reason.InMarker() {
			return 0, fmt.Errorf("run %d of the gap at %d cannot be in markers: %d offsets, %s", i, g.Expect, r.Count, r.Reason)
		}
		n += r.Count
	}
	if g.Expect < 0 {
		return 0, errors.New("a gap begins below offset 0")
	}
	return n, nil
}

// walk steps through the runs of a gap.
type walk struct {
	runs []ledger.Run
	// i is the run that holds the offset, used how much of it lies below.
	i    int
	used int64
}

// forward moves on by n offsets.
func (w *walk) forward(n int64) {
	for n > 0 {
		step := min(n, w.runs[w.i].Count-w.used)
		w.used += step
		n -= step
		if w.used == w.runs[w.i].Count {
			w.i, w.used = w.i+1, 0
		}
	}
}

func (w *walk) reason() ledger.Reason { return w.runs[w.i].Reason }

// same tells whether the offset and the n after it all have one reason.
func (w walk) same(n int64) bool {
	first := w.reason()
	for n > 0 {
		step := min(n, w.runs[w.i].Count-w.used)
		w.forward(step)
		n -= step
		if w.i < len(w.runs) && w.reason() != first {
			return false
		}
	}
	return true
}

// behind returns the runs below the offset, none with 0 offsets.
func (w *walk) behind() []ledger.Run {
	out := append([]ledger.Run(nil), w.runs[:w.i]...)
	if w.used > 0 {
		out = append(out, ledger.Run{Count: w.used, Reason: w.reason()})
	}
	return out
}
