package checkpoints

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"klink/linker/state"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// TestWritesTopics: names, settings and bytes are MirrorMaker 2's (P1, P4, P6), and
// what did not change is not written again, not by another process either (P3, P5).
func TestWritesTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.copied(exact.Run{Src: 1000, Dst: 9, Count: 5})
	r.commit("billing", 1002)
	r.commit("ahead", 1009)
	r.mu.Lock()
	r.topics = []string{"orders", "heartbeats", "z.heartbeats", "b.heartbeats"}
	r.mu.Unlock()
	for range 2 {
		for range 2 {
			r.round()
			r.beat()
		}
		r.restart()
	}
	for topic, want := range map[string][][2]string{
		"a.checkpoints.internal": {
			{"0005616865616400" + "08612e6f726465727300000000", "000000000000000003f1000000000000000e00016d"},
			{"000762696c6c696e670008612e6f726465727300000000", "000000000000000003ea000000000000000b00016d"}},
		"mm2-offset-syncs.a.internal": {
			{"00066f726465727300000000", "00000000000003e80000000000000009"},
			{"00066f726465727300000000", "00000000000003ec000000000000000d"}},
		"heartbeats":     {{"000161000162", "00000000018bcfe56800"}, {"000161000162", "00000000018bcfe56800"}, {"000161000162", "00000000018bcfe56800"}, {"000161000162", "00000000018bcfe56800"}},
		"a.heartbeats":   {{"000161000162", "00000000018bcfe56800"}, {"000161000162", "00000000018bcfe56800"}, {"000161000162", "00000000018bcfe56800"}, {"000161000162", "00000000018bcfe56800"}},
		"a.z.heartbeats": nil,
	} {
		var got [][2]string
		for _, rec := range r.records(topic) {
			got = append(got, [2]string{hex.EncodeToString(rec.Key), hex.EncodeToString(rec.Value)})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", topic, d)
		}
	}
	topics, err := r.adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a.checkpoints.internal", "a.heartbeats", "a.orders", "a.z.heartbeats", "heartbeats", "mm2-offset-syncs.a.internal"}, topics.Names()); d != "" {
		t.Error(d)
	}
	for _, topic := range topics.Names() {
		if topic == "a.orders" {
			continue
		}
		if n := len(topics[topic].Partitions); n != 1 || topics[topic].Partitions.NumReplicas() != 2 {
			t.Errorf("%s: %+v", topic, topics[topic].Partitions)
		}
		configs, err := r.adm.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range configs[0].Configs {
			if set := c.Source == 1; set != (c.Key == cleanupPolicy) || set && c.MaybeValue() != compact {
				t.Errorf("%s: %s=%s", topic, c.Key, c.MaybeValue())
			}
		}
	}
}

// A group that goes on, goes back, and records that are copied again.
func TestCheckpointsFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.copied(exact.Run{Src: 0, Dst: 0, Count: 10})
	r.commit("g", 4)
	want := func(at int64) {
		t.Helper()
		r.round()
		if got := r.checkpoints()["g"]; got != at {
			t.Errorf("at %d, want %d; %+v", got, at, r.task.Report())
		}
	}
	want(4)
	r.copied(exact.Run{Src: 12, Dst: 15, Count: 5, Seq: 10})
	r.commits = nil
	r.commit("g", 13)
	want(16)
	r.commits = nil
	r.commit("g", 2)
	want(2)
	rep := r.task.Report()
	if *rep.Checkpoints != 1 || rep.Written != 3 || rep.LookedAt.IsZero() || len(rep.Troubles) > 0 || len(rep.Waiting) > 0 {
		t.Errorf("%+v", rep)
	}
	r.commits = append(r.commits, Commit{Group: "h", Source: ordersSource, Target: "a.orders", Offset: 7})
	r.round()
	if d := cmp.Diff([]state.CheckpointsWaiting{{Reason: string(Unmapped), Offsets: 1}}, r.task.Report().Waiting); d != "" {
		t.Error(d)
	}
}

