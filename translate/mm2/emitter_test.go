package mm2

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEmitterTraces goes through what Kafka's class did with the same records.
func TestEmitterTraces(t *testing.T) {
	type step struct {
		up, down int64
		now      bool
	}
	for name, c := range map[string]struct {
		lag   int64
		steps []step
	}{
		"of each rule": {100, []step{{10, 0, true}, {11, 1, false}, {12, 2, false}, {15, 3, true}, {16, 4, false}, {17, 6, false}, {18, 7, false},
			{19, 5, true}, {20, 6, false}, {21, 105, false}, {22, 106, true}, {23, 107, false}}},
		"of Kafka's test": {50, []step{{0, 100, true}, {2, 102, true}, {3, 152, false}, {4, 153, true}, {5, 154, false}, {6, 203, false},
			{7, 204, true}, {2, 206, true}, {3, 207, false}, {4, 3, true}, {5, 4, false}}},
		"no lag":     {0, []step{{0, 0, true}, {1, 1, true}, {2, 2, true}}},
		"lag of one": {1, []step{{0, 0, true}, {1, 1, false}, {2, 2, true}, {3, 3, false}, {4, 4, true}}},
	} {
		e := NewEmitter(c.lag)
		for _, s := range c.steps {
			if now := e.Copied(s.up, s.down); now != s.now {
				t.Errorf("%s: %d:%d at once is %v", name, s.up, s.down, now)
			}
		}
	}
}

func TestEmitterOfAGaplessRow(t *testing.T) {
	e := NewEmitter(LagDefault)
	var got []int64
	for o := range int64(400) {
		if e.Copied(o, o) {
			got = append(got, o)
		}
	}
	want := []int64{0, 101, 202, 303}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v", got)
		}
	}
}

// TestFlushWritesTheLastRecordOnce, and not where it was written already.
func TestFlushWritesTheLastRecordOnce(t *testing.T) {
	e := NewEmitter(100)
	none := func(when string) {
		t.Helper()
		if up, down, ok := e.Flush(); ok {
			t.Errorf("%s: %d:%d", when, up, down)
		}
	}
	none("at the start")
	e.Copied(5, 0)
	none("after one at once")
	e.Copied(6, 1)
	e.Copied(7, 2)
	if up, down, ok := e.Flush(); !ok || up != 7 || down != 2 {
		t.Errorf("%d:%d, %v", up, down, ok)
	}
	none("a second time")
	e.Copied(8, 3)
	e.Copied(20, 4) // a gap: at once, in place of the one that waited
	none("after a gap")
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		up, down int64
		pass     bool
	}{
		{250, 176, false}, {370, 176, false}, {400, 201, false}, {250, 201, false}, {400, 376, true}, {249, 176, true}, {249, 201, true},
	} {
		var f Filter
		at := Checkpoint{Key: Key{Group: "g", Topic: "a.t"}, Up: 250, Down: 201}
		if !f.Pass(at) {
			t.Error("the first is held back")
		}
		next := at
		next.Up, next.Down = c.up, c.down
		if got := f.Pass(next); got != c.pass {
			t.Errorf("%d:%d passes is %v", c.up, c.down, got)
		}
		if f.Pass(next) {
			t.Errorf("%d:%d passes a second time", c.up, c.down)
		}
		other := next
		other.Partition = 1
		if !f.Pass(other) {
			t.Error("another partition is held back")
		}
	}
	var f Filter
	f.Load(Checkpoint{Up: 250, Down: 201})
	if f.Pass(Checkpoint{Up: 300, Down: 201}) {
		t.Error("what was read back does not count")
	}
}

// TestCopiedRun: a run is as good as its records.
func TestCopiedRun(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		lag := int64(r.IntN(40))
		one, all := NewEmitter(lag), NewEmitter(lag)
		var want, got [][2]int64
		up, down := int64(0), int64(5)
		for range 20 {
			count := int64(r.IntN(100))
			for i := range count {
				if one.Copied(up+i, down+i) {
					want = append(want, [2]int64{up + i, down + i})
				}
			}
			all.CopiedRun(up, down, count, func(up, down int64) { got = append(got, [2]int64{up, down}) })
			if !slices.Equal(got, want) || *one != *all {
				t.Fatalf("seed %d: %v and %+v, want %v and %+v", seed, got, *all, want, *one)
			}
			up, down = up+count+int64(r.IntN(3)), down+count+int64(r.IntN(60))
		}
	}
}
