package linker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/linker/control"
	"klink/linker/fill"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/workers"
)

// turns is the Turn of one of several processes.
type turns struct {
	mu    *sync.Mutex
	whose *int
	me    int
}

func (t turns) Mine(context.Context, string, int32) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprint(*t.whose), *t.whose == t.me
}

// TestG3_TwinsWhoseProducerIsForgotten: on old records the target forgets the
// producer all the time, so that sequences keep nobody out; whose turn it is
// does.
func TestG3_TwinsWhoseProducerIsForgotten(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 6))
				var mu sync.Mutex
				whose := 1
				m := rig(t, seed)
				old := func(n int) {
					recs := records(m.src.end, n, "src")
					for i := range recs {
						recs[i].Timestamp = 1000
					}
					m.src.write(recs, 0, batch.CodecNone)
				}
				old(100)
				m.turn = turns{&mu, &whose, 1}
				m.start(t)
				twin := *m
				twin.source = &memSource{log: m.src, rand: rand.New(rand.NewPCG(seed, 7))}
				twin.turn = turns{&mu, &whose, 2}
				twin.start(t)
				for range 20 {
					old(1 + r.IntN(50))
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					m.dst.mu.Lock()
					clear(m.dst.producer)
					m.dst.mu.Unlock()
				}
				m.mustBeEqual(t)
				if r := twin.p.shown.report(time.Now()); r.State == state.Halted {
					t.Errorf("the twin halted: %s %s", r.Reason, r.Detail)
				}
				mu.Lock()
				whose = 2 // the other one takes over
				mu.Unlock()
				old(100)
				twin.mustBeEqual(t)
				m.stop()
				twin.stop()
			})
		})
	}
}

// barred is a group that may not be joined.
type barred struct{ memLease }

func (barred) Held(string, int32) (time.Time, bool)     { return time.Time{}, false }
func (barred) Share(string, int32) (none workers.Share) { return none }
func (barred) Trouble() error {
	return &remote.Fault{Op: "join", Reason: state.NoPermission, Err: errLost}
}

// TestTheLastToStartHasTheTurn: where no lease can be had, the record of the control
// topic decides; a process that ends leaves it to nobody, and one that lets a
// partition stand still for half a minute loses it.
func TestTheLastToStartHasTheTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		first := w.link(t, "w")
		first.o.Lease = barred{}
		endFirst := w.start(t, first)
		mustBe(t, topicReport(t, first, "a"), state.Active, "")
		if _, mine := first.Mine(t.Context(), "a", 0); !mine {
			t.Error("alone, and not its turn")
		}
		second := w.link(t, "later")
		second.store, second.o.Lease = w, barred{}
		began := time.Now()
		if err := second.claim(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if _, mine := second.Mine(t.Context(), "a", 0); !mine || time.Since(began) < yieldTime {
			t.Errorf("mine %v after %v: the first must have time to learn of it", mine, time.Since(began))
		}
		if rival, mine := first.Mine(t.Context(), "a", 0); mine || rival != "later" {
			t.Errorf("the first still has the turn, beside %q", rival)
		}
		endFirst()
		if r, _ := w.Worker("l"); r.Worker != "later" {
			t.Error("the end of the first took the other's turn")
		}

		third, endThird := w.run(t)
		synctest.Wait()
		if r, _ := w.Worker("l"); r.Worker != "w" {
			t.Errorf("the turn is %q's", r.Worker)
		}
		mustBe(t, topicReport(t, third, "a"), state.Active, "")
		time.Sleep(fill.DefaultSettings().SettleTime) // else it passes on the doubt it began with
		endThird()
		if r, known := w.Worker("l"); known {
			t.Errorf("%q ended and is still on record", r.Worker)
		}
	})
}

// The broker forgets who wrote old records, so that another process's first batch is
// not refused for its sequence: it waits for the right to append as any later one.
func TestFirstBatchOfOldRecordsNeedsTheTurn(t *testing.T) {
	for _, old := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := rig(t, 1)
			mine := &switched{}
			m.turn = mine
			if old {
				time.Sleep(48 * time.Hour) // the records are of the bubble's beginning
			}
			m.src.write(records(0, 3, "src"), 0, batch.CodecNone)
			m.start(t)
			defer func() { m.stop() }()
			time.Sleep(time.Minute)
			synctest.Wait()
			r := m.p.shown.report(time.Now())
			if waits := r.State == state.TargetUnavailable && r.Reason == string(state.NotOwner) && m.dst.end == 0; waits != old {
				t.Errorf("old %v: %+v", old, r)
			}
			mine.is.Store(true)
			if r := m.settle(t); r.State != state.Active {
				t.Errorf("old %v: %+v", old, r)
			}
		})
	}
}

// switched is a turn that comes later.
type switched struct{ is atomic.Bool }

func (s *switched) Mine(context.Context, string, int32) (string, bool) { return "", s.is.Load() }

// blinded is a store that has not read yet what others wrote.
type blinded struct{ *world }

func (blinded) Worker(string) (r control.WorkerRecord, known bool) { return r, false }

// waiting is a lease that the group has not given to anyone yet.
type waiting struct{ barred }

func (waiting) Trouble() error { return nil }

// TestTwoStartAtOnce: of two that put themselves on record without having seen each
// other neither is alone, so that both wait for the lease.
func TestTwoStartAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		links := []*Link{w.link(t, "one"), w.link(t, "two")}
		for _, l := range links {
			if err := l.claim(t.Context(), blinded{w}); err != nil {
				t.Fatal(err)
			}
			l.store, l.o.Lease = w, waiting{}
		}
		for _, l := range links {
			if alone, _ := l.alone(); alone || l.startedClean() != (l.o.Worker == "one") {
				t.Errorf("%s is alone: %v, started clean: %v", l.o.Worker, alone, l.startedClean())
			}
			if _, mine := l.Mine(t.Context(), "a", 0); mine {
				t.Errorf("%s may append without a lease", l.o.Worker)
			}
		}
	})
}
