package linker

import (
	"testing"
	"testing/synctest"

	"klink/fetcher/batch"
	"klink/linker/state"
)

// transactions writes n of one record each, every fifth of them aborted.
func transactions(l *memLog, n int) {
	for i := range n {
		l.txn(7, records(l.end, 1, "txn"), i%5 != 3)
	}
}

// TestDriftGathers: many short transactions are copied in few appends.
func TestDriftGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		m.source.most = 200
		transactions(m.src, 1000)
		m.startDrift(t, maps)
		m.mustDrift(t)
		m.stop()
		if n := m.target.appends; n > 100 {
			t.Errorf("%d appends for 800 transactions", n)
		}
	})
}

// TestDriftGathersUpToTheBroken: of what is to go together with a batch that does not
// hold together, all before it is copied, and it is named.
func TestDriftGathersUpToTheBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		m.source.most = 200
		transactions(m.src, 100)
		const broken = 2 * 42 // of batches, the marker of each follows it
		var want []batch.Record
		for _, x := range m.src.records() {
			if x.Offset < broken {
				want = append(want, x)
			}
		}
		m.src.batches[broken][batch.HeaderLen+8] ^= 1
		m.startDrift(t, maps)
		r := m.mustHalt(t, state.Corrupt)
		m.stop()
		if err := sameLogs(unplaced(want), unplaced(m.copiesOf())); err != nil {
			t.Errorf("%v\n%s", err, r.Detail)
		}
	})
}
