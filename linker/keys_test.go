package linker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/state"
	"klink/linker/topics"
)

// compact makes a compacted topic of one partition, whose tombstones are kept for
// a day.
func (w *world) compact(name string) *memLog {
	w.add(name, 1, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found[0].Compacted = true
	w.found[0].Traits = topics.Traits{Known: true, Compacts: true, TombstonesFor: 24 * time.Hour}
	return w.src[feed.Partition{Topic: name}]
}

func flagged(r state.Topic) bool {
	return slices.Contains(r.Partitions[0].Flags, state.PossiblyStaleKeys)
}

// TestPossiblyStaleKeys is case C052 and what must not be taken for it: only a
// mirror that comes by a hole more than delete.retention.ms after it was last at
// the source's end may have missed a tombstone.
func TestPossiblyStaleKeys(t *testing.T) {
	for i, c := range []struct {
		name string
		away time.Duration
		// meanwhile is what happens to the source while klink is away.
		meanwhile func(l *memLog)
		// crash: klink does not get to write down anything as it ends.
		crash bool
		want  bool
	}{
		{"a hole after long", 25 * time.Hour, func(l *memLog) { l.skip(3); l.write(records(l.end, 2, "src"), 0, batch.CodecNone) }, false, true},
		{"holes in a batch after long", 25 * time.Hour, func(l *memLog) { l.holed(10, 3, 9) }, false, true},
		{"a hole at the end after long", 25 * time.Hour, func(l *memLog) { l.skip(3) }, false, true},
		{"a hole in time", 23 * time.Hour, func(l *memLog) { l.skip(3); l.write(records(l.end, 2, "src"), 0, batch.CodecNone) }, false, false},
		{"all is still there after long", 25 * time.Hour, func(l *memLog) { l.write(records(l.end, 20, "src"), 0, batch.CodecNone) }, false, false},
		{"transactions after long", 25 * time.Hour, func(l *memLog) { l.txn(7, records(l.end, 3, "t"), false) }, false, false},
		{"nothing happened for long", 25 * time.Hour, func(*memLog) {}, false, false},
		{"a crash, and a hole in time", 21 * time.Hour, func(l *memLog) { l.holed(10, 3, 9) }, true, false},
		{"a crash, and a hole after long", 25 * time.Hour, func(l *memLog) { l.holed(10, 3, 9) }, true, true},
	} {
		if testing.Short() && i%4 != 0 {
			continue // each takes days of ticks
		}
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				src := w.compact("a")
				src.holed(10, 0, 9) // the first copy finds holes as well
				l, end := w.run(t)
				if r := topicReport(t, l, "a"); r.State != state.Active || flagged(r) {
					t.Fatalf("%+v", r)
				}
				time.Sleep(3 * time.Hour)
				recorded, _ := w.Ledger("l", "a", 0)
				end()
				if c.crash {
					if err := w.PutLedger(t.Context(), recorded); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(c.away)
				from := src.end
				c.meanwhile(src)
				l, end = w.run(t)
				r := topicReport(t, l, "a")
				if r.State != state.Active || flagged(r) != c.want {
					t.Errorf("flagged %v: %+v", flagged(r), r)
				}
				src.holed(10, 0, 9) // a hole that it comes by in time
				time.Sleep(time.Minute)
				end()
				rec, _ := w.Ledger("l", "a", 0)
				if (rec.Stale != nil) != c.want || c.want && (rec.Stale.From < from || rec.Stale.End > src.end-10) {
					t.Errorf("recorded %+v", rec.Stale)
				}
				l, end = w.run(t) // it survives restarts
				if r := topicReport(t, l, "a"); flagged(r) != c.want {
					t.Errorf("after a restart: %+v", r)
				}
				end()
			})
		})
	}
}

// TestFirstCopyBeginsOnRecord: how long ago it began is known also after a crash
// at once, however old the records are.
func TestFirstCopyBeginsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.compacted = true
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		time.Sleep(1000 * time.Hour)
		m.start(t)
		m.settle(t)
		m.stop() // nothing else was written down: no link runs
		m.src.holed(10, 0, 9)
		m.start(t)
		m.settle(t)
		if s, _ := m.p.book.staleKeys(); s != nil {
			t.Errorf("%+v", s)
		}
		m.stop()

		// And this is too long for a first copy. What is filled beyond the record
		// counts as passed now.
		time.Sleep(25 * time.Hour)
		m.src.holed(10, 0, 9)
		m.start(t)
		m.settle(t)
		if s, news := m.p.book.staleKeys(); s == nil || !news || s.From != 11 || s.End != 29 || s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		m.stop()
	})
}

// TestStaleKeysWithoutARecord: then the target's last batch tells, and a marker
// does not.
func TestStaleKeysWithoutARecord(t *testing.T) {
	for name, c := range map[string]struct {
		marker bool
		later  time.Duration
		want   bool
	}{
		"data, in time":    {false, 23 * time.Hour, false},
		"data, after long": {false, 25 * time.Hour, true},
		"a marker":         {true, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				m.compacted = true
				m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
				if c.marker {
					m.src.txn(7, records(10, 3, "txn"), true)
				}
				m.start(t)
				m.settle(t)
				m.stop()
				m.records.ledgers = nil
				time.Sleep(c.later)
				m.src.holed(10, 0, 9)
				m.start(t)
				m.settle(t)
				if s, _ := m.p.book.staleKeys(); (s != nil) != c.want {
					t.Errorf("%+v", s)
				}
				m.stop()
			})
		})
	}
}

// TestStaleKeysAreToldOnce, and what another process has on record is kept.
func TestStaleKeysAreToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		src := w.compact("a")
		l, end := w.run(t)
		topicReport(t, l, "a")
		end()
		time.Sleep(48 * time.Hour)
		for range 5 {
			src.holed(10, 0, 9)
		}
		l = w.link(t, "w")
		log := said(l)
		end = w.start(t, l)
		if r := topicReport(t, l, "a"); !flagged(r) {
			t.Errorf("%+v", r)
		}
		rec, _ := w.Ledger("l", "a", 0)
		rec.Stale = &ledger.Stale{From: 2, End: 5}
		if err := w.PutLedger(t.Context(), rec); err != nil {
			t.Error(err)
		}
		end()
		if n := strings.Count(log.String(), "tombstones may have been missed"); n != 1 {
			t.Errorf("told %d times: %s", n, log)
		}
		if rec, _ = w.Ledger("l", "a", 0); rec.Stale.From != 2 || rec.Stale.End != 59 {
			t.Errorf("%+v", rec.Stale)
		}
	})
}

// TestQuietTopicsAreNotRecordedAllTheTime: the time at which a mirror was synced is
// kept, and seldom written down.
func TestQuietTopicsAreNotRecordedAllTheTime(t *testing.T) {
	b := book{keys: keys{compacts: true, tombstonesFor: 24 * time.Hour}}
	start := time.Unix(1_700_000_000, 0)
	if _, due := b.due(control.LedgerRecord{}, start, true); due {
		t.Error("written before it was read")
	}
	b.load(control.LedgerRecord{}, false)
	n := 0
	for at := start; at.Before(start.Add(24 * time.Hour)); at = at.Add(recordEvery) {
		if _, due := b.due(control.LedgerRecord{}, at, false); due {
			n++
		}
	}
	if n != 24 {
		t.Errorf("%d records a day", n)
	}
}
