package comparator

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// scattered makes a map of runs, and the same record by record.
func scattered(rnd *rand.Rand, runs int) (*Copied, map[int64]int64) {
	c, pairs := &Copied{}, map[int64]int64{}
	source, target := rnd.Int64N(3), rnd.Int64N(3)
	for range runs {
		r := Run{Source: source, Target: target, Records: 1 + rnd.Int64N(4)}
		for i := range r.Records {
			pairs[r.Source+i] = r.Target + i
		}
		c.Runs = append(c.Runs, r)
		source, target = r.Source+r.Records+rnd.Int64N(3), r.Target+r.Records+rnd.Int64N(3)
	}
	c.Next = source
	return c, pairs
}

// dumbNext is the pair of the first record at or above an offset, by which of the two.
func dumbNext(pairs map[int64]int64, at int64, bySource bool) (s, d int64, found bool) {
	for source, target := range pairs {
		of := target
		if bySource {
			of = source
		}
		if of >= at && (!found || source < s) {
			s, d, found = source, target, true
		}
	}
	return s, d, found
}

// A map tells the same as a list of every record.
func TestCopiedAgainstEveryRecord(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c, pairs := scattered(rnd, rnd.IntN(8))
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		l := &locator{copies: c}
		for at := range int64(60) {
			_, wantTarget, found := dumbNext(pairs, at, true)
			target, ok := c.target(at)
			if _, copied := pairs[at]; ok != copied || found && target != wantTarget || !found && target != c.targetEnd() {
				t.Fatalf("%+v: source %d: target %d, %t; want %d", c.Runs, at, target, ok, wantTarget)
			}
			wantSource, wantAt, found := dumbNext(pairs, at, false)
			source, ok := c.source(at)
			if hinted, hintedOK := l.source(at); hinted != source || hintedOK != ok {
				t.Fatalf("%+v: target %d: %d, with a hint %d", c.Runs, at, source, hinted)
			}
			if ok != (found && wantAt == at) || found && source != wantSource || !found && source != c.Next {
				t.Fatalf("%+v: target %d: source %d, %t; want %d", c.Runs, at, source, ok, wantSource)
			}
			behind := int64(-1)
			for s, d := range pairs {
				if s < at {
					behind = max(behind, d+1)
				}
			}
			if got := c.behind(at); behind >= 0 && got != behind || behind < 0 && len(c.Runs) > 0 && got != c.Runs[0].Target {
				t.Fatalf("%+v: behind %d: %d, want %d", c.Runs, at, got, behind)
			}
			if copied, ok := c.target(at); len(pairs) > 0 && (!c.reads(copied, at) || !c.reads(c.behind(at), at) || c.reads(copied+1, at) || ok && c.reads(c.behind(at)-1, at)) {
				t.Fatalf("%+v: a group at %d", c.Runs, at)
			}
		}
		l.run = 0
		for at := int64(59); at >= 0; at-- { // a hint is never believed
			a, aOK := c.source(at)
			if b, bOK := l.source(at); a != b || aOK != bOK {
				t.Fatalf("%+v: backwards: target %d: %d and %d", c.Runs, at, a, b)
			}
		}
	}
}

func TestCopiedInDisorder(t *testing.T) {
	for name, runs := range map[string][]Run{
		"empty":         {{0, 0, 0}},
		"source back":   {{5, 0, 2}, {6, 2, 1}},
		"target back":   {{0, 5, 2}, {2, 6, 1}},
		"negative":      {{-1, 0, 1}},
		"beyond offset": {{0, 1, 1<<63 - 1}},
	} {
		if err := (&Copied{Runs: runs}).check(); !errors.Is(err, errMap) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What lies among copies is a duplicate where the mirror wrote it, or where it is equal
// to a copy near by, on whichever side; it belongs to the copy that follows.
func TestStrays(t *testing.T) {
	s := &strays{}
	s.stray(0, 100, false) // equal to a copy that follows
	s.stray(0, 101, false)
	s.copied(0, 1)
	s.copied(1, 100)
	s.stray(5, 1, false) // equal to a copy of before
	s.stray(5, 102, true)
	s.copied(5, 3)
	s.stray(9, 103, false)
	for _, want := range []struct{ upTo, foreign, duplicates int64 }{{4, 1, 1}, {5, 1, 3}, {8, 1, 3}, {9, 2, 3}} {
		if f, d := s.upTo(want.upTo); f != want.foreign || d != want.duplicates {
			t.Errorf("up to %d: %d foreign, %d duplicates", want.upTo, f, d)
		}
	}
	s.copied(20, 103) // that of a place which was counted already
	if f, d := s.upTo(30); f != 1 || d != 4 {
		t.Errorf("%d foreign, %d duplicates", f, d)
	}
	for i := range uint64(3 * strayWindow) {
		s.stray(40, 1000+i, false)
	}
	s.copied(40, 1000) // too far away
	if f, d := s.upTo(40); f != 1+3*strayWindow || d != 4 || len(s.foreign.at) > strayWindow || len(s.recent.at) > strayWindow {
		t.Errorf("%d foreign, %d duplicates, %d and %d kept", f, d, len(s.foreign.at), len(s.recent.at))
	}
}
