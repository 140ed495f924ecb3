package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klink/linker/intent"
	"klink/linker/state"
)

// promote runs the command until it ends other than by a crash or a failed item.
func (w *world) promote(r Request) (Result, error) {
	for range 12 {
		res, err, died := w.attempt(func() (Result, error) { return w.open("cli").Promote(context.Background(), r) })
		var failed *ItemsFailedError
		switch {
		case died, errors.As(err, &failed), errors.Is(err, ErrUndecided):
			w.pass(300 * time.Millisecond)
		default:
			return res, err
		}
	}
	w.fatal("the promotion never ends")
	return Result{}, nil
}

// checkPromote is what holds after a promotion ended, whichever way.
func (w *world) checkPromote(err error) {
	w.t.Helper()
	var late *LateError
	if errors.As(err, &late) {
		err = nil // all is promoted; the source went on
	}
	w.pass(2 * time.Minute)
	wants := map[intent.Want]int{}
	for _, topic := range w.names() {
		i := w.wants(topic)
		wants[i.Want]++
		if i.Want == intent.Stopped && i.Cause.Verb == intent.Promote {
			cut, ok := w.cuts[topic+"/"+i.Cause.Switch]
			if !ok {
				w.fatal("X1: %s is stopped without a cut", topic)
			}
			if err == nil && (w.forced[topic] == 0 || cut.Unsettled) {
				w.fatal("X9: %s is stopped, its settings set %d times, unsettled %t", topic, w.forced[topic], cut.Unsettled)
			}
		}
	}
	var refused *NotAllowedError
	var beaten *BeatenError
	switch {
	case len(wants) != 1:
		w.fatal("X2: %v", wants)
	case wants[intent.PendingStop] > 0:
		w.fatal("X2: held for ever")
	case err == nil && wants[intent.Stopped] == 0:
		w.fatal("promoted, and not on record")
	case errors.Is(err, ErrRefused) && wants[intent.Mirror] == 0 && wants[intent.Paused] == 0:
		w.fatal("refused with %v, and on record all the same: %v", err, wants)
	case err != nil && !errors.Is(err, ErrRefused) && !errors.As(err, &refused) && !errors.As(err, &beaten):
		w.fatal("ended with %v", err)
	}
}

// TestPromoteWithEveryFaultAtEveryStep: it is promoted with nothing lost, or
// mirrored on.
func TestPromoteWithEveryFaultAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		parts  []string
		budget int
		change func(*world)
	}{
		{"one topic", []string{"a"}, 2, func(*world) {}},
		{"two topics, groups", []string{"a", "a", "b"}, 1, func(w *world) { w.groups, w.pieces[1].src = true, 6 }},
		{"others give commands", []string{"a"}, 2, func(w *world) {
			w.rivals = []intent.Verb{intent.Pause, intent.Resume, intent.Failover}
		}},
		{"no worker", []string{"a"}, 1, func(w *world) { w.worker.alive = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &odometer{budget: faults(c.budget)}
			n, stopped := 0, 0
			synctest.Test(t, func(t *testing.T) {
				for more := true; more; more = o.turn() {
					w := newWorld(t, o.pick, c.parts...)
					c.change(w)
					_, err := w.promote(Request{Timeout: 20 * time.Second})
					var late *LateError
					if err == nil || errors.As(err, &late) {
						stopped++
					}
					w.worker.alive = true // whoever mirrors takes back what is held
					w.checkPromote(err)
					n++
				}
			})
			t.Logf("%d courses, %d promoted", n, stopped)
		})
	}
}

// TestPromoteOnAQuietLink.
func TestPromoteOnAQuietLink(t *testing.T) {
	play(t, []string{"a", "b"}, func(w *world) {
		w.groups = true
		var told []string
		r, err := w.open("cli").Promote(context.Background(), Request{By: "op", Progress: func(s string) { told = append(told, s) }})
		if err != nil || r.Failed > 0 || *r.RecordsLost != 0 || len(w.log) != 2 || len(told) == 0 {
			t.Fatalf("%v: %+v, commands %+v", err, r, w.log)
		}
		pend, stop := w.log[0].Command, w.log[1].Command
		if pend.Verb != intent.Pend || stop.Verb != intent.Promote || pend.Switch != stop.Switch || stop.Fence != 1 || stop.By != "op" || len(stop.Topics) != 2 {
			t.Errorf("commands %+v, %+v", pend, stop)
		}
		for _, p := range w.pieces {
			if len(p.log) != 3 {
				t.Errorf("%s ends at %d: a promotion writes no fence", p.topic, len(p.log))
			}
		}
		w.checkPromote(nil)
	})
}

// TestPromoteWaitsForTheMirror: a lag that ends within the timeout delays it.
func TestPromoteWaitsForTheMirror(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.stops, w.pieces[0].src = true, 5
		time.AfterFunc(5*time.Second, func() {
			defer w.lock()()
			w.worker.stops = false
		})
		begun := time.Now()
		r, err := w.open("cli").Promote(context.Background(), Request{})
		if took := time.Since(begun); err != nil || took < 5*time.Second || took > 8*time.Second || *r.Topics[0].Partitions[0].LastMirrored != 4 {
			t.Errorf("%v after %v: %+v", err, took, r)
		}
	})
}

