package takeover

import (
	"context"
	"slices"
	"testing"
)

func (w *world) find(t testing.TB, f Facts) Standing {
	t.Helper()
	src, dst := w.logs()
	s, err := Find(context.Background(), f, src, dst)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCleanStop: O1, wherever the offset syncs are.
func TestCleanStop(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"as it is":         func(*world) {},
		"no syncs":         func(w *world) { w.syncs = nil },
		"nothing to go by": func(w *world) { w.syncs, w.commit = nil, Unknown },
		"only the last":    func(w *world) { w.syncs = w.syncs[len(w.syncs)-1:] },
		"no commit":        func(w *world) { w.commit = Unknown },
		"stale commit":     func(w *world) { w.commit = w.src[3].Offset },
		"lying sync":       func(w *world) { w.syncs = append(w.syncs, Sync{w.src[5].Offset, w.dstEnd - 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, 500, 0)
			w.task(300, 0)
			spoil(w)
			s := w.find(t, w.facts())
			if want := w.of[w.dst[len(w.dst)-1].Offset] + 1; s.State != Proven || s.Next != want || s.Doubles != 0 || s.Lost != 0 {
				t.Errorf("%s: next %d, want %d; doubles %d, lost %d: %s", s.State, s.Next, want, s.Doubles, s.Lost, s.Detail)
			}
		})
	}
}

// TestStandings: cases by name.
func TestStandings(t *testing.T) {
	altered := func(w *world) {
		for i := range w.dst {
			w.dst[i].Sum[0]++
		}
	}
	for name, c := range map[string]struct {
		history func(*world)
		facts   func(*Facts)
		state   State
		// next, doubles and lost are checked where they are 0 or more.
		next, doubles, lost int64
	}{
		"nothing copied":     {state: Untouched, next: 7, doubles: 0, lost: 0, history: func(w *world) { w.dstEnd = 0 }},
		"others' records":    {state: Refused, next: -1, history: func(w *world) { w.foreign() }},
		"records altered":    {state: Stale, next: 107, doubles: 0, lost: 0, history: func(w *world) { w.task(100, 0); altered(w) }, facts: func(f *Facts) { f.Syncs = append(f.Syncs, Sync{106, f.Dst.End - 1}) }},
		"altered, crashed":   {state: Stale, next: 87, doubles: -1, history: func(w *world) { w.task(100, 20); altered(w); w.syncs = nil }},
		"source cut off":     {state: Refused, next: -1, history: func(w *world) { w.task(100, 0); altered(w) }, facts: func(f *Facts) { f.Src.End = 50 }},
		"source deleted":     {state: Stale, next: 150, doubles: 0, lost: 43, history: func(w *world) { w.task(100, 0) }, facts: func(f *Facts) { f.Src.Start = 150 }},
		"target deleted":     {state: Stale, next: 107, doubles: -1, history: func(w *world) { w.task(100, 0) }, facts: func(f *Facts) { f.Dst.Start = f.Dst.End }},
		"foreign at the end": {state: Stale, next: 107, doubles: 1, lost: 0, history: func(w *world) { w.task(100, 0); w.foreign() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(0, 0, 0)
			w.dstEnd, w.committed = 0, false
			for at := int64(7); at < 307; at++ {
				w.src = append(w.src, Record{Offset: at, Sum: sumOf(string(rune(at)))})
			}
			w.srcEnd = 307
			c.history(w)
			f := w.facts()
			if c.facts != nil {
				c.facts(&f)
			}
			w.src = slices.DeleteFunc(w.src, func(r Record) bool { return !f.Src.holds(r.Offset) })
			w.dst = slices.DeleteFunc(w.dst, func(r Record) bool { return !f.Dst.holds(r.Offset) })
			s := w.find(t, f)
			if s.State != c.state || c.next >= 0 && s.Next != c.next || c.doubles >= 0 && s.Doubles != c.doubles || c.lost > 0 && s.Lost != c.lost {
				t.Errorf("%s: next %d, doubles %d, lost %d: %s; want %+v", s.State, s.Next, s.Doubles, s.Lost, s.Detail, c)
			}
			if s.State == Stale && s.Doubles < w.doubles(s.Next) && s.Lost == 0 {
				t.Errorf("%d said, %d are", s.Doubles, w.doubles(s.Next))
			}
		})
	}
}

// TestAgainstTruth takes over from many lives of tasks that ended anyhow.
func TestAgainstTruth(t *testing.T) {
	states := map[State]int{}
	for seed := range uint64(300) {
		values := []int{0, 0, 400, 3}[seed%4]
		w := newWorld(seed, 600, values)
		for range 1 + w.rng.IntN(4) {
			w.task(20+w.rng.IntN(150), []int{0, w.rng.IntN(60)}[w.rng.IntN(2)])
			if w.rng.IntN(4) == 0 {
				w.again(1 + w.rng.IntN(10))
			}
			if w.rng.IntN(4) == 0 {
				w.foreign()
			}
		}
		f := w.facts()
		if w.rng.IntN(2) == 0 {
			f.Oldest = w.src[w.rng.IntN(200)].Offset
		}
		if w.rng.IntN(3) == 0 {
			f.Syncs = f.Syncs[w.rng.IntN(len(f.Syncs)):]
		}
		s := w.find(t, f)
		states[s.State]++
		w.check(t, seed, f, s)
		if t.Failed() {
			return
		}
	}
	t.Log(states)
	if states[Proven] < 150 || states[Stale] < 10 {
		t.Errorf("too few of a kind: %v", states)
	}
}

