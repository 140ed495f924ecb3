package comparator

import "sync"

// strayWindow is how many records a duplicate and its copy may be apart that are told
// by being equal alone.
const strayWindow = Lookahead

// strays counts what lies among the copies and is none: duplicates, which the mirror
// wrote (or somebody else, with the same content), and records of others. They belong
// to the place, as an offset of the source, of the copy that follows.
type strays struct {
	mu sync.Mutex // guards all below: a reader counts, and the merge asks
	// open are those of each place from settled on, in order.
	open    []strayPlace
	settled strayPlace
	// recent are the sums of the last copies, and foreign those of the last records of
	// others with the place that counts them: a ring each.
	recent, foreign sumWindow
}

type strayPlace struct{ at, foreign, duplicates int64 }

// sumWindow keeps the last sums, each with a place.
type sumWindow struct {
	ring []sumAt
	at   map[uint64]int64
	next int
}

type sumAt struct {
	sum   uint64
	place int64
}

func (w *sumWindow) add(sum uint64, place int64) {
	if w.at == nil {
		w.at = make(map[uint64]int64)
	}
	if len(w.ring) < strayWindow {
		w.ring = append(w.ring, sumAt{})
	} else if old := w.ring[w.next]; w.at[old.sum] == old.place {
		delete(w.at, old.sum)
	}
	w.ring[w.next] = sumAt{sum, place}
	w.next = (w.next + 1) % strayWindow
	w.at[sum] = place
}

// take returns the place of a sum, and forgets it.
func (w *sumWindow) take(sum uint64) (place int64, ok bool) {
	place, ok = w.at[sum]
	delete(w.at, sum)
	return place, ok
}

// copied notes a copy. A record of others that is equal to it was one as well.
func (s *strays) copied(source int64, sum uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent.add(sum, source)
	if at, ok := s.foreign.take(sum); ok {
		p := s.place(at)
		p.foreign--
		p.duplicates++
	}
}

// stray notes a record that is no copy; next is the place of the copy that follows,
// and own says that the mirror wrote it.
func (s *strays) stray(next int64, sum uint64, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, equal := s.recent.at[sum]; own || equal {
		s.place(next).duplicates++
		return
	}
	s.place(next).foreign++
	s.foreign.add(sum, next)
}

// place is that of an offset; one that was settled is what all those are counted in.
func (s *strays) place(at int64) *strayPlace {
	for i := len(s.open) - 1; i >= 0 && s.open[i].at >= at; i-- {
		if s.open[i].at == at {
			return &s.open[i]
		}
	}
	if n := len(s.open); n > 0 && s.open[n-1].at > at || at <= s.settled.at {
		return &s.settled
	}
	s.open = append(s.open, strayPlace{at: at})
	return &s.open[len(s.open)-1]
}

// upTo counts what belongs to places up to an offset.
func (s *strays) upTo(source int64) (foreign, duplicates int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) > 0 && s.open[0].at <= source {
		s.settled = strayPlace{s.open[0].at, s.settled.foreign + s.open[0].foreign, s.settled.duplicates + s.open[0].duplicates}
		s.open = s.open[1:]
	}
	return s.settled.foreign, s.settled.duplicates
}
