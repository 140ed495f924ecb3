package control

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/linker/ledger"
)

func TestPadGoalsBelongToOnePairOfTopics(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	topic := topicRecord("l", "t", "t")
	must(t, s.PutTopic(ctx, topic))
	goal := PadRecord{Link: "l", Topic: "t", SourceID: topic.SourceID, Partition: 2, TargetID: topic.TargetID, Goal: 9, Reason: ledger.Padded,
		Stage: "writing", RestorePolicy: "compact"}
	must(t, s.PutPad(ctx, goal))
	if got, ok := s.Pad("l", "t", 2); !ok || cmp.Diff(goal, got) != "" || !s.Padding("l", "t") {
		t.Errorf("%v %+v", ok, got)
	}
	if _, ok := s.Pad("l", "t", 1); ok {
		t.Error("a goal of another partition")
	}

	topic.TargetID = seqID(99)
	must(t, s.PutTopic(ctx, topic))
	if _, ok := s.Pad("l", "t", 2); ok || s.Padding("l", "t") {
		t.Error("the goal of a target topic that was made anew since")
	}
	goal.TargetID, goal.Done = topic.TargetID, true
	must(t, s.PutPad(ctx, goal))
	if got, ok := s.Pad("l", "t", 2); !ok || !got.Done || s.Padding("l", "t") {
		t.Errorf("done: %v %+v", ok, got)
	}
	must(t, s.DropPad(ctx, goal))
	if _, ok := s.Pad("l", "t", 2); ok {
		t.Error("dropped, and still there")
	}
	must(t, s.stop())
	again := open(t, newClient(t, c))
	if _, ok := again.Pad("l", "t", 2); ok {
		t.Error("dropped, and there after a restart")
	}
}

func TestOfTwoThatPadOneSeesTheOther(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	a, b := open(t, newClient(t, c)), open(t, newClient(t, c))
	topic := topicRecord("l", "t", "t")
	must(t, a.PutTopic(ctx, topic))
	eventually(t, "topic", func() bool { _, ok := b.Topic("l", "t"); return ok })
	for round := range 30 {
		var wg sync.WaitGroup
		seen := make([]bool, 2)
		for i, s := range []opened{a, b} {
			wg.Go(func() {
				err := s.PutPad(ctx, PadRecord{Link: "l", Topic: "t", SourceID: topic.SourceID, TargetID: topic.TargetID,
					Partition: int32(i), Goal: int64(round), Reason: ledger.Padded})
				if err != nil {
					t.Error(err)
				}
				pads := s.Pads("l", "t")
				seen[i] = len(pads) == 2 && pads[1-i].Goal == int64(round)
			})
		}
		wg.Wait()
		if !seen[0] && !seen[1] {
			t.Fatalf("round %d: neither sees the other", round)
		}
	}
}

func TestConfigsAreComparable(t *testing.T) {
	a := NewConfigs(map[string]Config{"b": {"<1>", true}, "a": {"2", false}})
	if b := NewConfigs(a.All()); a != b || len(a.All()) != 2 || a.All()["b"].Value != "<1>" {
		t.Errorf("%s and %s", a, b)
	}
	if NewConfigs(nil) != "" || Configs("").All() != nil || Configs("x").All() != nil {
		t.Error("nothing is something")
	}
}
