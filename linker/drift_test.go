package linker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/drift"
	"klink/linker/state"
	"klink/translate/exact"
)

// memMaps keeps maps in memory.
type memMaps struct {
	mu      sync.Mutex // guards all below
	maps    map[MapKey]*exact.Map
	cursors map[MapKey]drift.Position
	puts    int
	fail    error
}

func newMemMaps() *memMaps {
	return &memMaps{maps: map[MapKey]*exact.Map{}, cursors: map[MapKey]drift.Position{}}
}

func (m *memMaps) Map(_ context.Context, k MapKey) (*exact.Map, drift.Position, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.cursors[k]
	if c := m.maps[k]; c != nil {
		return c.Clone(), at, ok, nil
	}
	return &exact.Map{}, at, ok, nil
}

func (m *memMaps) PutMap(_ context.Context, k MapKey, x *exact.Map) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		m.maps[k] = x.Clone()
		m.puts++
	}
	return m.fail
}

func (m *memMaps) PutCursor(_ context.Context, k MapKey, at drift.Position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		m.cursors[k] = at
	}
	return m.fail
}

func (m *memMaps) failing(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// mortal is the view that one process has of the maps: after its death it writes
// nothing.
type mortal struct {
	*memMaps
	mu   sync.Mutex // guards dead
	dead bool
}

var errDead = errors.New("dead")

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) gone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) PutMap(ctx context.Context, k MapKey, x *exact.Map) error {
	if m.gone() {
		return errDead
	}
	return m.memMaps.PutMap(ctx, k, x)
}

func (m *mortal) PutCursor(ctx context.Context, k MapKey, at drift.Position) error {
	if m.gone() {
		return errDead
	}
	return m.memMaps.PutCursor(ctx, k, at)
}

// startDrift runs a fresh loop in checkpoint mode.
func (m *mirror) startDrift(t *testing.T, maps Maps) {
	t.Helper()
	m.made(t)
	m.p.shown.in(Checkpoint)
	m.p.drift = newDrifting(maps, MapKey{Link: "l", Topic: "orders", SourceID: m.src.id}, echoesOf("dst", m.p.dst))
	m.run()
}

// copiesOf are the records that the mirror wrote to its target, by target offset.
func (m *mirror) copiesOf() (out []batch.Record) {
	bs, _, _ := m.dst.from(0, 1<<30)
	for _, b := range bs {
		h, err := batch.ParseHeader(b)
		if err != nil || h.IsControl() || h.ProducerID != appender.ProducerID("src", m.src.id, 0, 0) {
			continue
		}
		for r, err := range batch.Records(b, batch.Limits{}) {
			if err != nil {
				panic(err)
			}
			out = append(out, r.Clone())
		}
	}
	return out
}

// mustDrift waits until all is copied, and holds the copies and the map to the
// source's visible records.
func (m *mirror) mustDrift(t *testing.T) {
	t.Helper()
	for range 10_000 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		r := m.p.shown.report(time.Now())
		m.src.mu.Lock()
		end := m.src.end
		m.src.mu.Unlock()
		if r.State == state.Halted {
			t.Fatalf("%s %s: %s", r.State, r.Reason, r.Detail)
		}
		if r.State == state.Active && r.LagRecords != nil && *r.LagRecords == 0 && *r.SourceEnd == end {
			m.mustBeCopied(t)
			return
		}
	}
	t.Fatalf("never settled: %+v", m.p.shown.report(time.Now()))
}

func (m *mirror) mustBeCopied(t *testing.T) {
	t.Helper()
	want, got := m.src.records(), m.copiesOf()
	if err := sameLogs(unplaced(want), unplaced(got)); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if a := m.p.drift.copies.toTarget(want[i].Offset); a.Kind != exact.Exact || a.Offset != got[i].Offset {
			t.Fatalf("source offset %d lies at %s %d, want %d", want[i].Offset, a.Kind, a.Offset, got[i].Offset)
		}
	}
}

