package linker

import (
	"testing"
	"time"

	"klink/linker/state"
)

// TestWhatAWorkerRecords: its own partitions and, where the first one is its own or
// nobody's, what is said of the topic.
func TestWhatAWorkerRecords(t *testing.T) {
	at := func(n int64) *int64 { return &n }
	topic := func() state.Topic {
		return state.Topic{SourceTopic: "a", TargetTopic: "a", Mode: Mirror.String(), State: state.Active, Partitions: []state.Partition{
			{Partition: 0, Worker: "one", State: state.Active, TargetEnd: at(7), Flags: []string{}},
			{Partition: 1, Worker: "two", State: state.Active, TargetEnd: at(7)},
		}}
	}
	for _, c := range []struct {
		name     string
		change   func(*state.Topic)
		one, two bool // has something to record
	}{
		{"nothing new", func(*state.Topic) {}, false, false},
		{"the first one's", func(t *state.Topic) { t.Partitions[0].TargetEnd = at(8) }, true, false},
		{"the second one's", func(t *state.Topic) { t.Partitions[1].State = state.Halted }, false, true},
		{"an end that is known now", func(t *state.Topic) { t.Partitions[1].SourceEnd = at(7) }, false, true},
		{"a flag", func(t *state.Topic) { t.Partitions[1].Flags = []string{state.Unguarded} }, false, true},
		{"by time alone", func(t *state.Topic) {
			s := 3.5
			t.Partitions[0].LagSeconds, t.Partitions[0].AsOf, t.Partitions[0].Hint = &s, state.Seen{Time: time.Unix(9, 0)}, "x"
		}, false, false},
		{"the topic's reason", func(t *state.Topic) { t.Reason = "NO_PERMISSION" }, true, false},
		{"an order", func(t *state.Topic) { t.State = state.Stopped }, true, true},
		{"a partition more", func(t *state.Topic) {
			t.Partitions = append(t.Partitions, state.Partition{Partition: 2, Worker: "two", Flags: []string{}})
		}, false, true},
		{"handed over", func(t *state.Topic) { t.Partitions[0].Worker = "two" }, false, true},
		{"halted with its topic, and nobody's", func(t *state.Topic) {
			p := &t.Partitions[1]
			p.Worker, p.State, p.Reason = "", state.Halted, "SOURCE_RECREATED"
		}, true, true},
		{"not begun yet", func(t *state.Topic) { t.Partitions[1].Worker, t.Partitions[1].State = "", state.Pending }, false, false},
		{"nobody's", func(t *state.Topic) { t.State, t.Partitions = state.Pending, nil }, true, true},
	} {
		now := topic()
		c.change(&now)
		if one, two := !sameRecord("one", topic(), now), !sameRecord("two", topic(), now); one != c.one || two != c.two {
			t.Errorf("%s: one %t, two %t", c.name, one, two)
		}
	}
}
