package fetcher

import (
	"testing"
	"time"
)

func TestTrips(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		took []time.Duration
		want bool
	}{
		"none":              {nil, false},
		"too few":           {[]time.Duration{50 * ms, 50 * ms, 50 * ms}, false},
		"far":               {[]time.Duration{50 * ms, 51 * ms, 90 * ms, 50 * ms}, true},
		"near, and busy":    {[]time.Duration{300 * ms, 2 * ms, 40 * ms, 80 * ms}, false},
		"near, long ago":    {[]time.Duration{ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms}, true},
		"near, just lately": {[]time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, 50 * ms, ms}, false},
	} {
		var x trips
		for _, d := range c.took {
			x.add(d)
		}
		if x.far() != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// TestSizeOfARequest: a request is as large as its partitions need, up to a
// quarter of the budget, and takes half of it where each one costs a long round
// trip.
func TestSizeOfARequest(t *testing.T) {
	f := &Fetcher{opt: Options{PartitionBytes: DefaultPartitionBytes}, budget: NewBudget(16 << 20)}
	b := &broker{f: f}
	l := newLane(b, nil)
	for _, c := range []struct {
		backlog int
		far     bool
		want    int64
	}{
		{0, false, leastBytes}, {1, false, leastBytes}, {2, false, 2 << 20}, {100, false, 4 << 20},
		{0, true, leastBytes}, {1, true, 8 << 20}, {100, true, 8 << 20},
	} {
		l.backlog, l.trips = c.backlog, trips{}
		if c.far {
			for range 4 {
				l.trips.add(50 * time.Millisecond)
			}
		}
		if want, least := l.sizeLocked(); want != c.want || least != leastBytes {
			t.Errorf("%+v: %d, at least %d", c, want, least)
		}
	}
}