// unplaced are records without their offsets, which differ.
func unplaced(rs []batch.Record) []batch.Record {
	out := make([]batch.Record, len(rs))
	for i, r := range rs {
		r.Offset = 0
		out[i] = r
	}
	return out
}

// foreign writes to the target as others would.
func foreign(l *memLog, r *rand.Rand) {
	if r.IntN(2) == 0 {
		l.write(records(0, 1+r.IntN(3), "foreign"), 0, batch.CodecNone)
	}
}

// TestDriftOracle: whatever the source holds, whoever else writes to the target,
// whatever becomes of single appends, and however often the process dies, every
// visible record is copied once, in order, and the map tells where.
func TestDriftOracle(t *testing.T) {
	for seed := range seeds(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 9))
				m := rig(t, seed)
				m.compacted = seed%2 == 0
				m.target.blind = seed%5 == 0
				if seed%4 > 1 {
					m.source.most = 40
				}
				var mu sync.Mutex
				loss := rand.New(rand.NewPCG(seed, 10))
				m.target.lose = func() memLoss {
					mu.Lock()
					defer mu.Unlock()
					if seed%3 > 0 && loss.IntN(3) == 0 {
						foreign(m.dst, loss)
					}
					return [...]memLoss{deliver, deliver, deliver, deliver, loseReply, loseSend, refuse, replyTwice}[loss.IntN(8)]
				}
				maps := newMemMaps()
				shapes(m.src, r, 20, m.compacted)
				for range 5 {
					process := &mortal{memMaps: maps}
					m.startDrift(t, process)
					shapes(m.src, r, 10, m.compacted)
					foreign(m.dst, r)
					time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
					if r.IntN(3) > 0 {
						process.die()
					}
					m.stop()
				}
				m.target.lose = nil
				m.startDrift(t, maps)
				m.mustDrift(t)
				time.Sleep(2 * cursorEvery)
				m.stop()
				m.mustBeCopied(t)
				on, at, _, _ := maps.Map(t.Context(), m.p.drift.key)
				if fmt.Sprint(runsOf(on)) != fmt.Sprint(runsOf(m.p.drift.copies.clone())) || at.Src != m.p.drift.next {
					t.Errorf("on record %v at %+v, copied %v up to %d", runsOf(on), at, runsOf(m.p.drift.copies.clone()), m.p.drift.next)
				}
			})
		})
	}
}

func runsOf(m *exact.Map) (all []exact.Run) {
	for r := range m.Runs() {
		all = append(all, r)
	}
	return all
}

// TestDriftLostTail: what an unclean election took from the target is copied again.
func TestDriftLostTail(t *testing.T) {
	for _, others := range []int{0, 400} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, maps := rig(t, 1), newMemMaps()
				fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 500, 0)
				m.startDrift(t, maps)
				m.mustDrift(t)
				m.stop()
				m.dst.truncate(250)
				if others > 0 {
					m.dst.write(records(0, others, "foreign"), 0, batch.CodecNone)
				}
				m.startDrift(t, maps)
				m.mustDrift(t)
				m.stop()
			})
		})
	}
}

// TestDriftTwoProcesses: both have the same identity, and the target's sequences let
// no record in twice.
func TestDriftTwoProcesses(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 4))
				m, maps := rig(t, seed), newMemMaps()
				m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
				m.startDrift(t, maps)
				m.mustDrift(t) // the first epoch is on record
				twin := *m
				twin.source = &memSource{log: m.src, rand: rand.New(rand.NewPCG(seed, 5))}
				twin.startDrift(t, maps)
				for range 10 {
					fillLog(m.src, r, 50, 0)
					time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
				}
				m.mustDrift(t)
				twin.mustDrift(t)
				m.stop()
				twin.stop()
			})
		})
	}
}

