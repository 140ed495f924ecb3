package fetcher

import (
	"testing"
	"time"

	"klink/fetcher/feed"
)

// laneOf returns a lane whose members have so many chunks in hand.
func laneOf(outs ...int) *lane {
	f := &Fetcher{opt: Options{PartitionBytes: DefaultPartitionBytes}, budget: NewBudget(16 << 20)}
	b := &broker{f: f}
	b.long, b.short = newLane(b, nil), newLane(b, nil)
	for n, out := range outs {
		s := newReading(feed.Start{Partition: feed.Partition{Topic: "t", Partition: int32(n)}})
		s.home, s.out = b, out
		b.long.enterLocked(s)
	}
	return b.long
}

// TestPatience: a request waits for company only while no receiver could be
// without work meanwhile.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		outs []int
		far  bool
		want time.Duration
	}{
		"members elsewhere":      {nil, false, readAheadPatience},
		"one without work":       {[]int{2, 0, 2}, false, 0},
		"one with a last chunk":  {[]int{2, 1, 2}, false, readAheadPatience},
		"all with more":          {[]int{2, 2}, false, longPatience},
		"all with more, far off": {[]int{2, 2}, true, readAheadPatience},
		"no room for more":       {[]int{2, 2, 2, 2}, false, 0},
	} {
		l := laneOf(c.outs...)
		for range 8 {
			if c.far {
				l.trips.add(50 * time.Millisecond)
			}
		}
		if got := l.patienceLocked(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestQueuedCountAsWell: what is listed at the broker goes into the next request.
func TestQueuedCountAsWell(t *testing.T) {
	l := laneOf(2, 2)
	s := newReading(feed.Start{})
	s.home, s.ready = l.b, true
	l.b.queue = append(l.b.queue, s)
	if got := l.patienceLocked(); got != 0 {
		t.Errorf("%s beside a queued partition without work", got)
	}
}

// TestReleaseEndsPatience: the last chunk but one, and the last one, wake the lane.
func TestReleaseEndsPatience(t *testing.T) {
	l := laneOf(3)
	s := l.order.Front().Value.(*reading)
	for out, want := range map[int]bool{3: false, 2: true, 1: true} {
		s.out = out
		l.b.f.released(s)
		select {
		case <-l.wake:
			if !want {
				t.Errorf("woken at the release of chunk %d", out)
			}
		default:
			if want {
				t.Errorf("not woken at the release of chunk %d", out)
			}
		}
	}
}
