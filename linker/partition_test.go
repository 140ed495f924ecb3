package linker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sync/semaphore"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/fill"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/topics"
)

// mirror is a partition loop over two memLogs, in virtual time.
type mirror struct {
	src, dst *memLog
	source   *memSource
	target   *memTarget
	lineage  *memLineage
	records  *memRecords
	// compacted says that a cleaner may have run on the source.
	compacted bool
	traits    topics.Traits
	// doubt says that the process before may have left markers on their way.
	doubt    bool
	turn     Turn
	lease    Lease
	policies memPolicies
	p        *partition
	stop     func()
}

// rig makes a mirror that is not running yet.
func rig(t *testing.T, seed uint64) *mirror {
	t.Helper()
	m := &mirror{src: newMemLog(1), dst: newMemLog(2), lineage: &memLineage{}, records: &memRecords{}, turn: alone{}, lease: memLease{}}
	m.source = &memSource{log: m.src, rand: rand.New(rand.NewPCG(seed, 1))}
	m.target = &memTarget{log: m.dst}
	return m
}

// seeds is how many runs of chance a test makes: with -short, which make check uses
// under the race detector, a quarter of them.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 4
	}
	return n
}

// start runs a fresh loop, as a new process would.
func (m *mirror) start(t *testing.T) {
	t.Helper()
	m.made(t)
	m.run()
}

// made makes a fresh loop that does not run yet.
func (m *mirror) made(t *testing.T) {
	t.Helper()
	count, err := newCounters(noop.NewMeterProvider().Meter(""), "l", func() state.Link { return state.Link{} })
	if err != nil {
		t.Fatal(err)
	}
	src := feed.Partition{Topic: "orders"}
	p := &partition{
		link: "l", src: src, srcID: m.src.id,
		dst:      appender.Target{Topic: "orders", ID: m.dst.id},
		identity: batch.Identity{ProducerID: appender.ProducerID("src", m.src.id, 0, 0)},
		limits:   plan.DefaultLimits(),
		source:   m.source, srcReader: memReader{m.src}, dstReader: memReader{m.dst},
		target: m.target, lineage: m.lineage, records: m.records, lease: m.lease, worker: "w", gapWay: plan.FillMarkers, memory: memMemory{}, turn: m.turn, compares: semaphore.NewWeighted(1),
		log: slog.New(slog.DiscardHandler), crowd: newCrowd(slog.New(slog.DiscardHandler)), count: count, guard: 24 * time.Hour,
		confirmed: feed.Unknown, moved: make(chan sight, 1), shown: newShown(0, "w"),
	}
	p.gaps = gaps{doubt: m.doubt, settings: fill.Settings{SettleTime: 2 * time.Second}}
	m.doubt = true // of the next process
	p.pad = padding{policies: m.policies, from: Earliest{}, limit: 1 << 40, codec: batch.CodecLZ4}
	p.book.tombstonesFor = stockTombstones
	p.watch(Found{Compacted: m.compacted, Traits: m.traits})
	m.p = p
}

// run runs the loop.
func (m *mirror) run() {
	p := m.p
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		p.run(ctx, context.Background())
	}()
	m.stop = func() {
		cancel()
		wg.Wait()
		m.source.wg.Wait()
	}
}

// settle waits, in virtual time, until the partition is ACTIVE at the source's
// end or halted.
func (m *mirror) settle(t *testing.T) state.Partition {
	t.Helper()
	for range 10_000 {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		r := m.p.shown.report(time.Now())
		m.src.mu.Lock()
		end := m.src.end
		m.src.mu.Unlock()
		if r.State == state.Halted || (r.State == state.Active && r.TargetEnd != nil && *r.TargetEnd >= end) {
			return r
		}
	}
	t.Fatalf("never settled: %+v", m.p.shown.report(time.Now()))
	return state.Partition{}
}

func (m *mirror) mustBeEqual(t *testing.T) {
	t.Helper()
	if r := m.settle(t); r.State != state.Active {
		t.Fatalf("%s %s: %s", r.State, r.Reason, r.Detail)
	}
	if err := sameLogs(m.src.records(), m.dst.records()); err != nil {
		t.Fatal(err)
	}
}

func (m *mirror) mustHalt(t *testing.T, why state.Reason) state.Partition {
	t.Helper()
	r := m.settle(t)
	if r.State != state.Halted || r.Reason != string(why) {
		t.Fatalf("%s %s: %s; want HALTED %s", r.State, r.Reason, r.Detail, why)
	}
	return r
}

// records makes n records from an offset on; tag tells histories apart.
func records(from int64, n int, tag string) []batch.Record {
	out := make([]batch.Record, n)
	const now = 946_684_800_000 // where the clock of a synctest bubble begins
	for i := range out {
		o := from + int64(i)
		out[i] = batch.Record{Offset: o, Timestamp: now + o%7, Key: []byte(fmt.Sprintf("%s-%d", tag, o)), Value: []byte(tag)}
		switch o % 5 {
		case 0:
			out[i].Value = nil
		case 1:
			out[i].Key, out[i].Value = nil, []byte{}
		case 2:
			out[i].Headers = []batch.RecordHeader{{Key: []byte("h"), Value: nil}, {Key: []byte("h"), Value: []byte{}}}
		}
	}
	return out
}

