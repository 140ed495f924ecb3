package linker

import (
	"context"
	"errors"
	"sync"
	"testing"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// memInflows are what klink has on record on the source.
type memInflows struct {
	mu  sync.Mutex // guards all below
	in  map[string]control.Inflow
	err error
}

func (m *memInflows) Inflows(context.Context) (map[string]control.Inflow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.in, m.err
}

func (m *memInflows) say(in map[string]control.Inflow, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in, m.err = in, err
}

// TestLoopIsRefused: nothing is made or written for a topic that came from the target,
// others are mirrored, and go on record with the clusters they came through.
func TestLoopIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, in := newWorld(), &memInflows{}
		w.add("a", 1, 1)
		w.add("b", 2, 1)
		in.say(map[string]control.Inflow{"a": {Link: "back", SourceTopic: "a", Begun: true, Clusters: "DST"}, "b": {Link: "more", SourceTopic: "b", Clusters: "X Y"}}, nil)
		l := w.link(t, "w")
		l.o.Inflows = in
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused)
		mustBe(t, topicReport(t, l, "b"), state.Active, "")
		if w.prepares("a") > 0 || w.records["b"].Origins != "X Y" {
			t.Errorf("prepared %d times, %+v", w.prepares("a"), w.records["b"])
		}

		in.say(nil, errors.New("not allowed")) // what cannot be seen is no loop
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		if w.records["b"].Origins != "X Y" {
			t.Errorf("%+v", w.records["b"])
		}

		in.say(map[string]control.Inflow{"a": {Link: "back", SourceTopic: "a", Begun: true, Clusters: "X DST"}}, nil)
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused)
		before := w.log(w.dst, feed.Partition{Topic: "a"}).end
		w.log(w.src, feed.Partition{Topic: "a"}).write(records(10, 5, "a"), 0, 0)
		mustBe(t, topicReport(t, l, "a"), state.TargetUnavailable, state.TopicRefused)
		if end := w.log(w.dst, feed.Partition{Topic: "a"}).end; end != before {
			t.Errorf("mirrored up to %d, was %d", end, before)
		}
		end()
	})
}
