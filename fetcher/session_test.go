package fetcher

import (
	"math"
	"testing"

	"klink/fetcher/feed"
)

func key(p int32, id byte) sessionKey {
	return sessionKey{feed.Partition{Topic: "orders", Partition: p}, feed.TopicID{id}}
}

func TestSessionEpochs(t *testing.T) {
	x := noSession()
	step := func(name string, id, epoch int32, live bool) {
		t.Helper()
		if x.id != id || x.epoch != epoch || x.live() != live {
			t.Fatalf("%s: id %d, epoch %d, live %v", name, x.id, x.epoch, x.live())
		}
	}
	step("none", 0, -1, false)
	x.answered(0)
	step("none answered", 0, -1, false)
	x.restart()
	step("wanted", 0, 0, false)
	x.answered(0)
	step("no slot at the broker", 0, 0, false)
	x.answered(7)
	step("begun", 7, 1, true)
	x.answered(7)
	step("goes on", 7, 2, true)
	x.epoch = math.MaxInt32
	x.answered(7)
	step("wraps to 1, not 0", 7, 1, true)
	x.restart()
	step("made anew, the old one closed", 7, 0, false)
	x.answered(8)
	x.lost()
	step("unknown to the broker", 0, 0, false)
	x.answered(9)
	x.end()
	step("closed by the next request", 9, -1, false)
	x.answered(0)
	step("closed", 0, -1, false)
}

func TestSessionForgets(t *testing.T) {
	x := noSession()
	x.restart()
	for p := range int32(4) {
		x.adds(key(p, 1))
	}
	x.answered(7)
	x.drops(key(0, 1))
	x.drops(key(1, 1))
	x.drops(key(9, 1)) // never in it
	x.adds(key(1, 1))  // back before the next request: named, not forgotten
	x.drops(key(2, 1))
	x.adds(key(2, 2)) // re-created: the old id goes, the new one comes
	got := x.forgotten()
	if len(got) != 1 || len(got[0].Partitions) != 2 || got[0].TopicID != [16]byte{1} {
		t.Fatalf("got %+v", got)
	}
	if again := x.forgotten(); len(again) != 0 {
		t.Fatalf("forgotten twice: %+v", again)
	}
}
