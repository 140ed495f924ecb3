package linker

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/linker/drift"
	"klink/linker/state"
	"klink/translate/exact"
)

// takeOver fills both logs as another mirror leaves them: the target ends with the
// copies of source offsets 40 to 59, behind what else is there.
func takeOver(t *testing.T, maps *memMaps) (m *mirror, k MapKey) {
	t.Helper()
	m = rig(t, 1)
	fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 60, 3)
	m.dst.write(records(0, 7, "foreign"), 0, batch.CodecNone)
	m.dst.write(m.src.records()[40:], 0, batch.CodecNone)
	k = MapKey{Link: "l", Topic: "orders", SourceID: m.src.id}
	own := &exact.Map{}
	if err := own.Add(exact.Run{Src: 40, Dst: 7, Count: 20}); err != nil {
		t.Fatal(err)
	}
	own.Adopt(40, 27)
	maps.maps[k], maps.cursors[k] = own, drift.Position{Src: 60, Dst: 27, Seq: 20}
	m.adopt(t, 27)
	return m, k
}

// caughtUp waits until nothing is left to be copied.
func (m *mirror) caughtUp(t *testing.T) {
	t.Helper()
	for range 1000 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		r := m.p.shown.report(time.Now())
		if r.State == state.Active && r.LagRecords != nil && *r.LagRecords == 0 && *r.SourceEnd == m.src.end {
			return
		}
	}
	t.Fatalf("never caught up: %+v", m.p.shown.report(time.Now()))
}

// TestDriftTakesOver goes on behind another mirror's copies, through restarts, and
// translates what lies among them.
func TestDriftTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		maps := newMemMaps()
		m, _ := takeOver(t, maps)
		for life := range 3 {
			m.startDrift(t, maps)
			m.caughtUp(t)
			if r := m.p.shown.report(time.Now()); len(r.Flags) != 0 {
				t.Errorf("life %d: flags %v", life, r.Flags)
			}
			m.dst.write(records(100, life, "foreign"), 0, batch.CodecNone)
			fillLog(m.src, rand.New(rand.NewPCG(2, 2)), 50, 3)
			m.caughtUp(t)
			want, got := m.src.records(), m.copiesOf()
			if err := sameLogs(unplaced(want[60:]), unplaced(got)); err != nil {
				t.Fatal(err)
			}
			for src, want := range map[int64]exact.Answer{39: {}, 40: {Offset: 7, Kind: exact.Exact}, 59: {Offset: 26, Kind: exact.Exact}, 61: {Offset: got[1].Offset, Kind: exact.Exact}} {
				if a := m.p.drift.copies.toTarget(src); a != want {
					t.Errorf("%d leads to %+v, want %+v", src, a, want)
				}
			}
			m.stop()
		}
	})
}

// TestDriftTakeoverUnfinished: the adoption is on record, and where to go on is not.
func TestDriftTakeoverUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		maps := newMemMaps()
		m, k := takeOver(t, maps)
		delete(maps.cursors, k)
		m.startDrift(t, maps)
		if r := m.mustHalt(t, state.NotAdopted); !strings.Contains(r.Detail, "--from-mm2") {
			t.Error(r.Detail)
		}
		m.stop()
		if n := len(m.copiesOf()); n > 0 {
			t.Errorf("%d copies", n)
		}
	})
}