// check holds a standing against what really was copied.
func (w *world) check(t *testing.T, seed uint64, f Facts, s Standing) {
	t.Helper()
	if s.State == Refused {
		t.Errorf("seed %d: refused: %s", seed, s.Detail)
		return
	}
	if said, are := s.Doubles, w.doubles(s.Next); w.values == 0 && len(f.Syncs) == len(w.syncs) && said < are {
		t.Errorf("seed %d: %s: %d doubles said, %d are: %s", seed, s.State, said, are, s.Detail)
	}
	last := w.of[w.dst[len(w.dst)-1].Offset]
	switch s.State {
	case Stale:
		if w.values == 0 && s.Next > w.of[lastCopy(w)]+1 && s.Next > f.Connect+1 {
			t.Errorf("seed %d: goes on at %d, the last copy is of %d", seed, s.Next, last)
		}
		return
	case Proven:
		if w.values == 0 && s.Next != last+1 {
			t.Errorf("seed %d: goes on at %d, the last copy is of %d: %s", seed, s.Next, last, s.Detail)
		}
	}
	got := single(s.Map)
	if w.values == 0 {
		from := got[0].Src
		if s.Floor == 0 {
			from = 0
		}
		if want := w.truth(t, from); !slices.Equal(got, want) {
			t.Errorf("seed %d: map from %d (floor %d) is %v, want %v", seed, from, s.Floor, got, want)
		}
	}
	w.checkEqual(t, seed, s)
}

func lastCopy(w *world) (at int64) {
	for d := range w.of {
		at = max(at, d)
	}
	return at
}

// checkEqual: what the map pairs is equal, and the target's log ends with all source
// records from a point on, in order, that are not aborted.
func (w *world) checkEqual(t *testing.T, seed uint64, s Standing) {
	t.Helper()
	sums := map[int64]Sum{}
	for _, r := range w.src {
		sums[r.Offset] = r.Sum
	}
	copied := map[int64]bool{}
	var first int64 = -1
	dst := map[int64]Sum{}
	for _, r := range w.dst {
		dst[r.Offset] = r.Sum
	}
	for _, r := range single(s.Map) {
		if first < 0 {
			first = r.Src
		}
		copied[r.Src] = true
		if sums[r.Src] != dst[r.Dst] {
			t.Errorf("seed %d: source %d is not target %d", seed, r.Src, r.Dst)
		}
	}
	for _, r := range w.src {
		if r.Offset >= first && r.Offset < s.Next && !r.Aborted && !copied[r.Offset] {
			t.Errorf("seed %d: source %d is left out", seed, r.Offset)
		}
	}
}

// TestDepth: comparing begins no deeper than asked for, and below that nothing is
// told.
func TestDepth(t *testing.T) {
	w := newWorld(4, 20_000, 0)
	w.task(15_000, 0)
	f := w.facts()
	for name, c := range map[string]struct {
		oldest, depth int64
		most          int
	}{
		"no group":         {Unknown, 1_000_000, 2200},
		"one far back":     {w.src[5000].Offset, 1_000_000, 11_000},
		"beyond the depth": {w.src[5000].Offset, 4000, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			f.Oldest, f.Depth = c.oldest, c.depth
			src, dst := w.logs()
			s, err := Find(context.Background(), f, src, dst)
			if err != nil || s.State != Proven || dst.read > c.most || s.Floor == 0 || s.Floor > max(c.oldest, f.Src.End-7000) {
				t.Errorf("%s, %v: %d records read, floor %d of %d", s.State, err, dst.read, s.Floor, c.oldest)
			}
			if r, _ := s.Map.Last(); r.SrcEnd() != s.Next || s.Sequence() != r.SeqEnd() {
				t.Errorf("ends at %+v, goes on at %d with sequence %d", r, s.Next, s.Sequence())
			}
		})
	}
}

// TestCleaned: a cleaner took records from the target that the source still holds.
func TestCleaned(t *testing.T) {
	w := newWorld(5, 400, 0)
	w.task(300, 0)
	w.dst = slices.DeleteFunc(w.dst, func(r Record) bool { return r.Offset < w.dstEnd-50 && r.Offset%3 == 1 })
	f := w.facts()
	f.Oldest = f.Src.Start
	f.Cleaned = true
	s := w.find(t, f)
	if want := w.of[w.dst[len(w.dst)-1].Offset] + 1; s.State != Proven || s.Next != want || s.Walk.Foreign != 0 {
		t.Errorf("%s: next %d, want %d; %d foreign", s.State, s.Next, want, s.Walk.Foreign)
	}
}
