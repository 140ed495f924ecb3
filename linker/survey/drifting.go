package survey

import (
	"fmt"

	"klink/linker/ledger"
)

// drifting is where a partition begins, or goes on, in checkpoint mode: whatever
// the target holds stays, and copies come behind it.
func drifting(p position) beginning {
	b := beginning{at: p.src.LogStart}
	switch {
	case p.mirrored:
		b.reason = "copied in part already, which is not taken off the data here: klink status shows what is left"
	case p.dstEnd > p.dstStart:
		b.reason = fmt.Sprintf("the target has %d offsets already, which stay: copies come behind them", p.dstEnd-p.dstStart)
	}
	return b
}

func (b beginning) reasons() []string {
	if b.reason == "" {
		return nil
	}
	return []string{b.reason}
}

// withoutGaps is the amount where gaps are passed over.
func (a Amount) withoutGaps() Amount {
	a.Gaps, a.GapRuns, a.GapsPerSecond = map[ledger.Reason]int64{}, 0, -1
	return a
}
