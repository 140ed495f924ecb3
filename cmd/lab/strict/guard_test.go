package strict

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func guarded(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *Guard, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "t")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	g := Watch(c, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return c, g, client
}

// produceRaw sends one batch per partition, from 0 on, and gives the error of each.
func produceRaw(t *testing.T, c *kfake.Cluster, client *kgo.Client, batches ...[]byte) []error {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = "t", c.TopicInfo("t").TopicID
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	resp, err := req.RequestWith(t.Context(), client.Broker(0))
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, p := range resp.Topics[0].Partitions {
		errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
	}
	return errs
}

func TestT1ABadBatchNeverReachesTheLogAndIsRecorded(t *testing.T) {
	c, g, client := guarded(t)
	lie := sound(1)
	lie.batch.NumRecords, lie.batch.LastOffsetDelta, lie.records = 1000, 999, nil
	errs := produceRaw(t, c, client, lie.bytes(t), sound(3).bytes(t))
	if !errors.Is(errs[0], kerr.InvalidRecord) || !errors.Is(errs[1], kerr.NotEnoughReplicas) {
		t.Errorf("answers %v, want INVALID_RECORD and NOT_ENOUGH_REPLICAS", errs)
	}
	for p := range int32(2) {
		if end := c.PartitionInfo("t", p).HighWatermark; end != 0 {
			t.Errorf("partition %d ends at %d, want nothing written", p, end)
		}
	}
	found := g.Violations()
	if len(found) != 1 || found[0].Rule != Records || found[0].Topic != "t" || found[0].Partition != 0 {
		t.Errorf("violations %v, want one of t[0]", found)
	}
}

func TestSoundRequestsPassTheGuard(t *testing.T) {
	c, g, client := guarded(t)
	for _, err := range produceRaw(t, c, client, sound(3).bytes(t), sound(1000).bytes(t)) {
		if err != nil {
			t.Error(err)
		}
	}
	if end := c.PartitionInfo("t", 1).HighWatermark; end != 1000 {
		t.Errorf("partition 1 ends at %d, want 1000", end)
	}
	if v := g.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

func TestAllowedBreachesAreRefusedButNotRecorded(t *testing.T) {
	c, g, client := guarded(t)
	g.Allow(NoHorizon)
	bad := sound(1)
	bad.batch.Attributes = 0x40
	if errs := produceRaw(t, c, client, bad.bytes(t)); errs[0] == nil {
		t.Error("an allowed breach was not refused")
	}
	if v := g.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

func TestTheGuardReadsTopicSettings(t *testing.T) {
	c, g, _ := guarded(t)
	if err := c.CreateTopic("small", 1, map[string]string{
		"max.message.bytes": "100", "cleanup.policy": "compact,delete", "message.timestamp.after.max.ms": "9223372036854775807",
	}); err != nil {
		t.Fatal(err)
	}
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "small"
	name, topic := g.topic(&rt)
	if name != "small" || topic.MaxBytes != 100 || !topic.Compacted || topic.AfterMax != 0 {
		t.Errorf("%s: %+v", name, topic)
	}
}
