package linker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/state"
)

func TestLinkMirrorsGrowsAndRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		w.add("b", 2, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.add("a", 1, 5) // partitions added at the source
		r := topicReport(t, l, "a")
		mustBe(t, r, state.Active, "")
		if len(r.Partitions) != 5 || *r.Partitions[4].TargetEnd != 10 {
			t.Errorf("partitions %+v", r.Partitions)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		before := w.puts
		w.mu.Unlock()
		time.Sleep(time.Hour)
		w.mu.Lock()
		if w.puts != before {
			t.Errorf("%d states recorded in a quiet hour", w.puts-before)
		}
		if got := w.states["a"].Topic.Partitions; len(got) != 5 || *got[4].TargetEnd != 10 {
			t.Errorf("recorded %+v", got)
		}
		w.mu.Unlock()
		end()
	})
}

// A link is on record as it was applied last, and written no more often than that.
func TestAppliedDefinitionIsOnRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		var applied []time.Time
		for _, definition := range []string{"", "name: l\n", "name: l\n", "name: l\npad_limit: 5\n"} {
			l := w.link(t, "w")
			l.o.Definition = definition
			end := w.start(t, l)
			mustBe(t, topicReport(t, l, "a"), state.Active, "")
			r, _ := w.Link("l")
			if applied = append(applied, r.AppliedAt); r.Definition != definition {
				t.Errorf("%q is on record, %q is applied", r.Definition, definition)
			}
			end()
		}
		if applied[0].Equal(applied[1]) || !applied[1].Equal(applied[2]) || applied[2].Equal(applied[3]) {
			t.Errorf("written at %v", applied)
		}
	})
}

func TestG4_TopicIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("orders", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "orders"), state.Active, "")
		end()

		w.add("orders", 9, 1) // deleted and made again at the source, klink down
		l, end = w.run(t)
		mustBe(t, topicReport(t, l, "orders"), state.Halted, state.SourceRecreated)
		end()

		delete(w.targets, "orders") // the operator deletes the target topic: mirror the new one
		l, end = w.run(t)
		mustBe(t, topicReport(t, l, "orders"), state.Active, "")
		if g := w.records["orders"].Generation; g != 1 {
			t.Errorf("generation %d, want 1", g)
		}
		w.mu.Lock()
		delete(w.targets, "orders") // gone while klink runs: not silently begun anew
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "orders"), state.Halted, state.TargetRecreated)
		end()

		w.targets["orders"] = [16]byte{77} // somebody else made it
		l, end = w.run(t)
		mustBe(t, topicReport(t, l, "orders"), state.Halted, state.TargetRecreated)
		end()
	})
}

func TestOneTopicsTroubleIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		w.add("b", 2, 3)
		w.refuse["b"] = &Trouble{Reason: state.TooFewBrokers, Detail: "1 of 3"}
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		r := topicReport(t, l, "b")
		mustBe(t, r, state.TargetUnavailable, state.TooFewBrokers)
		if len(r.Partitions) != 3 || r.Partitions[2].Hint == "" || r.Partitions[2].TargetEnd != nil {
			t.Errorf("partitions %+v", r.Partitions)
		}
		w.mu.Lock()
		delete(w.refuse, "b")
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "b"), state.Active, "")
		end()
	})
}

// TestTopicTroubleIsToldOnce: it is not over between two looks.
func TestTopicTroubleIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("b", 2, 3)
		w.refuse["b"] = &Trouble{Reason: state.TooFewBrokers, Detail: "1 of 3"}
		var said bytes.Buffer
		l := w.link(t, "w")
		l.log = slog.New(slog.NewTextHandler(&said, nil))
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "b"), state.TargetUnavailable, state.TooFewBrokers)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.mu.Lock()
		delete(w.refuse, "b")
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "b"), state.Active, "")
		end()
		if n := strings.Count(said.String(), "cannot be mirrored"); n != 1 {
			t.Errorf("told %d times", n)
		}
		if n := strings.Count(said.String(), "can be mirrored again"); n != 1 {
			t.Errorf("the end was told %d times", n)
		}
	})
}

func TestG4_ClustersArePinned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		for _, c := range []struct{ src, reason string }{{"OTHER", "CLUSTER_CHANGED"}, {"DST", "CLUSTER_CHANGED"}, {"SRC", ""}} {
			w.mu.Lock()
			w.srcID = c.src
			w.mu.Unlock()
			time.Sleep(2 * discoverEvery)
			synctest.Wait()
			if r := l.Report(); r.Reason != c.reason || (c.reason != "" && r.State != state.Failed) || (c.reason == "" && r.State != state.Active) {
				t.Errorf("source cluster %s: link %s %s", c.src, r.State, r.Reason)
			}
		}
		end()
	})
}

// TestG9_SourceDownAtStart: what the control topic knows is shown, without
// numbers that nobody has seen.
func TestG9_SourceDownAtStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		w.down = &Trouble{Reason: state.Unreachable, Detail: "source: refused"}
		l, end = w.run(t)
		r := topicReport(t, l, "a")
		mustBe(t, r, state.Pending, "")
		if r.Partitions[0].LagRecords != nil {
			t.Error("a lag is shown although the source was never seen")
		}
		if k := l.Report(); k.State != state.Failed || k.Reason != string(state.Unreachable) || k.Hint == "" {
			t.Errorf("link %s %s %q", k.State, k.Reason, k.Hint)
		}
		w.mu.Lock()
		w.down = nil
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
	})
}

// TestAliveTellsAStuckLoop: a call that never comes back shows.
func TestAliveTellsAStuckLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		stuck := make(chan struct{})
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if err := l.Alive(time.Now()); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.block = stuck
		w.mu.Unlock()
		time.Sleep(2 * stuckAfter)
		if err := l.Alive(time.Now()); err == nil {
			t.Error("a discovery that never ends counts as alive")
		}
		close(stuck)
		end()
	})
}

func TestRunEndsOnBrokenInvariantOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		l, err := New(Options{Name: "l", Clusters: w, Catalog: w, Lease: memLease{}, Policies: memPolicies{}, From: Earliest{}, Limits: plan.DefaultLimits(),
			OpenStore: func(context.Context) (Store, *Trouble) { return newer{w}, nil },
			Logger:    slog.New(slog.DiscardHandler), Meter: noop.NewMeterProvider().Meter("")})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(context.Background()); !errors.Is(err, control.ErrNewer) {
			t.Errorf("run ended with %v, want ErrNewer", err)
		}
	})
}

// newer is a store that meets a record of a newer klink.
type newer struct{ *world }

func (newer) Run(context.Context) error {
	return &control.NewerError{Kind: control.KindLink, Version: 9, Known: 1}
}
