package linker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/intent"
	"klink/linker/state"
)

// TestRecreateWhileItMirrors: the target may be deleted before or after the order.
func TestRecreateWhileItMirrors(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("deleted first: ", first), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld()
				w.add("a", 1, 2)
				l, end := w.run(t)
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				remove := func() {
					w.mu.Lock()
					delete(w.targets, "a")
					w.mu.Unlock()
				}
				if first {
					remove()
					mustBe(t, topicReport(t, l, "a"), state.Halted, state.TargetRecreated)
				}
				w.give(t, intent.Command{Verb: intent.Recreate, Topics: []string{"a"}})
				if !first {
					topicReport(t, l, "a")
					remove()
				}
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				if w.records["a"].Generation != 1 || w.targetEnd("a", 1) != 10 {
					t.Errorf("%+v", w.records["a"])
				}
				end()
			})
		})
	}
}

// TestWaysOnFromTargetRecreated: the hint names two, and both lead on, whether the
// target topic was only deleted or another one stood in its place.
func TestWaysOnFromTargetRecreated(t *testing.T) {
	hint := state.TargetRecreated.About().Hint
	if !strings.Contains(hint, "klink repair --recreate mirrors it anew, and so does a restart of klink") {
		t.Error(hint)
	}
	for _, another := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("another %v, restart %v", another, restart), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld()
					w.add("a", 1, 2)
					l, end := w.run(t)
					mustBe(t, topicReport(t, l, "a"), state.Active, "")
					remake := func(id byte) {
						w.mu.Lock()
						defer w.mu.Unlock()
						if delete(w.targets, "a"); id > 0 {
							w.targets["a"] = [16]byte{id}
						}
					}
					if remake(0); another {
						remake(77)
					}
					r := topicReport(t, l, "a")
					mustBe(t, r, state.Halted, state.TargetRecreated)
					if r.Hint != hint || r.Partitions[0].Hint != hint {
						t.Errorf("%q, and of a partition %q", r.Hint, r.Partitions[0].Hint)
					}
					if remake(0); restart {
						end()
						l, end = w.run(t)
					} else {
						w.give(t, intent.Command{Verb: intent.Recreate, Topics: []string{"a"}})
					}
					mustBe(t, topicReport(t, l, "a"), state.Active, "")
					if w.records["a"].Generation != 1 || w.targetEnd("a", 1) != 10 {
						t.Errorf("%+v", w.records["a"])
					}
					end()
				})
			})
		}
	}
}

// TestSightWaitsForABusyLoop: what a look shows while a loop is at something else is
// not lost, and looks do not wait for the loop.
func TestSightWaitsForABusyLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end() // nobody receives any more
		w.mu.Lock()
		delete(w.targets, "a")
		w.mu.Unlock()
		time.Sleep(time.Minute)
		p := l.partitions()[0]
		for range 2 {
			l.lookOnce(t.Context())
		}
		select {
		case s := <-p.moved:
			if s.was != 10 || s.end.Reason != state.TargetRecreated {
				t.Errorf("%+v", s)
			}
		default:
			t.Error("nothing waits for the loop")
		}
	})
}

// TestRetryOfHalted: a halt about data is tried again by order only, and only the
// partitions that the order names.
func TestRetryOfHalted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		for n := range int32(2) {
			w.log(w.dst, feed.Partition{Topic: "a", Partition: n}).write(records(10, 1, "foreign"), 0, batch.CodecNone)
			w.more("a", n, 1)
		}
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.ForeignWrite)
		for n := range int32(2) {
			w.log(w.dst, feed.Partition{Topic: "a", Partition: n}).truncate(10)
		}
		time.Sleep(time.Minute)
		w.give(t, intent.Command{Verb: intent.Retry, Topics: []string{"a"}, Partitions: []int32{1}})
		r := topicReport(t, l, "a")
		if r.Partitions[0].State != state.Halted || r.Partitions[1].State != state.Active {
			t.Errorf("%s and %s", r.Partitions[0].State, r.Partitions[1].State)
		}
		w.give(t, intent.Command{Verb: intent.Retry, Topics: []string{"a"}})
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
	})
}