// fillLog writes n records in batches of random size and codec (not zstd, whose
// library keeps channels that a synctest bubble must not share).
func fillLog(l *memLog, r *rand.Rand, n int, epoch int32) {
	for n > 0 {
		k := min(n, 1+r.IntN(1+r.IntN(30)))
		l.write(records(l.end, k, "src"), epoch, batch.Codec(r.IntN(4)))
		n -= k
	}
}

// TestG3_EveryKindOfLossEndsEqual: whatever becomes of single appends, and
// however often the process starts anew, the target ends as the source's copy.
func TestG3_EveryKindOfLossEndsEqual(t *testing.T) {
	for seed := range seeds(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				m := rig(t, seed)
				var mu sync.Mutex
				loss := rand.New(rand.NewPCG(seed, 3))
				m.target.blind = seed%3 == 0
				m.target.lose = func() memLoss {
					mu.Lock()
					defer mu.Unlock()
					return [...]memLoss{deliver, deliver, deliver, loseReply, loseSend, refuse, replyTwice}[loss.IntN(7)]
				}
				fillLog(m.src, r, 200, 0)
				for life := range 5 {
					m.start(t)
					fillLog(m.src, r, 100, int32(life))
					time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
					m.stop() // in the midst of it
				}
				m.start(t)
				m.mustBeEqual(t)
				m.stop()
			})
		})
	}
}

// TestG3_TwoProcessesOnOnePartition: both have the same identity; the broker's
// sequences serialise them and neither ever puts a record at a wrong offset.
func TestG3_TwoProcessesOnOnePartition(t *testing.T) {
	for seed := range seeds(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 4))
				m := rig(t, seed)
				fillLog(m.src, r, 300, 0)
				m.start(t)
				twin := *m
				twin.source = &memSource{log: m.src, rand: rand.New(rand.NewPCG(seed, 5))}
				twin.start(t)
				for range 10 {
					fillLog(m.src, r, 50, 0)
					time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
				}
				m.mustBeEqual(t)
				twin.mustBeEqual(t)
				m.stop()
				twin.stop()
			})
		})
	}
}

// TestG4_ForeignWriteUnderTraffic: the records behind it are named, and no
// further one is sent.
func TestG4_ForeignWriteUnderTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.start(t)
		m.mustBeEqual(t)
		m.dst.write(records(10, 3, "foreign"), 0, batch.CodecNone)
		m.src.write(records(10, 20, "src"), 0, batch.CodecNone)
		got := m.mustHalt(t, state.ForeignWrite)
		want := "offsets 10 to 12 were written by someone else; klink's records of offset 10 to 29 stand behind them, at 13 to 32"
		if got.Detail != want {
			t.Errorf("detail %q, want %q", got.Detail, want)
		}
		m.src.write(records(30, 5, "src"), 0, batch.CodecNone)
		time.Sleep(time.Minute)
		if n := len(m.dst.records()); n != 33 {
			t.Errorf("%d records on the target, want 33: something was appended after the halt", n)
		}
		m.stop()
		m.start(t) // a restart finds the same
		m.mustHalt(t, state.ForeignWrite)
		m.stop()
	})
}

// TestG4_ForeignWriteWhileIdle: the idle check tells, before and after the
// source has grown past it.
func TestG4_ForeignWriteWhileIdle(t *testing.T) {
	for _, grown := range []int{0, 1, 50} {
		t.Run(fmt.Sprint(grown), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
				m.start(t)
				m.mustBeEqual(t)
				m.dst.write(records(10, 1, "foreign"), 0, batch.CodecNone)
				m.p.moved <- sight{m.src.end, appender.LogEnd{End: m.dst.end}}
				m.mustHalt(t, state.ForeignWrite)
				m.stop()
				m.src.write(records(10, grown+1, "src"), 0, batch.CodecNone)
				m.start(t)
				m.mustHalt(t, state.ForeignWrite)
				m.stop()
			})
		})
	}
}

