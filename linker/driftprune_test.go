package linker

import (
	"testing"
	"testing/synctest"
	"time"

	"klink/translate/exact"
)

// TestDriftPruned: what the target's retention took is off the map, on record too, some
// looks later; what it holds is not, nor what begins in a batch that the log start cuts.
func TestDriftPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		txns := func(from int64) {
			for i := range int64(20) {
				m.src.txn(7, records(from+i, 2, "src"), true)
			}
		}
		txns(0)
		m.startDrift(t, maps)
		m.mustDrift(t) // the target ends at 40
		m.dst.skip(2 * pruneMargin)
		m.dst.write(records(0, 1, "foreign"), 0, 0)
		txns(100)
		m.mustDrift(t)
		m.dst.delete(2*pruneMargin + 30)
		runs := func() (held, on int) {
			synctest.Wait()
			r, _, _, _ := maps.Map(t.Context(), m.p.drift.key)
			return m.p.drift.copies.clone().Len(), r.Len()
		}
		if held, on := runs(); held < 40 || on < 40 {
			t.Fatalf("%d runs, %d on record", held, on)
		}
		time.Sleep(3*pruneEvery + time.Minute)
		if held, on := runs(); held != 20 || on != 20 {
			t.Errorf("%d runs, %d on record, want 20", held, on)
		}
		if a := m.p.drift.copies.toTarget(5); a.Kind != exact.BelowMap {
			t.Errorf("%+v", a)
		}
		if a := m.p.drift.copies.toTarget(60); a.Kind != exact.Exact || a.Offset != 2*pruneMargin+41 {
			t.Errorf("%+v", a)
		}
		m.stop()

		m.startDrift(t, maps) // it goes on as if nothing had been
		txns(200)
		time.Sleep(time.Minute)
		synctest.Wait()
		m.stop()
		if a := m.p.drift.copies.toTarget(120); a.Kind != exact.Exact || a.Offset != 2*pruneMargin+81 {
			t.Errorf("%+v", a)
		}
	})
}

// TestDriftPrunedToTheLast: where retention took all, the last run stays, and copying
// goes on behind it.
func TestDriftPrunedToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		for i := range int64(5) {
			m.src.txn(7, records(i, 2, "src"), true)
		}
		m.startDrift(t, maps)
		m.mustDrift(t)
		m.dst.skip(2 * pruneMargin)
		m.dst.delete(2 * pruneMargin)
		time.Sleep(3*pruneEvery + time.Minute)
		synctest.Wait()
		if n := m.p.drift.copies.clone().Len(); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		m.stop()
		m.src.write(records(50, 3, "src"), 0, 0)
		m.startDrift(t, maps)
		time.Sleep(time.Minute)
		synctest.Wait()
		m.stop()
		if a := m.p.drift.copies.toTarget(17); a.Kind != exact.Exact || a.Offset != 2*pruneMargin+12 {
			t.Errorf("%+v, up to %d", a, m.p.drift.next)
		}
	})
}
