package linker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// promptly is how soon an order has to be obeyed.
const promptly = 100 * time.Millisecond

// soonReport gives an order the time it may take and returns a topic's report.
func soonReport(t *testing.T, l *Link, name string) state.Topic {
	t.Helper()
	time.Sleep(promptly)
	synctest.Wait()
	for _, r := range l.Report().Topics {
		if r.SourceTopic == name {
			return r
		}
	}
	t.Fatalf("no topic %s in %+v", name, l.Report())
	return state.Topic{}
}

// more writes records to a source partition of a world.
func (w *world) more(topic string, partition int32, n int) {
	l := w.log(w.src, feed.Partition{Topic: topic, Partition: partition})
	l.write(records(l.end, n, topic), 0, batch.CodecNone)
}

// recordedState is what is on record of a topic.
func (w *world) recordedState(topic string) state.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states[topic].Topic.State
}

// targetEnd is the log end of a target partition.
func (w *world) targetEnd(topic string, partition int32) int64 {
	l := w.log(w.dst, feed.Partition{Topic: topic, Partition: partition})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// TestG9_OrdersAreObeyed: each order is carried out at once, shown with who gave
// it, acknowledged with the ends, and undone by its opposite.
func TestG9_OrdersAreObeyed(t *testing.T) {
	for _, c := range []struct {
		order, undo intent.Command
		want        state.State
		detail      string
	}{
		{intent.Command{Verb: intent.Pause, Topics: []string{"a"}}, intent.Command{Verb: intent.Resume, Topics: []string{"a"}},
			state.Paused, "paused by ann@desk at 2000-01-01T00:00:10Z (command 1)"},
		{intent.Command{Verb: intent.Pause}, intent.Command{Verb: intent.Resume},
			state.Paused, "the link was paused by ann@desk at 2000-01-01T00:00:10Z (command 1)"},
		{intent.Command{Verb: intent.Pend, Topics: []string{"a"}, Switch: "s", Wait: time.Hour}, intent.Command{Verb: intent.Resume, Topics: []string{"a"}},
			state.PendingStopped, "stopped for a promotion (1h0m0s at most) by ann@desk at 2000-01-01T00:00:10Z (command 1)"},
		{intent.Command{Verb: intent.Remove, Topics: []string{"a"}}, intent.Command{},
			state.Removed, "removed by ann@desk at 2000-01-01T00:00:10Z (command 1)"},
	} {
		t.Run(string(c.order.Verb)+fmt.Sprint(c.order.Topics), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 1, 2)
				l, end := w.run(t)
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				w.give(t, c.order)
				r := soonReport(t, l, "a")
				mustBe(t, r, c.want, "")
				if r.Detail != c.detail || r.Hint == "" || len(r.Partitions) != 2 || *r.Partitions[1].TargetEnd != 10 {
					t.Errorf("%+v", r)
				}
				if recorded := w.recordedState("a"); c.want != state.Removed && recorded != c.want {
					t.Errorf("%s is on record", recorded)
				}
				ack := w.lastAck("a", "w")
				if len(ack.Partitions) != 2 || ack.Number != 1 || ack.Partitions[1] != (control.Acked{Partition: 1, End: 10, Wrote: true}) {
					t.Errorf("acknowledged %+v", ack)
				}
				w.more("a", 0, 5)
				mustBe(t, topicReport(t, l, "a"), c.want, "")
				if n := w.targetEnd("a", 0); n != 10 {
					t.Fatalf("the target grew to %d", n)
				}
				if c.undo.Verb != "" {
					w.give(t, c.undo)
					mustBe(t, soonReport(t, l, "a"), state.Active, "")
					if n := w.targetEnd("a", 0); n != 15 {
						t.Errorf("the target ends at %d", n)
					}
				}
				end()
			})
		})
	}
}

