package mm2

import (
	"math/rand/v2"
	"testing"

	"klink/translate/exact"
)

func TestHistoryExamples(t *testing.T) {
	for name, c := range map[string]struct {
		syncs [][2]int64
		want  map[int64]string
	}{
		"none":                      {nil, map[int64]string{5: "empty"}},
		"two":                       {[][2]int64{{100, 200}, {150, 251}}, map[int64]string{99: "-1", 100: "200", 149: "201", 150: "251", 151: "252"}},
		"the target lost its end":   {[][2]int64{{100, 200}, {150, 251}, {200, 210}}, map[int64]string{100: "200", 199: "201", 200: "210", 201: "211"}},
		"the target began anew":     {[][2]int64{{100, 200}, {150, 251}, {200, 10}}, map[int64]string{150: "-1", 199: "-1", 200: "10"}},
		"both went back":            {[][2]int64{{100, 200}, {150, 251}, {20, 210}}, map[int64]string{19: "-1", 20: "210", 100: "211"}},
		"copied again":              {[][2]int64{{0, 0}, {400, 400}, {900, 900}, {1000, 1000}, {981, 1020}}, map[int64]string{450: "401", 950: "901", 980: "901", 981: "1020", 1000: "1021"}},
		"the same copied again":     {[][2]int64{{10, 10}, {20, 20}, {20, 25}}, map[int64]string{15: "11", 20: "25", 21: "26"}},
		"another at the same place": {[][2]int64{{10, 10}, {20, 20}, {30, 20}}, map[int64]string{25: "11", 30: "20"}},
		"the same sync twice":       {[][2]int64{{10, 10}, {10, 10}}, map[int64]string{9: "-1", 10: "10"}},
	} {
		var h History
		for _, s := range c.syncs {
			h.Add(s[0], s[1])
		}
		for q, want := range c.want {
			if got := number(h.Translate(q)); got != want {
				t.Errorf("%s: %d is %s, not %s", name, q, got, want)
			}
		}
		up, down, ok := h.Newest()
		if last := len(c.syncs) - 1; ok != (last >= 0) || ok && [2]int64{up, down} != c.syncs[last] {
			t.Errorf("%s: newest %d:%d, %v", name, up, down, ok)
		}
		if (h.Len() > 0) != ok {
			t.Errorf("%s: %d syncs", name, h.Len())
		}
	}
}

// TestTranslationsAreSafe holds M4 and M5: records are copied with gaps on both
// sides, and now and then the task copies again from further back; whatever syncs
// it writes, no translation skips a copied record, and History is never behind
// Store.
func TestTranslationsAreSafe(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := &world{lag: rng.Int64N(20), store: NewStore()}
		w.store.Started()
		for range 1 + rng.IntN(4) {
			w.task(rng)
			w.check(t, seed)
			w.checkBack(t, seed)
		}
	}
}

// world is one partition: the target offsets at which each source record has its
// last copy, and what was told of them.
type world struct {
	lag     int64
	next    int64
	end     int64
	copies  []pair // the last copy of each source record, both rising
	store   *Store
	history History
}

func (w *world) sync(up, down int64) {
	w.store.Add(up, down)
	w.history.Add(up, down)
}

// task is the life of a source task, from a few records before the last one's end.
func (w *world) task(rng *rand.Rand) {
	e := NewEmitter(w.lag)
	at := max(0, w.next-rng.Int64N(30))
	for range 1 + rng.IntN(200) {
		if rng.IntN(8) == 0 {
			at += rng.Int64N(5)
		}
		if rng.IntN(8) == 0 {
			w.end += rng.Int64N(5)
		}
		for n := len(w.copies); n > 0 && w.copies[n-1].up >= at; n-- {
			w.copies = w.copies[:n-1]
		}
		w.copies = append(w.copies, pair{at, w.end})
		if e.Copied(at, w.end) {
			w.sync(at, w.end)
		}
		if up, down, ok := e.Flush(); ok && rng.IntN(20) == 0 {
			w.sync(up, down)
		}
		at, w.end = at+1, w.end+1
		w.next = max(w.next, at)
	}
}

func (w *world) check(t *testing.T, seed uint64) {
	t.Helper()
	last := int64(-1)
	for q := range w.next + 5 {
		h, s := w.history.Translate(q), w.store.Translate(q)
		if h.Outcome == Found && h.Offset < last {
			t.Fatalf("seed %d: %d leads to %d after %d", seed, q, h.Offset, last)
		}
		if h.Outcome == Found {
			last = h.Offset
			if !w.history.Allows(q, h.Offset) || w.history.Len() > 0 && w.history.Allows(h.Up, h.Down+1) {
				t.Fatalf("seed %d: %+v is not told from what it cannot be", seed, h)
			}
		}
		if s.Outcome == Found && (h.Outcome != Found || h.Offset < s.Offset) {
			t.Fatalf("seed %d: %d is %+v by all syncs, %+v by 64", seed, q, h, s)
		}
		for _, c := range w.copies {
			if c.up >= q && (h.Outcome == Found && c.down < h.Offset || s.Outcome == Found && c.down < s.Offset) {
				t.Fatalf("seed %d: %d is %+v, %+v, and skips the copy %d:%d", seed, q, h, s, c.up, c.down)
			}
		}
	}
}

// checkBack asks for the way back.
func (w *world) checkBack(t *testing.T, seed uint64) {
	t.Helper()
	last := int64(-1)
	for q := range w.end + 5 {
		h := w.history.TranslateBack(q)
		if h.Outcome != Found {
			continue
		}
		if h.Offset < last || h.Offset < h.Up || h.Down > q {
			t.Fatalf("seed %d: %d leads to %+v after %d", seed, q, h, last)
		}
		last = h.Offset
		for _, c := range w.copies {
			if c.down >= q && c.up < h.Offset {
				t.Fatalf("seed %d: %d leads back to %+v, and skips the copy %d:%d", seed, q, h, c.up, c.down)
			}
		}
	}
}

// TestExactIsNeverBehind: what the runs say is never further back than what
// any sampling of them says.
func TestExactIsNeverBehind(t *testing.T) {
	var m exact.Map
	for _, r := range []exact.Run{{Src: 10, Dst: 0, Count: 50}, {Src: 62, Dst: 50, Count: 300, Seq: 50}, {Src: 400, Dst: 360, Count: 40, Seq: 350}} {
		if err := m.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	s, e := NewStore(), NewEmitter(LagDefault)
	s.Started()
	for r := range m.Runs() {
		for i := range r.Count {
			if e.Copied(r.Src+i, r.Dst+i) {
				s.Add(r.Src+i, r.Dst+i)
			}
		}
	}
	for q := range int64(500) {
		if tr, a := s.Translate(q), m.ToTarget(q); tr.Outcome == Found && a.Offset < tr.Offset {
			t.Errorf("%d is %+v by runs, %+v by syncs", q, a, tr)
		}
	}
}
