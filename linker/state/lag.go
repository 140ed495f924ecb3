package state

import "time"

// lagSamples bounds a Lag's memory; when it is full every other sample goes,
// which coarsens the answer by at most the distance of two samples.
const lagSamples = 64

// Lag turns sightings of a source's end and of the mirrored position into lag
// in records and in time, by the observer's own clock. The zero value knows
// nothing.
type Lag struct {
	samples []sample // ends in rising order, first seen at rising times
	end     int64
	next    int64
	known   bool
}

type sample struct {
	end  int64
	seen time.Time
}

// Saw notes the source's end (exclusive) at a time. An end below an earlier
// one is taken for a broker's slip and does not lower the lag of what was
// seen: a restarted broker reports less for a while.
func (l *Lag) Saw(end int64, at time.Time) {
	if !l.known || end > l.end {
		l.end, l.known = end, true
		if end > l.next {
			l.samples = append(l.samples, sample{end, at})
		}
	}
	if len(l.samples) > lagSamples {
		kept := l.samples[:0]
		for i, s := range l.samples {
			if i%2 == 0 || i == len(l.samples)-1 {
				kept = append(kept, s)
			}
		}
		l.samples = kept
	}
}

// Mirrored notes the target's log end. An end that fell back (the target lost
// its tail) starts a new wait at the given time.
func (l *Lag) Mirrored(next int64, at time.Time) {
	l.next = next
	i := 0
	for i < len(l.samples) && l.samples[i].end <= next {
		i++
	}
	l.samples = append(l.samples[:0], l.samples[i:]...)
	if len(l.samples) == 0 && l.known && l.end > next {
		l.samples = append(l.samples, sample{l.end, at})
	}
}

// Reset forgets the source's end, for a position that was read anew.
func (l *Lag) Reset() { *l = Lag{next: l.next} }

// Records returns the records between the target's end and the source's; ok is
// false where the source's end was never seen.
func (l *Lag) Records() (n int64, ok bool) { return max(0, l.end-l.next), l.known }

// Seconds returns how long the oldest record not yet mirrored has been known,
// 0 where there is none.
func (l *Lag) Seconds(now time.Time) (s float64, ok bool) {
	if !l.known {
		return 0, false
	}
	if l.end <= l.next || len(l.samples) == 0 {
		return 0, true
	}
	return max(0, now.Sub(l.samples[0].seen).Seconds()), true
}
