package ledger

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func hour(h float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h * float64(time.Hour)))
}

func TestMissed(t *testing.T) {
	for _, c := range []struct {
		name string
		was  Synced
		now  float64
		keep time.Duration
		want bool
	}{
		{"in time", Synced{hour(0), 100}, 23, 24 * time.Hour, false},
		{"too late", Synced{hour(0), 100}, 24, 24 * time.Hour, true},
		{"a first copy that is through in time", Synced{hour(0), 0}, 23, 24 * time.Hour, false},
		{"a first copy that took too long", Synced{hour(0), 0}, 25, 24 * time.Hour, true},
		{"nothing is known", Synced{}, 1, 24 * time.Hour, true},
		{"tombstones that are not kept", Synced{hour(0), 100}, 0, 0, true},
		{"tombstones that are kept for ever", Synced{hour(0), 100}, 1e5, 1<<63 - 1, false},
		{"clocks that differ a little", Synced{hour(1), 100}, 0, 24 * time.Hour, false},
		{"clocks that differ by as much", Synced{hour(30), 100}, 0, 24 * time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Missed(c.was, hour(c.now), c.keep); got != c.want {
				t.Errorf("missed: %v", got)
			}
		})
	}
}

func TestSync(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *Sync)
		want Synced
	}{
		{"nothing was seen", func(*Sync) {}, Synced{}},
		{"at the source's end", func(s *Sync) { s.Mirrored(10); s.Saw(10, hour(1)); s.Saw(10, hour(2)) }, Synced{hour(2), 10}},
		{"always a little behind", func(s *Sync) {
			s.Begin(hour(0))
			for i := range 1000 {
				s.Saw(int64(i+10), hour(float64(i)))
				s.Mirrored(int64(i + 9))
			}
		}, Synced{hour(998), 1008}},
		{"an end that stands still counts as long as it was seen", func(s *Sync) { s.Saw(10, hour(1)); s.Saw(10, hour(5)); s.Saw(20, hour(6)); s.Mirrored(15) }, Synced{hour(5), 10}},
		{"behind since the last process ended", func(s *Sync) { s.Load(Synced{hour(1), 10}); s.Mirrored(12); s.Saw(20, hour(9)) }, Synced{hour(1), 10}},
		{"nothing was written meanwhile", func(s *Sync) { s.Load(Synced{hour(1), 10}); s.Mirrored(10); s.Saw(10, hour(9)) }, Synced{hour(9), 10}},
		{"a target that lost its tail", func(s *Sync) { s.Load(Synced{hour(1), 10}); s.Mirrored(8); s.Saw(20, hour(9)) }, Synced{}},
		{"and has it again", func(s *Sync) { s.Load(Synced{hour(1), 10}); s.Mirrored(8); s.Saw(20, hour(9)); s.Mirrored(10) }, Synced{hour(1), 10}},
		{"a broker's slip", func(s *Sync) { s.Load(Synced{hour(1), 10}); s.Mirrored(10); s.Saw(7, hour(9)) }, Synced{hour(1), 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Sync
			c.do(&s)
			if d := cmp.Diff(c.want, s.Synced()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSyncIsNeverTooLate is L5, with more ends ahead than are remembered.
func TestSyncIsNeverTooLate(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s Sync
		var seen []Synced // the dumb memory
		var next, end int64
		for step := range 500 {
			if r.IntN(4) > 0 {
				end += int64(r.IntN(3))
				seen = append(seen, Synced{hour(float64(step)), end})
				s.Saw(end, hour(float64(step)))
				continue
			}
			next = min(end, next+int64(r.IntN(20)))
			s.Mirrored(next)
			var truth time.Time
			for _, at := range seen {
				if at.End <= next {
					truth = at.As
				}
			}
			if got := s.Synced().As; got.After(truth) {
				t.Fatalf("seed %d: %s at offset %d, and it was %s", seed, got, next, truth)
			}
		}
	}
}

func TestStaleJoins(t *testing.T) {
	a, b := &Stale{10, 20, hour(1)}, &Stale{5, 12, hour(3)}
	for _, got := range []*Stale{a.Join(b), b.Join(a)} {
		if d := cmp.Diff(&Stale{5, 20, hour(3)}, got); d != "" {
			t.Error(d)
		}
	}
	var none *Stale
	if none.Join(none) != nil || none.Join(a) != a || a.Join(none) != a {
		t.Error("nowhere is not neutral")
	}
}

// topic is a compacted log with its cleaner, in the plainest way, and a mirror
// of it. A step is an hour, and tombstones are kept for keep of them.
type topic struct {
	log   []entry
	keep  int
	next  int
	keys  map[int]bool // what the mirror's readers see
	sync  Sync
	stale bool
}

type entry struct {
	key             int
	tombstone, gone bool
	horizon         int // -1 before the first pass
}

// clean is a pass of the cleaner over all but the last record.
func (l *topic) clean(now int) {
	last := map[int]int{}
	for i := range max(0, len(l.log)-1) {
		last[l.log[i].key] = i
	}
	for i := range max(0, len(l.log)-1) {
		e := &l.log[i]
		switch {
		case last[e.key] != i:
			e.gone = true
		case e.tombstone && e.horizon < 0:
			e.horizon = now + l.keep
		case e.tombstone && now > e.horizon:
			e.gone = true
		}
	}
}

// mirror reads up to n offsets.
func (l *topic) mirror(now, n int) {
	l.sync.Saw(int64(len(l.log)), hour(float64(now)))
	for ; n > 0 && l.next < len(l.log); n-- {
		e := l.log[l.next]
		switch {
		case e.gone:
			l.stale = l.stale || Missed(l.sync.Synced(), hour(float64(now)), time.Duration(l.keep)*time.Hour)
		case e.tombstone:
			delete(l.keys, e.key)
		default:
			l.keys[e.key] = true
		}
		l.next++
		l.sync.Mirrored(int64(l.next))
	}
}

// TestStaleKeysAreFlagged: whatever a cleaner does and however slow or often away
// a mirror is, a key that lives on in the target alone is flagged; and not every
// mirror is.
func TestStaleKeysAreFlagged(t *testing.T) {
	stale, flagged := 0, 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := &topic{keep: 5 + r.IntN(20), keys: map[int]bool{}}
		for range r.IntN(50) {
			l.log = append(l.log, entry{key: r.IntN(8), tombstone: r.IntN(3) == 0, horizon: -1})
		}
		l.sync.Begin(hour(0))
		speed, away := 1+r.IntN(10), 0
		for now := range 150 {
			if r.IntN(2) == 0 {
				l.log = append(l.log, entry{key: r.IntN(8), tombstone: r.IntN(3) == 0, horizon: -1})
			}
			if r.IntN(5) == 0 {
				l.clean(now)
			}
			switch {
			case away > 0:
				away--
			case r.IntN(60) == 0:
				away = r.IntN(2 * l.keep)
				was := l.sync.Synced()
				l.sync = Sync{}
				l.sync.Load(was) // another process
				l.sync.Mirrored(int64(l.next))
			default:
				l.mirror(now, speed)
			}
		}
		l.mirror(150, len(l.log))
		live := map[int]bool{}
		for _, e := range l.log {
			if e.tombstone {
				delete(live, e.key)
			} else if !e.gone {
				live[e.key] = true
			}
		}
		if !maps.Equal(live, l.keys) {
			stale++
			if !l.stale {
				t.Fatalf("seed %d: not flagged: %v, the source has %v", seed, l.keys, live)
			}
		}
		if l.stale {
			flagged++
		}
	}
	if stale == 0 || flagged == 1500 {
		t.Errorf("%d mirrors are stale, %d flagged: nothing was tried", stale, flagged)
	}
	t.Logf("%d mirrors are stale, %d flagged", stale, flagged)
}
