package linker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/fill"
	"klink/linker/pad"
	"klink/linker/plan"
	"klink/linker/state"
)

func TestUnkept(t *testing.T) {
	refused := errors.New("CLUSTER_AUTHORIZATION_FAILED")
	p := &partition{}
	tooLarge := appender.Result{Outcome: appender.Refused, Reason: state.TooLarge, Err: refused}
	recorded := fmt.Errorf("%w: %w", errOnRecord, refused)
	for _, c := range []struct {
		name string
		stop *stop
		want bool
	}{
		{"a gap that may not be filled", halt(state.Unfillable, "offset 5 is a transaction marker"), true},
		{"no right to markers", p.onFill(fill.Result{Reason: state.NoPermission, Err: &fill.Fault{Err: refused}}), true},
		{"no right to pads", p.onPad(&pad.Fault{Reason: state.NoPermission, Err: refused}), true},
		{"counters cannot be recorded", p.onFill(fill.Result{Reason: state.ControlUnwritable, Err: &fill.Fault{Err: refused}}), false},
		{"a pad goal cannot be recorded", p.onPad(&pad.Fault{Reason: state.NoPermission, Err: recorded}), false},
		{"one marker too many", p.onFill(fill.Result{Reason: state.Overshot, Err: &fill.Fault{Err: fill.ErrOvershot}}), false},
		{"a record that is too large", onAppend(tooLarge, 5, 1), true},
		{"a batch that can be split", onAppend(tooLarge, 5, 2), false},
		{"no right to append", onAppend(appender.Result{Outcome: appender.Refused, Reason: state.NoPermission, Err: refused}, 5, 1), false},
		{"another history", halt(state.Diverged, "records differ"), false},
		{"somebody else's record", halt(state.ForeignWrite, "offset 5"), false},
		{"a target that is away", targetLost(state.Unfillable, "none"), false},
		{"a doubt", reprobe("look again"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.stop.unkept(); got != c.want {
				t.Errorf("%v: unkept is %v", c.stop, got)
			}
		})
	}
}

// said collects what a link logs.
func said(l *Link) *bytes.Buffer {
	var b bytes.Buffer
	l.log = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

// txnAt puts a committed transaction, and with it a gap, at a source's end.
func (w *world) txnAt(topic string, partition int32) {
	l := w.log(w.src, feed.Partition{Topic: topic, Partition: partition})
	l.txn(7, records(l.end, 3, "txn"), true)
}

// skipping makes a link that leaves out topics and may not fill gaps.
func (w *world) skipping(t *testing.T, otherwise Unmirrorable) *Link {
	t.Helper()
	l := w.link(t, "w")
	l.o.Gaps, l.o.Unmirrorable, l.o.FollowStart = plan.FillHalt, otherwise, true
	return l
}

// TestSkipLeavesOutTheTopic: one partition that cannot keep its offsets ends the
// whole topic, told once, and nothing is written to it any more until the next
// start, which tries it anew.
func TestSkipLeavesOutTheTopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 3)
		w.add("b", 2, 1)
		l := w.skipping(t, UnmirrorableSkip)
		log := said(l)
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.txnAt("a", 1)
		r := topicReport(t, l, "a")
		mustBe(t, r, state.Halted, state.Unfillable)
		for _, p := range r.Partitions {
			if p.State != state.Halted || p.Reason != string(state.Unfillable) || p.Hint != leftOutHint ||
				!strings.HasPrefix(p.Detail, "left out (on_unmirrorable: skip): partition 1: offset 13 is a transaction marker") {
				t.Errorf("%+v", p)
			}
		}
		w.log(w.src, feed.Partition{Topic: "a"}).write(records(10, 5, "a"), 0, 0)
		w.log(w.src, feed.Partition{Topic: "a"}).delete(4)
		w.add("a", 1, 4)
		time.Sleep(time.Minute)
		if dst := w.log(w.dst, feed.Partition{Topic: "a"}); dst.end != 10 || dst.starts() != 0 {
			t.Errorf("the target moved to [%d, %d)", dst.starts(), dst.end)
		}
		if r := topicReport(t, l, "a"); len(r.Partitions) != 3 {
			t.Errorf("partitions were added: %+v", r.Partitions)
		}
		mustBe(t, topicReport(t, l, "b"), state.Active, "")
		end()
		if n := strings.Count(log.String(), "topic left out"); n != 1 {
			t.Errorf("told %d times", n)
		}
		for _, line := range strings.Split(log.String(), "\n") {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "cannot be mirrored") {
				t.Error(line)
			}
		}

		l, end = w.run(t) // gaps may be filled now
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
	})
}

// TestSkipIsNotForDamage: what is wrong with the data halts the one partition.
func TestSkipIsNotForDamage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		l := w.skipping(t, UnmirrorableSkip)
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.log(w.dst, feed.Partition{Topic: "a"}).write(records(10, 1, "foreign"), 0, 0)
		r := topicReport(t, l, "a")
		if r.Partitions[0].State != state.Halted || r.Partitions[1].State != state.Active {
			t.Errorf("%+v", r)
		}
		w.txnAt("a", 1) // and then it is left out: the damage still shows
		r = topicReport(t, l, "a")
		if r.Partitions[0].Reason == string(state.Unfillable) || r.Partitions[1].Reason != string(state.Unfillable) {
			t.Errorf("%+v", r)
		}
		end()
	})
}

// barredWorld is a world whose target may refuse markers.
type barredWorld struct {
	*world
	barred atomic.Bool
}

func (w *barredWorld) WriteMarkers(ctx context.Context, t appender.Target, m appender.Markers) appender.MarkerResult {
	if w.barred.Load() {
		return appender.MarkerResult{Outcome: appender.MarkersRefused, Reason: state.NoPermission, Err: errors.New("missing right: Alter on cluster")}
	}
	return w.world.WriteMarkers(ctx, t, m)
}

// TestSkipWaitsForARight: what may pass is waited for, for a while.
func TestSkipWaitsForARight(t *testing.T) {
	for name, granted := range map[string]bool{"granted soon": true, "not granted": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := &barredWorld{world: newWorld()}
				w.add("a", 1, 2)
				w.barred.Store(true)
				l := w.skipping(t, UnmirrorableSkip)
				l.o.Gaps, l.o.Target = plan.FillMarkers, w
				log := said(l)
				end := w.start(t, l)
				w.txnAt("a", 0)
				r := topicReport(t, l, "a") // ten seconds
				if r.Partitions[0].Reason != string(state.NoPermission) || r.Partitions[1].State != state.Active {
					t.Errorf("%+v", r)
				}
				w.barred.Store(!granted)
				time.Sleep(skipPatience)
				r = topicReport(t, l, "a")
				if granted {
					mustBe(t, r, state.Active, "")
				} else {
					mustBe(t, r, state.Halted, state.NoPermission)
					if !strings.HasPrefix(r.Partitions[1].Detail, "left out (on_unmirrorable: skip): partition 0: ") {
						t.Errorf("%+v", r.Partitions[1])
					}
				}
				end()
				if strings.Contains(log.String(), "level=ERROR") {
					t.Error(log.String())
				}
			})
		})
	}
}
