package state

import (
	"testing"
	"time"
)

func at(sec int) time.Time { return time.Unix(1_700_000_000+int64(sec), 0) }

func TestLag(t *testing.T) {
	type step struct {
		saw, mirrored int64 // -1: not in this step
		at            int
	}
	cases := []struct {
		name    string
		steps   []step
		now     int
		records int64
		seconds float64
	}{
		{"never mirrored, behind since first sight", []step{{100, -1, 0}, {200, -1, 5}}, 10, 200, 10},
		{"caught up is zero", []step{{100, -1, 0}, {-1, 100, 3}}, 60, 0, 0},
		{"the oldest end not mirrored counts", []step{{100, -1, 0}, {200, -1, 5}, {-1, 100, 6}}, 10, 100, 5},
		{"half of an end is not the end", []step{{100, -1, 0}, {-1, 99, 6}}, 10, 1, 10},
		{"a lower end is a slip", []step{{100, -1, 0}, {50, -1, 1}, {-1, 50, 2}}, 10, 50, 10},
		{"never negative", []step{{100, -1, 0}, {-1, 150, 2}}, 10, 0, 0},
		{"a target that lost its tail waits from then", []step{{100, -1, 0}, {-1, 100, 1}, {-1, 60, 7}}, 10, 40, 3},
		{"the same end again is no new sight", []step{{100, -1, 0}, {100, -1, 9}}, 10, 100, 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var l Lag
			for _, s := range c.steps {
				if s.saw >= 0 {
					l.Saw(s.saw, at(s.at))
				}
				if s.mirrored >= 0 {
					l.Mirrored(s.mirrored, at(s.at))
				}
			}
			n, ok := l.Records()
			if !ok || n != c.records {
				t.Errorf("records = %d, %v; want %d", n, ok, c.records)
			}
			s, ok := l.Seconds(at(c.now))
			if !ok || s != c.seconds {
				t.Errorf("seconds = %v, %v; want %v", s, ok, c.seconds)
			}
		})
	}
}

// TestLagUnknownIsNotZero is S3.
func TestLagUnknownIsNotZero(t *testing.T) {
	var l Lag
	l.Mirrored(10, at(0))
	if _, ok := l.Records(); ok {
		t.Error("records are known although no end was seen")
	}
	if _, ok := l.Seconds(at(1)); ok {
		t.Error("seconds are known although no end was seen")
	}
}

// TestLagStaysSmallAndHonest: 10,000 ends are kept in a bounded list that never
// makes the lag look younger than it is.
func TestLagStaysSmallAndHonest(t *testing.T) {
	var l Lag
	for i := range 10_000 {
		l.Saw(int64(i+1), at(i))
	}
	if len(l.samples) > lagSamples+1 {
		t.Errorf("%d samples kept", len(l.samples))
	}
	if s, _ := l.Seconds(at(10_000)); s != 10_000 {
		t.Errorf("seconds = %v, want 10000: the first sighting was dropped", s)
	}
	l.Mirrored(5_000, at(10_000))
	if s, _ := l.Seconds(at(10_000)); s > 5_000 {
		t.Errorf("seconds = %v, want at most 5000", s)
	}
	l.Mirrored(10_000, at(10_000))
	if s, _ := l.Seconds(at(10_000)); s != 0 {
		t.Errorf("seconds = %v after all is mirrored", s)
	}
}
