package survey

import (
	"strings"
	"testing"

	"klink/fetcher/feed"
	"klink/linker/control"
)

// TestPlanForCheckpointMode: what cannot keep its offsets is for checkpoint mode where
// nothing was mirrored yet, and what is in that mode stays in it.
func TestPlanForCheckpointMode(t *testing.T) {
	l := startLink(t, "a", "b", "tx")
	l.o.Otherwise = OtherwiseCheckpoint
	for _, topic := range []string{"a", "b", "tx"} {
		l.src.create(t, topic, 1, nil)
		l.dst.create(t, topic, 1, nil)
	}
	src, dst := l.src.plain(), l.dst.plain()
	l.src.produce(t, src, "a", 300)
	l.src.produce(t, src, "b", 20)
	l.src.transact(t, "tx", 2)
	l.dst.produce(t, dst, "a", 10) // at other times
	plan := func(t *testing.T, topic string, want Outlook, why string) {
		t.Helper()
		r, err := Plan(t.Context(), l.o)
		if err != nil {
			t.Fatal(err)
		}
		got := r.topic(t, topic)
		if got.Verdict != want || !strings.Contains(strings.Join(got.Reasons, "\n"), why) {
			t.Errorf("%s: %s %q, want %s: %s", topic, got.Verdict, got.Reasons, want, why)
		}
		unkept, known := got.Unkept()
		if !known || (unkept != "") != (want == Checkpoint) {
			t.Errorf("%s: unkept %q, known %v", topic, unkept, known)
		}
	}
	plan(t, "a", Checkpoint, "the target has other data: the records at offset 0 differ in timestamp")
	plan(t, "b", Raw, "")
	l.o.Policy.Gaps = 0 // halt
	plan(t, "tx", Checkpoint, "gap_fill: halt")
	l.o.Records = onRecord{topic: control.TopicRecord{Mode: control.ModeCheckpoint}}
	plan(t, "b", Checkpoint, "")
	l.o.Records = onRecord{epochs: []control.Epoch{{}}}
	plan(t, "a", Raw, "mirrored up to offset 9 already")
	plan(t, "tx", Refuse, "stays in mirror mode")
}

// TestUnkept: what could not be read is not known.
func TestUnkept(t *testing.T) {
	at := int64(feed.Unknown)
	for name, c := range map[string]struct {
		topic TopicPlan
		why   string
		known bool
	}{
		"no partition was looked at": {TopicPlan{Reasons: []string{"away"}}, "away", false},
		"one could not be read":      {TopicPlan{Partitions: []PartitionPlan{{SourceStart: &at}, {Partition: 1, Reasons: []string{"away"}}}}, "partition 1: away", false},
		"one cannot keep its offsets": {TopicPlan{Partitions: []PartitionPlan{{}, {Partition: 1, Verdict: Checkpoint, SourceStart: &at, Reasons: []string{"gaps", "halt"}}}},
			"partition 1: gaps; halt", true},
		"all can": {TopicPlan{Partitions: []PartitionPlan{{SourceStart: &at, Verdict: Raw}}}, "", true},
	} {
		if why, known := c.topic.Unkept(); why != c.why || known != c.known {
			t.Errorf("%s: %q, %v", name, why, known)
		}
	}
}
