package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// topicModes are the topics of testdata/v2-topic.tsv.
var topicModes = []TopicRecord{
	{Link: "east-west", SourceTopic: "kept", SourceID: seqID(0), TargetTopic: "dr.kept", TargetID: seqID(16), Partitions: 3, Mode: ModeMirror},
	{Link: "east-west", SourceTopic: "other", SourceID: seqID(0), TargetTopic: "dr.other", Partitions: 3, Mode: ModeCheckpoint,
		Why: "partition 1: the target has other records", Origins: NewClusters("X", "Y")},
}

// A topic in checkpoint mode is of version 2, so that a klink that would mirror it by
// its offsets refuses it (C4); one that keeps its offsets is as before.
func TestVersion2OfTopics(t *testing.T) {
	on := fixturesOf(t, "testdata/v2-topic.tsv")
	v := viewOf(t, on...)
	if d := cmp.Diff(topicModes, v.Topics("east-west")); d != "" || v.Problems().Malformed != 0 {
		t.Errorf("(-want +got):\n%s%+v", d, v.Problems())
	}
	var b batch
	for _, r := range topicModes {
		b.add(encodeTopic(r, nil))
	}
	if d := cmp.Diff(on, storedOf(t, b), cmp.AllowUnexported(stored{})); d != "" {
		t.Errorf("(-stored +written):\n%s", d)
	}
}
