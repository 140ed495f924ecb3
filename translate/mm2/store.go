package mm2

import (
	"fmt"
	"strings"
)

// slots is how many syncs MirrorMaker 2 keeps per partition
// (OffsetSyncStore.SYNCS_PER_PARTITION).
const slots = 64

// Outcome is how a translation was found.
type Outcome int

// The outcomes.
const (
	// Unknown: there is no sync of the partition, or not all were read yet.
	Unknown Outcome = iota
	// TooOld: all syncs are of later records, so that nothing safe can be said;
	// MirrorMaker 2 says -1.
	TooOld
	// Found: the offset is the copy of the record asked for, or a position behind
	// the copy of an earlier one.
	Found
)

// String returns the outcome's name as in JSON.
func (o Outcome) String() string { return [...]string{"unknown", "too_old", "found"}[o] }

// Translation is a translated source offset. Unless the outcome is Found, the
// numbers mean nothing.
type Translation struct {
	Outcome Outcome
	Offset  int64
	// Up and Down are the sync that it follows from. Where Up is the offset asked
	// for, Offset is Down; else it is Down+1, since what lies between may or may not
	// have been copied.
	Up, Down int64
}

func translate(q, up, down int64) Translation {
	t := Translation{Outcome: Found, Offset: down, Up: up, Down: down}
	if q > up {
		t.Offset = down + 1
	}
	return t
}

// Store is what MirrorMaker 2's checkpoint task knows of one source partition:
// at most 64 syncs, dense for recent records and exponentially sparser before
// (OffsetSyncStore, 3.7 and later). It is not safe for use by several goroutines.
type Store struct {
	slot [slots]entry
	// received numbers syncs, so that the same pair received twice is two.
	received     uint64
	conservative bool
	started      bool
}

// entry is a received sync. Slot i always holds one once any does.
type entry struct {
	up, down int64
	id       uint64
}

// NewStore returns the store of a task that read its earlier checkpoints back, or
// needed none, and so may use all syncs in the topic.
func NewStore() *Store { return &Store{} }

// NewConservativeStore returns the store of a task that could not read its earlier
// checkpoints back: of the syncs before Started it uses the last one only. All
// tasks before 3.7 are like that.
func NewConservativeStore() *Store { return &Store{conservative: true} }

// Started says that all syncs that were there when the task started have been
// added; until then nothing is translated.
func (s *Store) Started() { s.started = true }

// Add inserts the next sync of the topic.
func (s *Store) Add(up, down int64) {
	s.received++
	n := entry{up: up, down: down, id: s.received}
	if s.received == 1 || s.conservative && !s.started || up < s.slot[0].up {
		for i := range s.slot {
			s.slot[i] = n
		}
		return
	}
	s.insert(n)
}

// insert moves syncs to later slots as far as needed for the invariants between
// neighbours. Each slot takes the last one of those before that keeps them.
func (s *Store) insert(n entry) {
	old := s.slot
	s.slot[0] = n
	candidate, r := n, 0
	for p := 1; p < slots; p++ {
		for {
			o := old[r]
			apart := s.apart(s.slot[p-1], o, p-1)
			duplicate := r < slots-1 && o.id == old[r+1].id
			fits := s.recent(s.slot[p-1], o, p-1) && apart && (p == slots-1 || s.apart(o, s.slot[p+1], p))
			if fits {
				candidate = o
			}
			skip := duplicate || !apart
			if fits || skip {
				r++
			}
			if !skip || r >= p {
				break
			}
		}
		if s.recent(s.slot[p-1], s.slot[p], p-1) {
			return
		}
		s.slot[p] = candidate
	}
}

// recent is invariant B between slots i and i+1: later is not further ahead of
// earlier than the slots allow. Beyond the highest offset it holds.
func (*Store) recent(later, earlier entry, i int) bool {
	limit := earlier.up + int64(uint64(1)<<(i+1)) - int64(uint64(1)<<i)
	return later.id == earlier.id || limit < 0 || later.up <= limit
}

// apart is invariant C between slot i and a later one: later is far enough ahead
// of earlier to be worth a slot. Beyond the highest offset it does not hold.
func (*Store) apart(later, earlier entry, i int) bool {
	limit := earlier.up + int64(uint64(1)<<max(i-2, 0))
	return later.id == earlier.id || limit >= 0 && later.up >= limit
}

// Translate answers for a group's committed source offset, which is that of the
// next record to be read.
func (s *Store) Translate(q int64) Translation {
	if !s.started || s.received == 0 {
		return Translation{}
	}
	for _, e := range s.slot {
		if e.up <= q {
			return translate(q, e.up, e.down)
		}
	}
	return Translation{Outcome: TooOld}
}

// String lists the syncs and the slots that they fill.
func (s *Store) String() string {
	if s.received == 0 {
		return "[]"
	}
	var parts []string
	for from := 0; from < slots; {
		e, to := s.slot[from], from
		for to+1 < slots && s.slot[to+1].id == e.id {
			to++
		}
		part := fmt.Sprintf("%d:%d#%d", e.up, e.down, from)
		if to > from {
			part += fmt.Sprintf("-%d", to)
		}
		parts = append(parts, part)
		from = to + 1
	}
	return "[" + strings.Join(parts, " ") + "]"
}
