package fill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"klink/linker/ledger"
)

// turns lets one process at a time act on the cluster. It is a channel, since
// those that wait for it must not keep the bubble's clock from running.
type turns chan struct{}

func (t turns) take() { t <- struct{}{} }
func (t turns) give() { <-t }

// freezer stops a process at its nth step for a while.
type freezer struct {
	turns
	steps, at int
	until     time.Time
}

func (f *freezer) step() {
	f.steps++
	if f.steps-1 == f.at {
		f.give()
		time.Sleep(time.Until(f.until))
		f.take()
	}
}

// TestG3_FrozenOwnerWakes freezes an owner at each of its steps, writes that are
// already past their checks among them, until each moment of its successor's
// fill and beyond. The log is exact, except where a marker lands between the
// successor's last look and its first marker: that costs one offset at most, and
// only as OVERSHOT.
func TestG3_FrozenOwnerWakes(t *testing.T) {
	landed, windows := 0, 0
	for _, runs := range [][]ledger.Run{
		{{Count: 1, Reason: ledger.Marker}},
		{{Count: 2, Reason: ledger.Marker}},
		{{Count: 4, Reason: ledger.Aborted}, {Count: 1, Reason: ledger.Marker}},
		{{Count: 9, Reason: ledger.Compacted}},
	} {
		for step := range 14 {
			for wake := 0; wake <= 12_000; wake += 50 {
				synctest.Test(t, func(t *testing.T) {
					l, w := frozenOwner(t, runs, step, time.Duration(wake)*time.Millisecond+20*time.Microsecond)
					landed, windows = landed+l, windows+w
				})
			}
		}
	}
	if landed == 0 || windows == 0 {
		t.Errorf("%d wakings wrote after the successor began, %d of them in its window: the test sees nothing", landed, windows)
	}
}

// frozenOwner plays one case and returns 1 where the frozen owner wrote after
// its successor began, and 1 where it did so in the successor's window.
func frozenOwner(t *testing.T, runs []ledger.Run, step int, wake time.Duration) (landed, inWindow int) {
	c := newCluster(t, func(string, int) int { return 0 })
	m := newMirror(c, runs)
	start, one := time.Now(), make(turns, 1)
	ice := &freezer{turns: one, at: step, until: start.Add(wake)}
	zombie := &window{turns: one, owner: owner{cluster: c, until: start.Add(2 * time.Second), frozen: ice.step}}
	done := make(chan Result, 1)
	go func() {
		f := Filler{Ports: zombie, Settings: m.set}
		done <- f.Fill(context.Background(), context.Background(), Gap{Expect: c.base, Runs: runs}, Counters{})
	}()
	time.Sleep(3 * time.Second)
	heir := &window{turns: one, owner: owner{cluster: c, until: start.Add(time.Hour)}, flight: 120 * time.Millisecond}
	one.take()
	from := c.end()
	one.give()
	r := Result{End: from}
	if from < m.end {
		f := Filler{Ports: heir, Settings: m.set}
		r = f.Fill(context.Background(), context.Background(), Gap{Expect: from, Runs: rest(runs, from-c.base), Doubt: true}, Counters{})
	}
	if z := <-done; z.Err != nil && (z.Reason != "" || !errors.Is(z.Err, ErrNotAllowed) && !errors.Is(z.Err, ErrMoved)) {
		m.fatal("the frozen owner ended with %q, %v", z.Reason, z.Err)
	}
	time.Sleep(time.Minute)
	for _, w := range zombie.wrote {
		if w.After(start.Add(3 * time.Second)) {
			landed = 1
		}
		if len(heir.wrote) > 0 && w.After(heir.lastLook) && w.Before(heir.wrote[0]) {
			inWindow = 1
		}
	}
	surplus := c.end() - m.end
	switch {
	case inWindow == 0 && (surplus != 0 || r.Err != nil):
		m.fatal("%d too many outside the window; result %+v", surplus, r)
	case surplus > 1 || surplus < 0 || (surplus == 1) != errors.Is(r.Err, ErrOvershot):
		m.fatal("%d too many; result %+v", surplus, r)
	case inWindow == 0:
		m.verify()
	}
	return landed, inWindow
}

// window notes when an owner looked last before its first marker, and when its
// markers reached the broker.
type window struct {
	owner
	turns    turns
	flight   time.Duration
	lastLook time.Time
	wrote    []time.Time
}

func (w *window) Ends(ctx context.Context) (Ends, error) {
	w.turns.take()
	defer w.turns.give()
	e, err := w.owner.Ends(ctx)
	if len(w.wrote) == 0 {
		w.lastLook = time.Now()
	}
	return e, err
}

func (w *window) Write(ctx context.Context, leaderEpoch int32, epochs []int32) Written {
	time.Sleep(w.flight)
	w.turns.take()
	defer w.turns.give()
	r := w.owner.Write(ctx, leaderEpoch, epochs)
	if r.Outcome != NotSent {
		w.wrote = append(w.wrote, time.Now())
	}
	return r
}

func (w *window) Settle(ctx context.Context) error {
	w.turns.take()
	defer w.turns.give()
	return w.owner.Settle(ctx)
}

func (w *window) Reserve(ctx context.Context, n int32) (int32, error) {
	w.turns.take()
	defer w.turns.give()
	return w.owner.Reserve(ctx, n)
}

func (w *window) Allowed() (time.Time, error) {
	w.turns.take()
	defer w.turns.give()
	return w.owner.Allowed()
}
