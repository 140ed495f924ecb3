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

// TestPartitionsFollowWhatBecameOfTheirTopic: deleted, then made anew. All that is shown
// and recorded of a partition says what is so now, in the same words, and of no lag,
// whether its own loop met that or it was given up before.
func TestPartitionsFollowWhatBecameOfTheirTopic(t *testing.T) {
	follows := func(t *testing.T, when string, r state.Topic, why state.Reason) {
		t.Helper()
		mustBe(t, r, state.Halted, why)
		if len(r.Partitions) != 2 {
			t.Fatalf("%s: %+v", when, r)
		}
		for _, p := range r.Partitions {
			if p.State != state.Halted || p.Reason != string(why) || p.Detail != r.Detail || p.Hint != why.About().Hint || p.LagRecords != nil || p.LagSeconds != nil {
				t.Errorf("%s: %s: %+v", when, r.Detail, p)
			}
		}
	}
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		gone := onSource(feed.NewFault(feed.Gone, feed.Partition{Topic: "a", Partition: 1}, 10, kerr.UnknownTopicOrPartition))
		l.topics["a"].partitions[1].shown.move(gone.event, gone.reason, gone.detail)
		w.mu.Lock()
		w.found = nil
		w.mu.Unlock()
		topicReport(t, l, "a") // after a while
		l.giveUp(t.Context(), []workers.Partition{{Topic: "a"}})
		follows(t, "deleted", topicReport(t, l, "a"), state.SourceDeleted)
		w.add("a", 2, 2)
		follows(t, "made anew", topicReport(t, l, "a"), state.SourceRecreated)
		l.giveUp(t.Context(), []workers.Partition{{Topic: "a", Partition: 1}})
		follows(t, "given up", topicReport(t, l, "a"), state.SourceRecreated)
		end()
		follows(t, "on record", w.States("l")[0].Topic, state.SourceRecreated)
	})
}

// TestRecordFollowsAfterARestart: what an earlier process recorded of the partitions is
// not left beside what is so now.
func TestRecordFollowsAfterARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		l, end := w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		w.mu.Lock()
		was := w.states["a"]
		was.Topic.State, was.Topic.Reason = state.Halted, string(state.SourceRecreated)
		for i := range was.Topic.Partitions {
			p := &was.Topic.Partitions[i]
			p.State, p.Reason, p.Worker = state.Halted, string(state.SourceDeleted), "before"
		}
		w.states["a"] = was
		w.mu.Unlock()
		w.add("a", 2, 2)
		l, end = w.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.SourceRecreated)
		for _, p := range w.States("l")[0].Topic.Partitions {
			if p.Reason != string(state.SourceRecreated) || p.LagRecords != nil {
				t.Errorf("on record is %+v", p)
			}
		}
		end()
	})
}

// TestGoneInOneWording: the partitions of a topic that is gone fold into one line, before
// the next look at the topics, too, and their lag is not known.
func TestGoneInOneWording(t *testing.T) {
	for kind, why := range map[feed.Kind]state.Reason{feed.Gone: state.SourceDeleted, feed.Recreated: state.SourceRecreated} {
		said := map[string]bool{}
		for n := range int32(2) {
			s := onSource(feed.NewFault(kind, feed.Partition{Topic: "a", Partition: n}, 270+int64(n), kerr.UnknownTopicOrPartition))
			said[s.detail] = true
			now := time.Now()
			p := newShown(n, "w")
			p.sawSource(0, 10, 10, now)
			p.sawTarget(0, 10, now)
			p.move(s.event, s.reason, s.detail)
			if r := p.report(now); r.Reason != string(why) || r.LagRecords != nil || r.LagSeconds != nil {
				t.Errorf("%+v", r)
			}
		}
		if len(said) != 1 {
			t.Errorf("%s: %v", kind, said)
		}
	}
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
