package linker

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/state"
	"klink/linker/workers"
)

// What is wrong with a topic on the source shows as the source's trouble; a name
// that nothing bears yet is waited for; and what halted a partition is not hidden
// behind either.
func TestTopicTroubleByItsSide(t *testing.T) {
	for _, c := range []struct {
		trouble Trouble
		want    state.State
	}{
		{Trouble{Reason: state.NoPermission, OnSource: true}, state.SourceUnavailable},
		{Trouble{Reason: state.TopicMissing, OnSource: true}, state.Pending},
		{Trouble{Reason: state.SourceRecreated}, state.Halted},
		{Trouble{Reason: state.NoPermission}, state.Halted},
		{Trouble{Reason: state.TooFewBrokers}, state.TargetUnavailable},
	} {
		bubble(t, func(t *testing.T) {
			w := newWorld()
			w.found = []Found{{Topic: "a", Target: "a", Trouble: &c.trouble}}
			l, end := w.run(t)
			mustBe(t, topicReport(t, l, "a"), c.want, c.trouble.Reason)
			w.add("a", 1, 2) // the cause is gone
			mustBe(t, topicReport(t, l, "a"), state.Active, "")
			end()
		})
	}
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		l.topics["a"].partitions[0].shown.move(state.HaltFound, state.SourceDeleted, "")
		w.mu.Lock()
		w.found = []Found{{Topic: "a", Target: "a", Trouble: &Trouble{Reason: state.TopicMissing, OnSource: true}}}
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.SourceDeleted)
		end()
	})
}

// A topic that was deleted while klink was down is not passed over in silence,
// whatever pattern selected it; one that comes back is another topic.
func TestG9_SourceDeletedWhileDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 3)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		w.found = nil
		l, end = w.run(t)
		r := topicReport(t, l, "a")
		mustBe(t, r, state.Halted, state.SourceDeleted)
		if len(r.Partitions) != 3 || r.Partitions[2].State != state.Halted {
			t.Errorf("%+v", r.Partitions)
		}
		w.add("a", 2, 3)
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.SourceRecreated)
		end()
	})
}

// A refused reader is told what to grant.
func TestUnauthorizedNamesTheRight(t *testing.T) {
	f := feed.NewFault(feed.Unauthorized, feed.Partition{Topic: "orders"}, 7, nil)
	for _, s := range []*stop{onSource(f), onTarget(f)} {
		if s.reason != state.NoPermission || !strings.Contains(s.detail, "missing right: Read on topic orders") {
			t.Errorf("%+v", s)
		}
	}
}

// A partition that is given up with its topic, before its own loop has met what is
// wrong with that, is shown as the topic is and not as it was recorded last.
func TestGivenUpWithItsTopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		time.Sleep(time.Minute) // it is on record
		w.mu.Lock()
		w.found = []Found{{Topic: "a", Target: "a", Trouble: &Trouble{Reason: state.TopicMissing, OnSource: true}}}
		w.mu.Unlock()
		topicReport(t, l, "a") // after a while
		l.giveUp(t.Context(), []workers.Partition{{Topic: "a"}})
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.SourceDeleted)
		end()
	})
}

// What was under way when the source's trouble was told lands, and does not end it:
// the stream tells of a trouble once.
func TestLandingsDoNotHideTheSourcesTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := rig(t, 1)
		m.src.write(records(0, 3, "src"), 0, batch.CodecNone)
		m.start(t)
		defer func() { m.stop() }()
		m.settle(t)
		answered := make(chan struct{})
		m.target.lose = func() memLoss { <-answered; return deliver }
		m.source.mended = make(chan struct{})
		told := false
		m.source.fault = func(p feed.Partition, next int64) *feed.Fault {
			if told || next < 6 {
				return nil
			}
			told = true
			return feed.NewFault(feed.Unauthorized, p, next, kerr.TopicAuthorizationFailed)
		}
		m.src.write(records(3, 3, "src"), 0, batch.CodecNone)
		mustShow := func(when string, want state.State, end int64) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if r := m.p.shown.report(time.Now()); r.State != want || r.TargetEnd == nil || *r.TargetEnd != end {
				t.Errorf("%s: %+v", when, r)
			}
		}
		mustShow("told", state.SourceUnavailable, 3)
		close(answered)
		mustShow("landed", state.SourceUnavailable, 6)
		close(m.source.mended)
		mustShow("mended", state.Active, 6)
	})
}

// A target that hangs shows as such when the wait for its answer is over; one
// that hangs up is only looked at again.
func TestG9_HangingTargetShows(t *testing.T) {
	for _, c := range []struct {
		err  error
		want state.Event
	}{
		{context.DeadlineExceeded, state.TargetLost},
		{os.ErrDeadlineExceeded, state.TargetLost},
		{kerr.RequestTimedOut, state.TargetLost},
		{io.EOF, ""},
		{kerr.NotLeaderForPartition, ""},
	} {
		s := onAppend(appender.Result{Outcome: appender.Unknown, Reason: state.Unreachable, Err: fmt.Errorf("x: %w", c.err)}, 7, 1)
		if s.event != c.want || c.want != "" && s.reason != state.Unreachable {
			t.Errorf("%v: %+v", c.err, s)
		}
	}
}

// A target that may be written and not read is not filled until the next start
// finds out (C126).
func TestMissingReadOnTheTargetShowsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 1)
		w.unread = kerr.TopicAuthorizationFailed
		l, end := w.run(t)
		r := topicReport(t, l, "a")
		mustBe(t, r, state.TargetUnavailable, state.NoPermission)
		if !strings.Contains(r.Detail, "target: missing right: Read on topic a") {
			t.Error(r.Detail)
		}
		w.mu.Lock()
		w.unread = nil
		w.mu.Unlock()
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
	})
}