// TestG5_OrdersSurviveRestarts: a process that starts reads them before it touches
// anything, whether or not the source is there; and it knows of its topics.
func TestG5_OrdersSurviveRestarts(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprint("source down: ", down), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 1, 2)
				w.add("b", 2, 1)
				l, end := w.run(t)
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				w.give(t, intent.Command{Verb: intent.Pause, Topics: []string{"a"}})
				mustBe(t, soonReport(t, l, "a"), state.Paused, "")
				end()
				w.more("a", 1, 5)
				w.more("b", 0, 5)
				prepared := w.prepares("a")
				if down {
					w.down = &Trouble{Reason: state.Unreachable, Detail: "source: refused"}
				}
				l, end = w.run(t)
				r := topicReport(t, l, "a")
				mustBe(t, r, state.Paused, "")
				if p := r.Partitions[1]; *p.TargetEnd != 10 || *p.SourceEnd != 10 || p.LagRecords != nil {
					t.Errorf("%+v", p)
				}
				if !down {
					mustBe(t, topicReport(t, l, "b"), state.Active, "")
				}
				if n := w.targetEnd("a", 1); n != 10 || w.prepares("a") != prepared {
					t.Errorf("the paused topic was touched: end %d", n)
				}
				w.mu.Lock()
				w.down = nil
				w.mu.Unlock()
				w.give(t, intent.Command{Verb: intent.Resume, Topics: []string{"a"}})
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				if n := w.targetEnd("a", 1); n != 15 {
					t.Errorf("the target ends at %d", n)
				}
				end()
			})
		})
	}
}

// TestG4_StoppedStaysStopped: whatever happens, and whoever starts again; only an
// order to mirror anew leads on, into another target topic.
func TestG4_StoppedStaysStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Failover, Topics: []string{"a"}, Switch: "s", Fence: 1})
		r := soonReport(t, l, "a")
		mustBe(t, r, state.Stopped, "")
		if !strings.HasPrefix(r.Detail, "failed over by ann@desk") {
			t.Error(r.Detail)
		}
		w.more("a", 0, 5)
		end()
		l, end = w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Stopped, "")
		if n := w.targetEnd("a", 0); n != 10 {
			t.Fatalf("the target grew to %d", n)
		}
		w.give(t, intent.Command{Verb: intent.Reverse, Topics: []string{"a"}, Next: "back"})
		r = soonReport(t, l, "a")
		mustBe(t, r, state.Stopped, "")
		if !strings.Contains(r.Detail, `link "back" mirrors the other way`) {
			t.Error(r.Detail)
		}
		w.give(t, intent.Command{Verb: intent.Recreate, Topics: []string{"a"}})
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused) // the old one is there still
		w.mu.Lock()
		delete(w.targets, "a")
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if n := w.targetEnd("a", 0); n != 15 || w.records["a"].Generation != 1 {
			t.Errorf("the target ends at %d, %+v", n, w.records["a"])
		}
		end()
	})
}

// TestFenceReadsAsStopped: a worker that meets the fence before it reads the order
// halts, and shows what it was once it has.
func TestFenceReadsAsStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		log := w.log(w.dst, feed.Partition{Topic: "a"})
		log.fence(1)
		w.more("a", 0, 1)
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.Fenced)
		w.give(t, intent.Command{Verb: intent.Failover, Topics: []string{"a"}, Switch: "s", Fence: 1})
		r := soonReport(t, l, "a")
		mustBe(t, r, state.Stopped, state.Fenced)
		if !strings.HasPrefix(r.Detail, "failed over by ann@desk") {
			t.Error(r.Detail)
		}
		end()
	})
}

// TestFenceIsNoDivergence: a fence takes an offset at which the source may have a
// record by now; what is found there is the fence all the same.
func TestFenceIsNoDivergence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		w.log(w.dst, feed.Partition{Topic: "a"}).fence(1)
		w.more("a", 0, 5)
		l, end = w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.Fenced)
		end()
	})
}

// TestG4_LostControlTopicIsNotGuessed: what a klink wrote is not gone on with when
// nothing is on record of it; a fence tells by itself.
func TestG4_LostControlTopicIsNotGuessed(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			w := newWorld()
			w.add("a", 1, 1)
			l, end := w.run(t)
			mustBe(t, topicReport(t, l, "a"), state.Active, "")
			end()
			want := state.NotAdopted
			if fenced {
				w.log(w.dst, feed.Partition{Topic: "a"}).fence(1)
				want = state.Fenced
			}
			w.lineage, w.records = map[feed.Partition]*memLineage{}, map[string]control.TopicRecord{}
			w.more("a", 0, 5)
			for range 2 { // nor by the next one
				l, end = w.run(t)
				mustBe(t, topicReport(t, l, "a"), state.Halted, want)
				end()
			}
			if n := len(w.log(w.dst, feed.Partition{Topic: "a"}).records()); n != 10 {
				t.Errorf("the target grew to %d records", n)
			}
		})
	}
}

