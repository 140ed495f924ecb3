package app

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
	"klink/linker/state"
	"klink/translate/mm2"
)

// A promotion waits for the last checkpoints: here none would come by itself in time.
// Once klink is gone, status tells what their topic does.
func TestLastCheckpointsOfAPromotion(t *testing.T) {
	src, dst := pairOfClusters(t)
	k := mirrorWith(t, src, dst, "    mode: checkpoint\n    groups: {include: [\"*\"]}\n    checkpoint: {source_alias: east, interval: 1h, heartbeat_interval: 100ms}\n")
	k.await(t, "orders", state.Active)
	k.await(t, "payments", state.Active)
	commitTo(t, src, "billing", "orders", 7)
	if r := k.ask(t, "promote", "orders", "--yes", "--timeout", "20s"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	got := checkpointsOn(t, dst, "east.checkpoints.internal")
	if c := got[mm2.Key{Group: "billing", Topic: "east.orders"}]; c.Up != 7 || len(got) != 1 {
		t.Errorf("%+v", got)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if p := dst.PartitionInfo("east.heartbeats", 0); p != nil && p.HighWatermark > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no heartbeat of the source")
		}
	}
	k.stop()
	r := k.ask(t, "status")
	var report state.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || len(report.Links) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	c := report.Links[0].Checkpoints
	if c == nil || !c.FromTopics || c.Topic != "east.checkpoints.internal" || c.Checkpoints != nil || len(c.Troubles) > 0 ||
		time.Since(c.WrittenAt.Time) > time.Hour || time.Since(c.BeatAt.Time) > time.Hour || !c.LookedAt.IsZero() {
		t.Errorf("%+v", c)
	}
	if r := execute(t.Context(), production(), "status", "--target", dst.ListenAddrs()[0]); r.code != 0 || !strings.Contains(r.out, "east.checkpoints.internal") {
		t.Errorf("with the target alone: %+v", r)
	}
}

// checkpointsOn are the last checkpoints in a topic.
func checkpointsOn(t testing.TB, c *kfake.Cluster, topic string) map[mm2.Key]mm2.Checkpoint {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out := make(map[mm2.Key]mm2.Checkpoint)
	for end := c.PartitionInfo(topic, 0).HighWatermark; end > 0; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got, err := mm2.DecodeCheckpoint(r.Key, r.Value)
			if err != nil {
				t.Error(err)
			}
			out[got.Key] = got
			if r.Offset == c.PartitionInfo(topic, 0).HighWatermark-1 {
				end = 0
			}
		})
	}
	return out
}

// What was applied is read back for its aliases; what is not known to this version is
// not guessed.
func TestDefinitionOnRecord(t *testing.T) {
	l := config.DefaultLink()
	l.Name, l.Checkpoint.SourceAlias = "l", "east"
	if got, ok := config.ParseDefinition(l.Definition()); !ok || policy(got).CheckpointsTopic() != "east.checkpoints.internal" {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"", "name: l\nlater: 1\n", "no"} {
		if _, ok := config.ParseDefinition(text); ok {
			t.Errorf("%q is taken for a link", text)
		}
	}
}