// TestDriftNothingBeforeItsMap: while the map cannot be put on record nothing is sent.
func TestDriftNothingBeforeItsMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		maps.failing(errors.New("the topic of maps is down"))
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.startDrift(t, maps)
		time.Sleep(time.Minute)
		synctest.Wait()
		if r := m.p.shown.report(time.Now()); r.State != state.TargetUnavailable || r.Reason != string(state.ControlUnwritable) {
			t.Errorf("%s %s: %s", r.State, r.Reason, r.Detail)
		}
		if m.target.appends > 0 {
			t.Error("something was sent")
		}
		maps.failing(nil)
		m.mustDrift(t)
		m.stop()
	})
}

// TestDriftSteadyRun: records that follow one another are one run, which is put on
// record when it begins and with the cursor, and not with every chunk.
func TestDriftSteadyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		m.startDrift(t, maps)
		for i := range 100 {
			m.src.write(records(int64(i), 1, "src"), 0, batch.CodecNone)
			time.Sleep(20 * time.Millisecond)
		}
		m.mustDrift(t)
		if n := m.p.drift.copies.clone().Len(); n != 1 || maps.puts > 2 {
			t.Errorf("%d runs, put %d times", n, maps.puts)
		}
		m.stop()
	})
}

func TestDriftHalts(t *testing.T) {
	begin := func(t *testing.T) (*mirror, *memMaps) {
		m, maps := rig(t, 1), newMemMaps()
		fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 100, 3)
		m.startDrift(t, maps)
		m.mustDrift(t)
		m.stop()
		return m, maps
	}
	for name, c := range map[string]struct {
		spoil  func(m *mirror, maps *memMaps) *memMaps
		reason state.Reason
	}{
		"fenced":                   {func(m *mirror, maps *memMaps) *memMaps { m.dst.fence(5); return maps }, state.Fenced},
		"the source lost its tail": {func(m *mirror, maps *memMaps) *memMaps { m.src.truncate(50); return maps }, state.Diverged},
		"the source deleted too early": {func(m *mirror, maps *memMaps) *memMaps {
			fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 100, 3)
			m.src.delete(150)
			return maps
		}, state.RetentionOverrun},
		"the maps are lost": {func(*mirror, *memMaps) *memMaps { return newMemMaps() }, state.MapLost},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, maps := begin(t)
				maps = c.spoil(m, maps)
				before := len(m.copiesOf())
				m.startDrift(t, maps)
				m.mustHalt(t, c.reason)
				if n := len(m.copiesOf()); n != before {
					t.Errorf("%d copies, were %d", n, before)
				}
				m.stop()
			})
		})
	}
}

// TestDriftUnguarded: where the target forgot the producer, what others wrote is looked
// through, and copying goes on behind it.
func TestDriftUnguarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		old := records(0, 40, "src")
		for i := range old {
			old[i].Timestamp = 1000
		}
		for i := range 4 {
			m.src.write(old[10*i:10*i+10], 0, batch.CodecNone)
		}
		m.startDrift(t, maps)
		m.mustDrift(t)
		m.dst.mu.Lock()
		m.dst.producer = map[int64]memProducer{}
		m.dst.mu.Unlock()
		m.dst.write(records(0, 5, "foreign"), 0, batch.CodecNone)
		time.Sleep(time.Second)
		m.src.write(old[:10], 0, batch.CodecNone)
		m.mustDrift(t)
		if r := m.p.shown.report(time.Now()); len(r.Flags) != 1 {
			t.Errorf("flags %v, want UNGUARDED", r.Flags)
		}
		m.stop()
		if e := m.lineage.Epochs("", "", 0); len(e) != 1 || e[0] != (control.Epoch{}) {
			t.Errorf("lineage %+v", e)
		}
	})
}

// TestDriftGuardedAfterARestart: what was copied a moment ago is not forgotten, though a
// start on a compacted topic reads nothing below the cursor.
func TestDriftGuardedAfterARestart(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, maps := rig(t, 1), newMemMaps()
			m.compacted = compacted
			m.src.write(records(0, 40, "src"), 0, batch.CodecNone)
			for range 2 {
				m.startDrift(t, maps)
				m.mustDrift(t)
				time.Sleep(2 * cursorEvery)
				if r := m.p.shown.report(time.Now()); len(r.Flags) != 0 {
					t.Errorf("compacted %t: flags %v", compacted, r.Flags)
				}
				m.stop()
			}
		})
	}
}