// lostStore is a control topic that is deleted while the link runs.
type lostStore struct{ *world }

func (lostStore) Run(context.Context) error {
	time.Sleep(time.Minute)
	return fmt.Errorf("read __klink: %w", control.ErrLost)
}

// TestLostControlTopicIsNamed: a link that ends says which one it was, and what goes on.
func TestLostControlTopicIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l := w.link(t, "w")
		l.o.OpenStore = func(context.Context) (Store, *Trouble) { return lostStore{w}, nil }
		err := l.Run(context.Background())
		w.sources.Wait()
		if !errors.Is(err, control.ErrLost) || !strings.HasPrefix(err.Error(), "link l: its control topic __klink: ") || !strings.Contains(err.Error(), "klink adopt") {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestAcknowledgementIsMadeUpFor: what stood in its way is outlived.
func TestAcknowledgementIsMadeUpFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.ordMu.Lock()
		w.ackErr = errors.New("control topic is down")
		w.ordMu.Unlock()
		w.give(t, intent.Command{Verb: intent.Pause, Topics: []string{"a"}})
		mustBe(t, soonReport(t, l, "a"), state.Paused, "")
		w.ordMu.Lock()
		w.ackErr = nil
		w.ordMu.Unlock()
		time.Sleep(2 * obeyAgain)
		synctest.Wait()
		if ack := w.lastAck("a", "w"); len(ack.Partitions) != 1 {
			t.Errorf("acknowledged %+v", ack)
		}
		end()
	})
}

// TestOrdersAreToldOnce: with the command and who gave it.
func TestOrdersAreToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 3)
		var said bytes.Buffer
		l := w.link(t, "w")
		l.log = slog.New(slog.NewTextHandler(&said, nil))
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Pause, Topics: []string{"a"}})
		time.Sleep(time.Minute)
		w.give(t, intent.Command{Verb: intent.Resume, Topics: []string{"a"}})
		time.Sleep(time.Minute)
		w.give(t, intent.Command{Verb: intent.Pause})
		time.Sleep(time.Minute)
		end()
		for _, want := range []string{`msg="topic PAUSED" topic=a command=1 verb=pause by=ann@desk`,
			`msg="topic is mirrored again" topic=a was=PAUSED command=2 verb=resume by=ann@desk`,
			`msg="link PAUSED" command=3 verb=pause by=ann@desk`} {
			if n := strings.Count(said.String(), want); n != 1 {
				t.Errorf("%q is said %d times in\n%s", want, n, said.String())
			}
		}
	})
}

// TestLinkPauseHoldsNewTopics: what is found while the link is paused is shown, and
// not made on the target.
func TestLinkPauseHoldsNewTopics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Pause})
		if r := l.Report(); soonReport(t, l, "a").State != state.Paused {
			t.Errorf("link %s", r.State)
		}
		if r := l.Report(); r.State != state.Paused || r.Hint == "" {
			t.Errorf("link %s %s", r.State, r.Detail)
		}
		w.add("b", 2, 2)
		mustBe(t, topicReport(t, l, "b"), state.Paused, "")
		if n := w.prepares("b"); n != 0 {
			t.Errorf("prepared %d times", n)
		}
		w.give(t, intent.Command{Verb: intent.Resume})
		mustBe(t, topicReport(t, l, "b"), state.Active, "")
		if r := l.Report(); r.State != state.Active || r.Hint != "" || r.Detail != "" {
			t.Errorf("link %s %s", r.State, r.Detail)
		}
		end()
	})
}

