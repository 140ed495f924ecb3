package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func TestCheckpointsSection(t *testing.T) {
	n := int64(12)
	at := state.Seen{Time: time.Unix(1700000000, 0)}
	full := &state.Checkpoints{Topic: "a.checkpoints.internal", Writing: true, Checkpoints: &n, LookedAt: at, WrittenAt: at,
		Waiting:  []state.CheckpointsWaiting{{Reason: "UNMAPPED", Offsets: 2}},
		Troubles: []state.CheckpointsTrouble{{Topic: "heartbeats", Reason: "NO_PERMISSION", Detail: "write topic heartbeats", Hint: "grant it"}}}
	dead := &state.Checkpoints{Topic: "d.checkpoints.internal", FromTopics: true, WrittenAt: at}
	blind := *dead
	blind.Troubles = full.Troubles
	got := checkpointsSection(state.Report{Links: []state.Link{{Name: "x", Checkpoints: full}, {Name: "y", Checkpoints: &state.Checkpoints{}}, {Name: "z"},
		{Name: "d", Checkpoints: dead}, {Name: "b", Checkpoints: &blind}}})
	want := `
checkpoints of link x: 12 in a.checkpoints.internal; groups looked at: 2023-11-14T22:13:20Z, last written: 2023-11-14T22:13:20Z, last heartbeat: not since this klink began
  2 without: UNMAPPED: nothing of the partition was copied yet, or it cannot be read where the copies lie
  heartbeats: NO_PERMISSION: write topic heartbeats
  grant it

checkpoints of link y: not written by this klink: another one of the link does, or no topic needs them yet

checkpoints of link d: by the topics themselves, of which d.checkpoints.internal was last written: 2023-11-14T22:13:20Z, last heartbeat: never; when groups were looked at is known to a running klink only

checkpoints of link b: by the topics themselves, of which d.checkpoints.internal was last written: 2023-11-14T22:13:20Z, last heartbeat: not known; when groups were looked at is known to a running klink only
  heartbeats: NO_PERMISSION: write topic heartbeats
  grant it
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := checkpointsSection(state.Report{Links: []state.Link{{Name: "z"}}}); got != "" {
		t.Errorf("%q", got)
	}
}
