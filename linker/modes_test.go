package linker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/workers"
	"klink/translate/exact"
)

// memOutlook answers as it was told.
type memOutlook struct {
	mu      sync.Mutex // guards all below
	unkept  map[string]Unkept
	trouble *Trouble
	asked   map[string]int
}

func (m *memOutlook) Unkept(_ context.Context, topics []string) (map[string]Unkept, *Trouble) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]Unkept{}
	for _, t := range topics {
		m.asked[t]++
		out[t] = m.unkept[t]
	}
	return out, m.trouble
}

func (m *memOutlook) say(topic string, u Unkept, t *Trouble) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unkept[topic], m.trouble = u, t
}

func (m *memOutlook) times(topic string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[topic]
}

// either is a world whose link may mirror each topic in either mode.
type either struct {
	*world
	maps    *memMaps
	outlook *memOutlook
}

func newEither() *either {
	return &either{newWorld(), newMemMaps(), &memOutlook{unkept: map[string]Unkept{}, asked: map[string]int{}}}
}

func (e *either) begin(t *testing.T) (l *Link, end func()) {
	t.Helper()
	l = e.link(t, "w")
	l.o.Unmirrorable, l.o.Maps, l.o.Outlook, l.o.Gaps, l.o.FollowStart = UnmirrorableCheckpoint, e.maps, e.outlook, plan.FillHalt, true
	return l, e.start(t, l)
}

func (e *either) dstLog(topic string, n int32) *memLog {
	return e.log(e.dst, feed.Partition{Topic: topic, Partition: n})
}

// TestOneTopicInCheckpointMode: of a link in mirror mode one topic cannot keep its
// offsets. It is copied behind what its target has, all of it in checkpoint mode, and
// stays so when nothing stands in the way any more; the others keep their offsets.
func TestOneTopicInCheckpointMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEither()
		e.add("a", 1, 2)
		e.add("b", 2, 1)
		e.prepareLocked(e.found[0]) // the target topic is there
		e.dstLog("a", 1).write(records(0, 4, "other"), 0, 0)
		e.outlook.say("a", Unkept{Why: "partition 1: the target has other data"}, nil)
		for range 2 {
			l, end := e.begin(t)
			r := topicReport(t, l, "a")
			mustBe(t, r, state.Active, "")
			if r.Mode != "checkpoint" || r.Partitions[0].Mode != "checkpoint" || !strings.Contains(r.Detail, "partition 1: the target has other data") {
				t.Errorf("%+v", r)
			}
			if a := l.Translate("a", 1, 3); a.Kind != exact.Exact || a.Offset != 7 {
				t.Errorf("translated to %+v", a)
			}
			if r := topicReport(t, l, "b"); r.Mode != "mirror" || r.State != state.Active || r.Detail != "" {
				t.Errorf("%+v", r)
			}
			if l.Report().Mode != "mirror" {
				t.Errorf("the link is in mode %s", l.Report().Mode)
			}
			end()
			e.outlook.say("a", Unkept{}, nil)
		}
		if e.dstLog("a", 1).end != 14 || e.dstLog("a", 0).end != 10 || e.outlook.times("a") != 1 {
			t.Errorf("ends %d and %d, looked at %d times", e.dstLog("a", 1).end, e.dstLog("a", 0).end, e.outlook.times("a"))
		}
		if a, b := e.records["a"], e.records["b"]; a.Mode != control.ModeCheckpoint || b.Mode != control.ModeMirror || a.Why == "" {
			t.Errorf("on record: %+v, %+v", a, b)
		}
	})
}

// TestModeIsForGood: a topic that was mirrored stays in mirror mode, whatever is met, and
// the hint says what to do; another target is looked at anew.
func TestModeIsForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEither()
		e.add("a", 1, 2)
		l, end := e.begin(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		e.txnAt("a", 1)
		r := topicReport(t, l, "a")
		p := r.Partitions[1]
		if p.State != state.Halted || p.Reason != string(state.Unfillable) || !strings.HasPrefix(p.Hint, checkpointHint) || r.Hint != p.Hint {
			t.Errorf("%+v", p)
		}
		if r.Partitions[0].State != state.Active || r.Mode != "mirror" {
			t.Errorf("%+v", r.Partitions[0])
		}
		end()

		e.outlook.say("a", Unkept{Why: "gaps"}, nil)
		l, end = e.begin(t)
		if r := topicReport(t, l, "a"); r.Mode != "mirror" || e.outlook.times("a") != 1 {
			t.Errorf("%+v", r)
		}
		end()

		e.mu.Lock()
		delete(e.targets, "a")
		e.mu.Unlock()
		l, end = e.begin(t)
		r = topicReport(t, l, "a")
		mustBe(t, r, state.Active, "")
		if r.Mode != "checkpoint" || e.dstLog("a", 1).end != 13 {
			t.Errorf("%+v, ends at %d", r, e.dstLog("a", 1).end)
		}
		end()
	})
}

// TestModeOfAnOldMirror: what an earlier klink mirrored is not looked at.
func TestModeOfAnOldMirror(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEither()
		e.add("a", 1, 1)
		l, end := e.run(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		end()
		l, end = e.begin(t)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if e.outlook.times("a") != 0 || e.records["a"].Mode != "" {
			t.Errorf("looked %d times, mode %q", e.outlook.times("a"), e.records["a"].Mode)
		}
		end()
	})
}

// TestModeWaits: until it is known whether offsets can be kept nothing is made or
// written, and it shows.
func TestModeWaits(t *testing.T) {
	for name, c := range map[string]struct {
		unkept  Unkept
		trouble *Trouble
	}{
		"a partition that cannot be read": {Unkept{Unknown: "partition 0: away"}, nil},
		"a cluster that is away":          {Unkept{}, &Trouble{Reason: state.Unreachable, Detail: "source: away", OnSource: true}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e := newEither()
				e.add("a", 1, 1)
				e.outlook.say("a", c.unkept, c.trouble)
				l, end := e.begin(t)
				r := topicReport(t, l, "a")
				if r.State != state.SourceUnavailable || !strings.Contains(r.Detail, "away") || e.prepares("a") > 0 {
					t.Errorf("%+v, prepared %d times", r, e.prepares("a"))
				}
				e.outlook.say("a", Unkept{}, nil)
				mustBe(t, topicReport(t, l, "a"), state.Active, "")
				end()
			})
		})
	}
}

// othersLease says that another process of the link decides.
type othersLease struct{ memLease }

func (othersLease) Share(topic string, n int32) workers.Share {
	return workers.Share{Joined: true, Heard: true, Mine: topic != control.TopicName}
}

// TestOneProcessDecides: the others wait for what it puts on record.
func TestOneProcessDecides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEither()
		e.add("a", 1, 1)
		l := e.link(t, "other")
		l.o.Unmirrorable, l.o.Maps, l.o.Outlook, l.o.Lease = UnmirrorableCheckpoint, e.maps, e.outlook, othersLease{}
		end := e.start(t, l)
		if r := topicReport(t, l, "a"); r.State != state.Pending || e.prepares("a") > 0 || e.outlook.times("a") > 0 {
			t.Errorf("%+v", r)
		}
		e.mu.Lock()
		rec := e.records["a"]
		rec.Mode, rec.Why = control.ModeCheckpoint, "gaps"
		e.records["a"] = rec
		e.prepareLocked(e.found[0])
		e.mu.Unlock()
		time.Sleep(time.Second)
		if r := topicReport(t, l, "a"); r.State != state.Active || r.Mode != "checkpoint" {
			t.Errorf("%+v", r)
		}
		end()
	})
}