// TestOrderCutsALookShort: a look at the topics that hangs holds no order up, and
// nothing that it began goes on after the acknowledgement.
func TestOrderCutsALookShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.mu.Lock()
		w.hang = true
		w.mu.Unlock()
		time.Sleep(discoverEvery)
		w.give(t, intent.Command{Verb: intent.Pause, Topics: []string{"a"}})
		time.Sleep(roundPatience + promptly)
		synctest.Wait()
		if ack := w.lastAck("a", "w"); ack.Number != 1 {
			t.Errorf("not acknowledged while a look hangs")
		}
		w.mu.Lock()
		w.hang = false
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "a"), state.Paused, "")
		if r := l.Report(); r.State != state.Active {
			t.Errorf("link %s %s", r.State, r.Detail)
		}
		end()
	})
}

// TestAcknowledgedOnce: a process that starts has nothing to add to what others
// acknowledged, and does not wait for a target that is gone.
func TestAcknowledgedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Failover, Topics: []string{"a"}, Switch: "s", Fence: 1})
		mustBe(t, soonReport(t, l, "a"), state.Stopped, "")
		end()
		later := w.link(t, "later")
		end = w.start(t, later)
		mustBe(t, topicReport(t, later, "a"), state.Stopped, "")
		if ack := w.lastAck("a", "later"); ack.Number != 0 {
			t.Errorf("acknowledged again: %+v", ack)
		}
		w.mu.Lock()
		delete(w.targets, "a")
		w.mu.Unlock()
		w.give(t, intent.Command{Verb: intent.Remove, Topics: []string{"a"}})
		mustBe(t, soonReport(t, later, "a"), state.Removed, "")
		if ack := w.lastAck("a", "later"); ack.Number != 2 || len(ack.Partitions) != 0 {
			t.Errorf("acknowledged %+v", ack)
		}
		end()
	})
}

// TestUnfencedIsFlagged: while the cut of a failover says so.
func TestUnfencedIsFlagged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 3)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.give(t, intent.Command{Verb: intent.Failover, Topics: []string{"a"}, Switch: "s", Fence: 1})
		flags := func() (all []string) {
			for _, p := range soonReport(t, l, "a").Partitions {
				all = append(all, strings.Join(p.Flags, " "))
			}
			return all
		}
		for _, unfenced := range []bool{true, false} {
			w.ordMu.Lock()
			w.cuts = []control.CutRecord{{Topic: "a", Switch: "other", Partitions: []control.CutPartition{{Partition: 0, Unfenced: true}}},
				{Topic: "a", Switch: "s", Partitions: []control.CutPartition{{Partition: 0}, {Partition: 1, Unfenced: unfenced}}}}
			w.ordMu.Unlock()
			want := map[bool]string{true: state.Unfenced}[unfenced]
			if got := flags(); got[0] != "" || got[1] != want || got[2] != "" {
				t.Errorf("flags %q", got)
			}
		}
		end()
	})
}

// tardy answers appends late.
type tardy struct {
	*world
	by time.Duration
}

func (s tardy) Begin(ctx context.Context, t appender.Target, b appender.Batch) *appender.Pending {
	under := s.world.Begin(ctx, t, b)
	p, settle := appender.Promise()
	followed(p, under)
	go func() {
		r := under.Wait(context.Background())
		time.Sleep(s.by)
		settle(r)
	}()
	return p
}

// TestUndoneWhileItDrains: an order that is taken back before it is carried out
// leaves nothing standing still.
func TestUndoneWhileItDrains(t *testing.T) {
	for _, undone := range []time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second, 5 * time.Second} {
		bubble(t, func(t *testing.T) {
			w := newWorld()
			w.add("a", 1, 2)
			l := w.link(t, "w")
			l.o.Target = tardy{w, 3 * time.Second}
			end := w.start(t, l)
			mustBe(t, topicReport(t, l, "a"), state.Active, "")
			w.more("a", 1, 5)
			time.Sleep(time.Millisecond)
			w.give(t, intent.Command{Verb: intent.Pause, Topics: []string{"a"}})
			time.Sleep(undone)
			w.give(t, intent.Command{Verb: intent.Resume, Topics: []string{"a"}})
			w.more("a", 1, 5)
			time.Sleep(discoverEvery)
			mustBe(t, topicReport(t, l, "a"), state.Active, "")
			if n := w.targetEnd("a", 1); n != 20 {
				t.Errorf("undone after %s: the target ends at %d", undone, n)
			}
			end()
		})
	}
}
