package linker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/linker/control"
	"klink/linker/fill"
	"klink/linker/state"
)

// termLease gives the partition to somebody else and back when it was entered
// often enough; before its time it is not held at all.
type termLease struct {
	memLease
	from      time.Time
	inherited bool

	mu      sync.Mutex // guards all below
	entered int
	change  int // before this entry
	changed time.Time
	first   time.Time // entry
}

func (l *termLease) Held(topic string, partition int32) (time.Time, bool) {
	until, _ := l.memLease.Held(topic, partition)
	return until, !time.Now().Before(l.from)
}

func (l *termLease) Enter(string, int32) (Permit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.from) {
		return nil, false
	}
	l.entered++
	switch l.entered {
	case 1:
		l.first = time.Now()
	case l.change:
		l.changed = time.Now()
	}
	return termPermit{term: l.change > 0 && l.entered >= l.change, inherited: l.inherited}, true
}

type termPermit struct {
	memPermit
	term, inherited bool
}

func (p termPermit) Term() any       { return p.term }
func (p termPermit) Inherited() bool { return p.inherited }

// TestK8_NewAssignments: what former owners may have on its way is waited for
// where a partition changes hands in the middle of a gap, and where it comes for
// the first time from a process that lived beside this one, although data were
// appended in between; not where it comes early, however late its first gap is.
func TestK8_NewAssignments(t *testing.T) {
	const settle = 2 * time.Second // of the rig
	for _, c := range []struct {
		name  string
		after time.Duration // of the first assignment
		alive bool          // whoever had it before
		gap   time.Duration // of the first gap
		entry int           // before which another assignment comes
		waits bool
	}{
		{name: "early"},
		{name: "early, and the gap is late", gap: time.Minute},
		{name: "late", after: time.Minute},
		{name: "from the living", after: 20 * time.Second, alive: true, waits: true},
		{name: "before the first request of a fill", entry: 2, waits: true},
		{name: "between two requests of a fill", entry: 3, waits: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				m.compacted = true
				m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
				l := &termLease{from: time.Now().Add(c.after), inherited: c.alive, change: c.entry}
				m.lease = l
				m.start(t)
				time.Sleep(c.gap)
				m.src.skip(5)
				m.src.write(records(15, 10, "src"), 0, batch.CodecNone)
				m.mustBeEqual(t)
				end := time.Now()
				m.stop()
				since := l.first
				if c.entry > 1 {
					since = l.changed
				}
				if since.IsZero() || (end.Sub(since) >= settle) != c.waits {
					t.Errorf("filled within %s, must wait: %t", end.Sub(since), c.waits)
				}
			})
		})
	}
}

// noTurn fails where somebody asks for the turn.
type noTurn struct{ t *testing.T }

func (n noTurn) Mine(context.Context, string, int32) (string, bool) {
	n.t.Error("a partition takes itself for unguarded")
	return "", false
}

// TestK6_MarkersAreRemembered: where the log begins with a gap, the broker knows
// the producer by the markers there, so that the data behind them wait for no
// other process.
func TestK6_MarkersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.compacted = true
		m.turn = noTurn{t}
		m.src.skip(3)
		m.src.write(records(3, 10, "src"), 0, batch.CodecNone)
		m.start(t)
		m.mustBeEqual(t)
		m.stop()
	})
}

// TestK8_DoubtIsPassedOn: a process that began in doubt and ends before that can
// have settled leaves it to the next one; one that outlives the others of its link
// goes on record again, so that its own end is not taken for an orderly one.
func TestK8_DoubtIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		w.worker = control.WorkerRecord{Link: "l", Worker: "dead"}
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		if r, known := w.Worker("l"); !known {
			t.Error("the doubt is forgotten")
		} else if r.Worker != "w" {
			t.Errorf("%q is on record", r.Worker)
		}
		l, end = w.run(t)
		time.Sleep(fill.DefaultSettings().SettleTime)
		if l.startedClean() {
			t.Error("the process before it did not end in an orderly way")
		}
		end()
		if r, known := w.Worker("l"); known {
			t.Errorf("%q ended in an orderly way and is on record", r.Worker)
		}
	})
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if !l.startedClean() {
			t.Error("another one is seen where there is none")
		}
		other := w.link(t, "later")
		other.store = w
		if err := other.claim(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		other.leave(context.Background(), w)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if r, _ := w.Worker("l"); r.Worker != "w" || l.startedClean() {
			t.Errorf("%q is on record, clean: %t", r.Worker, l.startedClean())
		}
		end()
	})
}