// TestG4_OtherContent: what the target held before klink came is compared whole.
func TestG4_OtherContent(t *testing.T) {
	cases := []struct {
		name           string
		src, dst       []batch.Record
		reason         state.Reason
		srcStart       int64
		mirroredBefore bool
	}{
		{name: "a prefix is taken over", src: records(0, 50, "src"), dst: records(0, 20, "src")},
		{name: "equal logs", src: records(0, 20, "src"), dst: records(0, 20, "src")},
		{name: "equal length, other content", src: records(0, 20, "src"), dst: records(0, 20, "x"), reason: state.Diverged},
		{name: "the target is longer", src: records(0, 20, "src"), dst: records(0, 21, "src"), reason: state.Diverged},
		{name: "the source is longer, the target another", src: records(0, 50, "src"), dst: records(0, 20, "x"), reason: state.Diverged},
		{name: "one record differs early", src: records(0, 50, "src"), dst: append(records(0, 1, "x"), records(1, 19, "src")...), reason: state.Diverged},
		{name: "nothing in common", src: records(0, 50, "src"), dst: records(0, 20, "src"), srcStart: 30, reason: state.TargetNotEmpty},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				m.src.write(c.src, 0, batch.CodecLZ4)
				m.src.start = c.srcStart
				if len(c.dst) > 0 {
					m.dst.write(c.dst, 0, batch.CodecNone)
				}
				m.start(t)
				if c.reason == "" {
					m.mustBeEqual(t)
				} else {
					m.mustHalt(t, c.reason)
					if n := len(m.dst.records()); n != len(c.dst) {
						t.Errorf("the target grew from %d to %d records", len(c.dst), n)
					}
				}
				m.stop()
			})
		})
	}
}

// TestG3_TargetLosesItsTail: what is left is a prefix, and mirroring goes on
// from its end.
func TestG3_TargetLosesItsTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		fillLog(m.src, rand.New(rand.NewPCG(1, 1)), 500, 0)
		m.start(t)
		m.mustBeEqual(t)
		m.dst.truncate(250)
		m.p.moved <- sight{m.src.end, appender.LogEnd{End: m.dst.end}}
		m.mustBeEqual(t)
		m.stop()
	})
}

// TestG4_FinalFaultsHalt: each kind of final fault gives its reason, and a
// temporary one a state that ends by itself.
func TestG4_FinalFaultsHalt(t *testing.T) {
	for kind, reason := range sourceReasons {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := rig(t, 1)
				var mu sync.Mutex
				told := 0
				m.source.fault = func(p feed.Partition, next int64) *feed.Fault {
					mu.Lock()
					defer mu.Unlock()
					if told++; told == 2 {
						return feed.NewFault(kind, p, next, errors.New("x"))
					}
					return nil
				}
				m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
				m.start(t)
				if kind.Temporary() {
					m.mustBeEqual(t)
				} else {
					m.mustHalt(t, reason)
				}
				m.stop()
			})
		})
	}
}

// TestG4_NewTopicUnheardOf: brokers that have not heard of a topic that was just
// found or made are asked again; one that vanishes later is gone.
func TestG4_NewTopicUnheardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		m.src.write(records(0, 10, "src"), 0, batch.CodecNone)
		m.src.unheard, m.dst.unheard = 3, 5
		m.start(t)
		m.mustBeEqual(t)
		m.dst.mu.Lock()
		m.dst.unheard = 1
		m.dst.mu.Unlock()
		m.p.moved <- sight{m.src.end, appender.LogEnd{End: -1}}
		m.mustHalt(t, state.TargetRecreated)
		m.stop()
	})
}

// TestK3_NoBatchBeforeItsEpoch: while the control topic refuses, nothing is
// appended; afterwards all is.
func TestK3_NoBatchBeforeItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		var mu sync.Mutex
		broken := true
		m.lineage.fail = func() error {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				return errors.New("control topic is down")
			}
			return nil
		}
		m.src.write(records(0, 10, "src"), 3, batch.CodecNone)
		m.start(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if r := m.p.shown.report(time.Now()); r.State != state.TargetUnavailable || r.Reason != string(state.ControlUnwritable) {
			t.Errorf("%s %s, want TARGET_UNAVAILABLE CONTROL_UNWRITABLE", r.State, r.Reason)
		}
		if len(m.dst.records()) != 0 || m.target.appends != 0 {
			t.Error("something was sent before its epoch was recorded")
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		m.mustBeEqual(t)
		if e := m.lineage.Epochs("", "", 0); len(e) != 1 || e[0].Epoch != 3 || e[0].First != 0 {
			t.Errorf("lineage %+v", e)
		}
		m.stop()
	})
}

// TestG4_LastTimestampsOldIsUnguarded: the flag shows while the broker may have
// forgotten the producer.
func TestG4_LastTimestampsOldIsUnguarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := rig(t, 1)
		old := records(0, 10, "src")
		for i := range old {
			old[i].Timestamp = 1000
		}
		m.src.write(old, 0, batch.CodecNone)
		m.start(t)
		m.mustBeEqual(t)
		if r := m.p.shown.report(time.Now()); len(r.Flags) != 1 || r.Flags[0] != "UNGUARDED" {
			t.Errorf("flags %v, want UNGUARDED", r.Flags)
		}
		m.src.write(records(10, 1, "src"), 0, batch.CodecNone)
		m.mustBeEqual(t)
		if r := m.p.shown.report(time.Now()); len(r.Flags) != 0 {
			t.Errorf("flags %v, want none", r.Flags)
		}
		m.stop()
	})
}