// TestDriftForeignWhileIdle: what others write to an idle target is no fault, and the
// next copy lies behind it.
func TestDriftForeignWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.startDrift(t, maps)
		m.mustDrift(t)
		m.dst.write(records(0, 5, "foreign"), 0, batch.CodecNone)
		m.p.moved <- sight{10, appender.LogEnd{End: 15}}
		synctest.Wait()
		if r := m.p.shown.report(time.Now()); r.State != state.Active || *r.TargetEnd != 15 {
			t.Errorf("%s %s at %d", r.State, r.Reason, *r.TargetEnd)
		}
		m.src.write(records(10, 3, "src"), 0, batch.CodecNone)
		m.mustDrift(t)
		if a := m.p.drift.copies.toTarget(10); a.Offset != 15 {
			t.Errorf("%+v, want 15", a)
		}
		m.stop()
	})
}

// TestDriftLink: a link in checkpoint mode says so, tells where copies lie, stops and
// goes on.
func TestDriftLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, maps := newWorld(), newMemMaps()
		w.add("a", 1, 2)
		begin := func() (*Link, func()) {
			l := w.link(t, "w")
			l.o.Mode, l.o.Maps = Checkpoint, maps
			return l, w.start(t, l)
		}
		l, end := begin()
		got := topicReport(t, l, "a")
		mustBe(t, got, state.Active, "")
		if got.Mode != "checkpoint" || got.Partitions[0].Mode != "checkpoint" || l.Report().Mode != "checkpoint" {
			t.Errorf("modes %q, %q, %q", got.Mode, got.Partitions[0].Mode, l.Report().Mode)
		}
		end()
		l, end = begin()
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if a := l.Translate("a", 1, 4); a.Kind != exact.Exact || a.Offset != 4 {
			t.Errorf("%+v", a)
		}
		if a := l.Translate("b", 0, 4); a.Kind != exact.None {
			t.Errorf("%+v", a)
		}
		if r, ok := l.LastRun("a", 1); !ok || r.SrcEnd() <= 4 || r.Src != r.Dst {
			t.Errorf("%+v, %t", r, ok)
		}
		if _, ok := l.LastRun("a", 9); ok {
			t.Error("copies of a partition that is not there")
		}
		end()
	})
}

// TestDriftHoleAtTheEnd: where a cleaner removed the last records of the source,
// nothing is left to be copied, and no lag.
func TestDriftHoleAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		m.compacted = true
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.src.skip(5)
		m.startDrift(t, maps)
		m.mustDrift(t)
		m.stop()
	})
}

// TestDriftRetentionBehindTheCursor: copies of a process that died before its cursor,
// and that retention took since, are not made again: the target remembers them.
func TestDriftRetentionBehindTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, maps := rig(t, 1), newMemMaps()
		process := &mortal{memMaps: maps}
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.startDrift(t, process)
		m.mustDrift(t)
		process.die()
		m.stop()
		m.dst.write(records(0, 5, "foreign"), 0, batch.CodecNone)
		m.dst.delete(12)
		m.src.write(records(10, 3, "src"), 0, batch.CodecNone)
		m.startDrift(t, maps)
		time.Sleep(time.Minute)
		synctest.Wait()
		m.stop()
		if r := m.p.shown.report(time.Now()); r.State == state.Halted || m.p.drift.next != 13 {
			t.Errorf("%s %s: %s, up to %d", r.State, r.Reason, r.Detail, m.p.drift.next)
		}
		if a := m.p.drift.copies.toTarget(10); a.Kind != exact.Exact || a.Offset != 15 {
			t.Errorf("%+v, want 15", a)
		}
		if n := len(m.copiesOf()); n != 13 {
			t.Errorf("%d copies, want 13", n)
		}
	})
}
