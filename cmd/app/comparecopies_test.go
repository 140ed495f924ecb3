package app

import (
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/comparator"
	"klink/linker/state"
)

// TestG9_CompareThroughTheMap: in checkpoint mode compare finds the copies where they
// lie, among records of others; a group goes by the map, and the audit does, too.
func TestG9_CompareThroughTheMap(t *testing.T) {
	src, dst := pairOfClusters(t)
	makeTopic(t, dst, "east.orders", 2)
	produceOthers(t, dst, "east.orders", 30)
	k := mirrorWith(t, src, dst, "    mode: checkpoint\n    audit: {enabled: true}\n    groups: {include: [billing]}\n")
	commitTo(t, src, "billing", "orders", 7)
	k.await(t, "orders", state.Active)
	k.await(t, "payments", state.Active)
	produceOthers(t, dst, "east.orders", 20)
	produce(t, src, "orders", 60)
	r := k.comparesEqual(t)
	var foreign int64
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			if p.Mode != comparator.Checkpoint || topic.Mode != comparator.Checkpoint || p.RecordsCompared == 0 || *p.Duplicates != 0 || *p.Digest != *p.TargetDigest {
				t.Errorf("%s: %+v", topic.TargetTopic, p)
			}
			foreign += *p.Foreign
		}
	}
	// Those of before the first copy are not read.
	if foreign != 20 || len(r.Topics) != 2 || r.Topics[0].TargetTopic != "east.orders" || len(r.Groups) != 1 || r.Groups[0].Equal != 1 {
		t.Errorf("%d foreign, %+v", foreign, r)
	}
	for _, topic := range k.awaitAudits(t).Links[0].Topics {
		for _, p := range topic.Partitions {
			if p.Audit.Clean == nil || p.Audit.Error != "" || p.Audit.Last.Records == 0 {
				t.Errorf("%s: %+v", topic.SourceTopic, p.Audit)
			}
		}
	}
	k.stop()
	// What was copied behind the last cursor is found without a klink that runs.
	if again := k.comparesEqual(t); again.Topics[0].Partitions[0].To != r.Topics[0].Partitions[0].To {
		t.Errorf("%+v", again)
	}
}

func (k running) comparesEqual(t testing.TB) comparator.Result {
	t.Helper()
	out := k.ask(t, "compare")
	var r comparator.Result
	if err := json.Unmarshal([]byte(out.out), &r); err != nil || out.code != 0 || !r.Equal {
		t.Fatalf("%v %+v", err, out)
	}
	return r
}

func makeTopic(t testing.TB, c *kfake.Cluster, topic string, partitions int32) {
	t.Helper()
	onCluster(t, c, func(adm *kadm.Client) error {
		_, err := adm.CreateTopic(t.Context(), partitions, 1, map[string]*string{"message.timestamp.type": new("CreateTime")}, topic)
		return err
	})
}

// produceOthers writes records that are equal to none of produce's, also where both are
// written at the same time.
func produceOthers(t testing.TB, c *kfake.Cluster, topic string, records int) {
	t.Helper()
	produceValue(t, c, topic, records, "of others")
}

func commitTo(t testing.TB, c *kfake.Cluster, group, topic string, at int64) {
	t.Helper()
	onCluster(t, c, func(adm *kadm.Client) error {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1})
		return adm.CommitAllOffsets(t.Context(), group, offsets)
	})
}

func onCluster(t testing.TB, c *kfake.Cluster, do func(*kadm.Client) error) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := do(kadm.NewClient(cl)); err != nil {
		t.Fatal(err)
	}
}

// A topic that is in checkpoint mode on record stays so when the link's own mode is
// taken back: its copies go on, its groups' offsets are translated and never written
// as they are, and compare looks for copies where they lie.
func TestModeOnRecordHoldsWithoutTheLinks(t *testing.T) {
	src, dst := pairOfClusters(t)
	makeTopic(t, dst, "orders", 2)
	produce(t, dst, "orders", 30)
	k := mirrorWith(t, src, dst, "    mode: checkpoint\n    checkpoint: {replication_policy: identity}\n")
	k.await(t, "orders", state.Active)
	k.stop()
	commitTo(t, src, "billing", "orders", 7)
	produce(t, src, "orders", 60)
	k = mirrorWith(t, src, dst, "    groups: {include: [billing]}\n")
	k.await(t, "orders", state.Active)
	r := k.comparesEqual(t)
	if r.Topics[0].Mode != comparator.Checkpoint || r.Topics[0].Partitions[0].RecordsCompared == 0 || len(r.Groups) != 1 || r.Groups[0].Equal != 1 {
		t.Errorf("%+v", r)
	}
	k.stop()
}
