package linker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"klink/linker/ledger"
	"klink/linker/state"
)

// TestDriftMayDouble: where retention took the copies that came after the cursor and the
// target forgot the producer, they are made again. How many that may be is told, is on
// record before the first is sent, and stays told after a restart; it is not counted
// twice.
func TestDriftMayDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		process := &mortal{memMaps: maps}
		m.src.write(records(0, 10, "src"), 0, 0)
		m.startDrift(t, process)
		m.mustDrift(t)
		process.die() // before it moved the cursor
		m.stop()
		m.dst.write(records(0, 5, "foreign"), 0, 0)
		m.dst.delete(12)
		m.dst.mu.Lock()
		m.dst.producer = map[int64]memProducer{}
		m.dst.mu.Unlock()
		m.src.write(records(10, 3, "src"), 0, 0)
		for range 2 {
			m.startDrift(t, maps)
			time.Sleep(time.Minute)
			synctest.Wait()
			m.stop()
			if m.p.drift.next != 13 || m.p.book.doubled() != 12 || !slices.Contains(m.p.book.flags(), state.PossiblyDouble) {
				t.Errorf("copied up to %d, %d may be double, flags %v", m.p.drift.next, m.p.book.doubled(), m.p.book.flags())
			}
		}
		r, _ := m.records.Ledger("l", "orders", 0)
		x, err := ledger.Decode(r.Index)
		if err != nil || x.Totals()[ledger.Doubled] != 12 || x.End() != 12 {
			t.Errorf("on record: %+v (%v)", r, err)
		}
		if n := len(m.copiesOf()); n != 10+13 {
			t.Errorf("%d copies were ever made, want 23, of which 10 twice", n)
		}
	})
}

// TestDriftRemembersNothingDouble: where the target remembers the producer, or nothing
// was deleted, nothing may be double.
func TestDriftRemembersNothingDouble(t *testing.T) {
	for name, spoil := range map[string]func(*memLog){
		"remembered":      func(l *memLog) { l.delete(12) },
		"nothing deleted": func(l *memLog) { l.mu.Lock(); l.producer = map[int64]memProducer{}; l.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, maps := rig(t, 1), newMemMaps()
				process := &mortal{memMaps: maps}
				m.src.write(records(0, 10, "src"), 0, 0)
				m.startDrift(t, process)
				m.mustDrift(t)
				process.die()
				m.stop()
				m.dst.write(records(0, 5, "foreign"), 0, 0)
				spoil(m.dst)
				m.startDrift(t, maps)
				time.Sleep(time.Minute)
				synctest.Wait()
				m.stop()
				if n := m.p.book.doubled(); n != 0 || len(m.p.book.flags()) > 0 {
					t.Errorf("%d may be double, flags %v", n, m.p.book.flags())
				}
			})
		})
	}
}
