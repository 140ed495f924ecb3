package ledger

import "testing"

// L1: these numbers lie in target logs.
func TestNumbersNeverChange(t *testing.T) {
	for r, want := range map[Reason]uint8{None: 0, Marker: 1, Aborted: 2, Compacted: 3, Retention: 4, Padded: 8, Recoded: 9, Split: 10} {
		if uint8(r) != want || r.InMarker() != (want < 8) || r.String() == "" {
			t.Errorf("%s is %d", r, uint8(r))
		}
	}
	if ReasonBits != 3 || Reason(6).String() != "reason-6" {
		t.Errorf("%d bits, %s", ReasonBits, Reason(6))
	}
}

func TestCoordinatorEpoch(t *testing.T) {
	for _, counter := range []int32{0, 1, 1<<16 - 1, CounterLimit - 1} {
		last := int32(-1)
		for r := None; r <= Retention; r++ {
			e := CoordinatorEpoch(counter, r)
			if c, got := SplitEpoch(e); c != counter || got != r || e <= last {
				t.Errorf("%d %s becomes %d, that is %d %s", counter, r, e, c, got)
			}
			last = e
		}
	}
}
