package linker

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/plan"
	"klink/linker/state"
)

func TestEchoes(t *testing.T) {
	target := appender.Target{Topic: "orders", ID: [16]byte{7}, Partition: 3}
	es := echoesOf("here", target)
	id := func(cluster string, topic byte, partition, generation int32) int64 {
		return appender.ProducerID(cluster, [16]byte{topic}, partition, generation)
	}
	at := func(base, producer int64) plan.Entry {
		return plan.Entry{Header: batch.Header{BaseOffset: base, LastOffsetDelta: 9, Count: 10, ProducerID: producer}}
	}
	emptied := at(10, id("here", 7, 3, 0))
	emptied.Header.Count = 0
	for name, c := range map[string]struct {
		next int64
		of   []plan.Entry
		want int // entries before the echo; all of them where there is none
	}{
		"of applications":        {0, []plan.Entry{at(0, -1), at(10, 4711)}, 2},
		"from this target":       {0, []plan.Entry{at(0, -1), at(10, id("here", 7, 3, 0)), at(20, -1)}, 1},
		"begun anew":             {0, []plan.Entry{at(0, id("here", 7, 3, echoGenerations-1))}, 0},
		"copied already":         {10, []plan.Entry{at(0, id("here", 7, 3, 0)), at(10, -1)}, 2},
		"copied in part":         {5, []plan.Entry{at(0, id("here", 7, 3, 0)), at(10, -1)}, 0},
		"from another cluster":   {0, []plan.Entry{at(0, id("there", 7, 3, 0))}, 1},
		"from another topic":     {0, []plan.Entry{at(0, id("here", 8, 3, 0))}, 1},
		"from another partition": {0, []plan.Entry{at(0, id("here", 7, 2, 0))}, 1},
		"without records":        {0, []plan.Entry{emptied, at(20, -1)}, 2},
		"of an old format":       {0, []plan.Entry{{Old: true, OldLast: 9}}, 1},
	} {
		got, s := es.before(c.next, c.of)
		if len(got) != c.want || (s != nil) != (c.want < len(c.of)) {
			t.Errorf("%s: %d entries come before %+v, want %d", name, len(got), s, c.want)
		}
	}
	if es := echoesOf("", target); len(es) != 0 {
		t.Errorf("a cluster without an id has the echoes %v", es)
	}
}

// TestDriftEcho: what was copied from the target to the source stays there, and what
// stands before it is copied.
func TestDriftEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 100, 3)
		m.startDrift(t, maps)
		m.mustDrift(t)
		before := len(m.copiesOf())
		m.src.txn(appender.ProducerID("dst", m.dst.id, 0, 0), records(100, 4, "back"), true)
		m.mustHalt(t, state.GoesRound)
		m.stop()
		m.startDrift(t, maps) // a new start finds the same
		m.mustHalt(t, state.GoesRound)
		if n := len(m.copiesOf()); n != before {
			t.Errorf("%d copies, were %d", n, before)
		}
		m.stop()
	})
}