// P6: a topic that readers could not do with is left as it is, and said; the others are
// written. Once it is right, it is too.
func TestMisfits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	remove := "delete"
	for topic, partitions := range map[string]int32{"a.checkpoints.internal": 1, "mm2-offset-syncs.a.internal": 3} {
		if _, err := r.adm.CreateTopic(t.Context(), partitions, 1, map[string]*string{cleanupPolicy: &remove}, topic); err != nil {
			t.Fatal(err)
		}
	}
	r.copied(exact.Run{Src: 0, Dst: 0, Count: 10})
	r.commit("g", 4)
	for range 2 {
		r.round()
		r.beat()
	}
	rep := r.task.Report()
	if len(rep.Troubles) != 2 || len(r.records("a.checkpoints.internal")) > 0 || len(r.records("heartbeats")) != 2 {
		t.Fatalf("%+v", rep)
	}
	for i, want := range []string{"cleanup.policy=delete", "3 partitions"} {
		if got := rep.Troubles[i]; got.Reason != string(state.TopicRefused) || !strings.Contains(got.Detail, want) || got.Hint != settingsHint {
			t.Errorf("%+v", got)
		}
	}
	right := compact
	if _, err := r.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: cleanupPolicy, Value: &right}}, "a.checkpoints.internal"); err != nil {
		t.Fatal(err)
	}
	r.round()
	if rep := r.task.Report(); len(rep.Troubles) != 1 || r.checkpoints()["g"] != 4 {
		t.Errorf("%+v", rep)
	}
}

// P5: what somebody else writes is told of, and replaced where it is not right; what
// another process of the link wrote while it held the lease is no stranger's.
func TestOthersWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.copied(exact.Run{Src: 0, Dst: 0, Count: 10})
	r.commit("g", 4)
	r.round()
	write := func(down int64) {
		t.Helper()
		key, value, err := mm2.Checkpoint{Key: mm2.Key{Group: "g", Topic: "a.orders"}, Up: 4, Down: down, Metadata: "m"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.produce("a.checkpoints.internal", key, value)
	}
	write(3)
	r.task.lapsed()
	r.round()
	if rep := r.task.Report(); len(rep.Troubles) > 0 || r.checkpoints()["g"] != 4 {
		t.Errorf("%+v", rep)
	}
	write(9)
	r.produce("a.checkpoints.internal", []byte("x"), nil)
	r.round()
	rep := r.task.Report()
	if len(rep.Troubles) != 1 || rep.Troubles[0].Reason != string(state.ForeignWrite) {
		t.Errorf("%+v", rep)
	}
	r.now = r.now.Add(othersFor)
	r.round()
	if rep := r.task.Report(); len(rep.Troubles) > 0 {
		t.Errorf("%+v", rep)
	}
}

// A topic that is deleted is made again, with all that belongs into it.
func TestDeletedTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.copied(exact.Run{Src: 0, Dst: 0, Count: 10})
	r.commit("g", 4)
	r.round()
	if _, err := r.adm.DeleteTopics(t.Context(), "a.checkpoints.internal", "mm2-offset-syncs.a.internal"); err != nil {
		t.Fatal(err)
	}
	for range 8 { // it counts as gone once several looks say so
		r.round()
	}
	if r.checkpoints()["g"] != 4 || len(r.records("mm2-offset-syncs.a.internal")) != 2 {
		t.Errorf("%+v", r.task.Report())
	}
}

// The heartbeat of a source that does not answer stands still.
func TestSourceAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.away = errAway
	r.beat()
	if len(r.records("heartbeats")) != 1 || len(r.records("a.heartbeats")) != 0 {
		t.Errorf("%+v", r.task.Report())
	}
	r.mu.Lock()
	r.away = nil
	r.mu.Unlock()
	r.beat()
	if len(r.records("a.heartbeats")) != 1 {
		t.Errorf("%+v", r.task.Report())
	}
}

// Run writes by itself, only while the lease is held.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.task.wanted.Store(false)
	r.held = false
	r.copied(exact.Run{Src: 0, Dst: 0, Count: 10})
	r.commit("g", 4)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.task.Run(ctx) }()
	if rep := r.task.Report(); rep.Written > 0 || !rep.BeatAt.IsZero() {
		t.Errorf("%+v", rep)
	}
	r.mu.Lock()
	r.held = true
	r.mu.Unlock()
	for rep := r.task.Report(); rep.Written == 0 || rep.BeatAt.IsZero() || rep.LookedAt.IsZero(); rep = r.task.Report() {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r.checkpoints()["g"] != 4 {
		t.Errorf("%+v", r.task.Report())
	}
}