// TestPromoteInTimeOrNotAtAll: nothing changes, and the numbers are told.
func TestPromoteInTimeOrNotAtAll(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"behind":          {func(w *world) { w.worker.stops, w.pieces[0].src = true, 8 }, "not mirrored before --timeout was over: a/0: 5 records behind the source"},
		"the source gone": {func(w *world) { w.pick = always("source", 1) }, "not mirrored before --timeout was over: the source does not answer"},
		"no worker":       {func(w *world) { w.worker.alive = false }, "workers did not confirm: 2 partitions, such as a/0: its worker w1 was last heard of 3s ago, at 2000-01-01T00:00:00Z"},
		"no group sync":   {func(w *world) { w.wantsGroups = true }, "group offsets"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, []string{"a", "b"}, func(w *world) {
				c.change(w)
				r, err := w.open("cli").Promote(context.Background(), Request{Timeout: 3 * time.Second})
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v", err)
				}
				if len(r.Topics) != 2 || r.Failed != 2 || r.Switch != nil {
					t.Errorf("result %+v", r)
				}
				for _, got := range r.Topics {
					if got.Reason != "" && got.Hint != hintOf(state.Reason(got.Reason)) {
						t.Errorf("hint %q", got.Hint)
					}
					if silent := name == "no worker"; silent != (got.Reason == silentWorker) {
						t.Errorf("topic %+v", got)
					}
				}
				w.worker.alive = true
				w.checkPromote(err)
				for _, p := range w.pieces {
					if p.firstFence() >= 0 || w.forced[p.topic] > 0 {
						t.Errorf("%s was changed", p.topic)
					}
				}
			})
		})
	}
}

// always has one fault at one kind of step.
func always(step string, v int) func(string, int) int {
	return func(s string, _ int) int {
		if s == step {
			return v
		}
		return 0
	}
}

// TestPromoteIsTakenUp: the process died while the mirrors were held.
func TestPromoteIsTakenUp(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.pick = always("cuts", 2)
		if _, _, died := w.attempt(func() (Result, error) { return w.open("one").Promote(context.Background(), Request{}) }); !died {
			t.Fatal("it lives")
		}
		w.pick = quiet
		r, err := w.open("two").Promote(context.Background(), Request{})
		if err != nil || len(w.log) != 2 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "taken up") {
			t.Errorf("%v: notes %q, commands %+v", err, r.Notes, w.log)
		}
	})
}

// TestPromoteThatWasLeftBehindIsTakenBack: nobody mirrored who could have done it.
func TestPromoteThatWasLeftBehindIsTakenBack(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.put(intent.Command{Link: theLink, Number: 1, ID: "x", Verb: intent.Pend, Topics: []string{"a"}, Switch: "old", Wait: time.Second,
			At: time.Now(), By: "gone"}, time.Now())
		w.worker.alive = false
		w.pass(time.Minute)
		w.worker.alive = true
		r, err := w.open("cli").Promote(context.Background(), Request{})
		if err != nil || len(r.Notes) == 0 || !strings.Contains(strings.Join(r.Notes, " "), "gone") {
			t.Errorf("%v: %q", err, r.Notes)
		}
		w.checkPromote(err)
	})
}

// TestPromoteOfTopicsThatOthersHold is refused by name.
func TestPromoteOfTopicsThatOthersHold(t *testing.T) {
	play(t, []string{"a", "b"}, func(w *world) {
		w.put(intent.Command{Link: theLink, Number: 1, ID: "x", Verb: intent.Pend, Topics: []string{"a", "b"}, Switch: "theirs", Wait: time.Minute,
			At: time.Now(), By: "ada@north"}, time.Now())
		_, err := w.open("cli").Promote(context.Background(), Request{Topics: []string{"a"}})
		var refused *NotAllowedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "ada@north") {
			t.Errorf("got %v", err)
		}
	})
}

// TestPromoteGivesUpWithItsCaller and takes the hold back.
func TestPromoteGivesUpWithItsCaller(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		w.wantsGroups = true
		time.AfterFunc(500*time.Millisecond, cancel)
		_, err := w.open("cli").Promote(ctx, Request{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if got := w.wants("a").Want; got != intent.Mirror || len(w.log) != 2 {
			t.Errorf("%s after %+v", got, w.log)
		}
	})
}

// TestPromoteWithoutWriting tells what it would wait for.
func TestPromoteWithoutWriting(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.worker.stops, w.pieces[0].src = true, 8
		r, err := w.open("cli").Promote(context.Background(), Request{DryRun: true})
		if err != nil || !r.DryRun || len(r.Notes) != 1 || *r.RecordsLost != 5 || len(w.log) > 0 {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

// TestPromoteWhileTheControlTopicIsDeaf ends in time, with nothing changed.
func TestPromoteWhileTheControlTopicIsDeaf(t *testing.T) {
	play(t, []string{"a"}, func(w *world) {
		w.deaf = time.Now().Add(time.Hour)
		_, err := w.open("cli").Promote(context.Background(), Request{Timeout: 5 * time.Second})
		if !errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
	})
	play(t, []string{"a"}, func(w *world) { // it falls silent while the mirrors are held, and nobody mirrors
		w.pick = func(step string, _ int) int {
			if step == "cuts" {
				w.deaf, w.worker.alive = time.Now().Add(10*time.Minute), false
			}
			return 0
		}
		_, err := w.open("cli").Promote(context.Background(), Request{})
		if !errors.Is(err, ErrUndecided) || errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
	})
}
