package ledger

import "time"

// mostSights bounds the memory of a Sync. When it is full every other sight goes:
// then the mirror counts as behind for a little longer than it was.
const mostSights = 64

// Synced says that the mirror held all offsets below End, and that the source had
// no others at the time As. The zero value says nothing.
type Synced struct {
	As  time.Time `json:"as_of"`
	End int64     `json:"end"`
}

// Sync finds out up to when a mirror is known to hold all that its source had, by
// the clock of whoever tells. The zero value knows of no such time.
type Sync struct {
	synced Synced
	next   int64
	ahead  []Synced // ends of the source beyond next, rising, each when it was seen last
}

// Begin says that the target holds no record yet: it is like a source that had
// nothing.
func (s *Sync) Begin(at time.Time) { *s = Sync{synced: Synced{As: at}} }

// Load goes on from what was recorded.
func (s *Sync) Load(was Synced) { *s = Sync{synced: was, next: was.End} }

// Known reports whether there is a time to reckon from.
func (s *Sync) Known() bool { return !s.synced.As.IsZero() }

// Saw notes the end of the source's log (its last stable offset) as seen at a
// time. One below an earlier one is a broker's slip, and tells nothing.
func (s *Sync) Saw(end int64, at time.Time) {
	n := len(s.ahead)
	switch {
	case n == 0 && end <= s.next && end >= s.synced.End:
		s.synced = Synced{later(s.synced.As, at), end}
	case n > 0 && end == s.ahead[n-1].End:
		s.ahead[n-1].As = later(s.ahead[n-1].As, at)
	case end > s.next && (n == 0 || end > s.ahead[n-1].End):
		s.ahead = append(s.ahead, Synced{at, end})
	}
	if len(s.ahead) <= mostSights {
		return
	}
	kept := s.ahead[:0]
	for i, a := range s.ahead {
		if i%2 == 0 || i == len(s.ahead)-1 {
			kept = append(kept, a)
		}
	}
	s.ahead = kept
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Mirrored notes the target's log end. It may fall, where the target lost its
// tail.
func (s *Sync) Mirrored(next int64) {
	s.next = next
	i := 0
	for i < len(s.ahead) && s.ahead[i].End <= next {
		s.synced = s.ahead[i]
		i++
	}
	s.ahead = append(s.ahead[:0], s.ahead[i:]...)
}

// Synced is what is known now: nothing where the target lost what it held then.
func (s *Sync) Synced() Synced {
	if s.next < s.synced.End {
		return Synced{}
	}
	return s.synced
}
