package e2e

import (
	"testing"

	"klink/cmd/lab"
)

// TestManyPartitions mirrors one topic of many partitions, with the fetch
// sessions and the shared memory that many need, beside a topic with few; and
// partitions that are added at the source while klink runs.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	create(t, p.src,
		lab.TopicSpec{Name: "wide", Partitions: int32(ManyPartitions.N()), Configs: lab.KeepEverything()},
		lab.TopicSpec{Name: "narrow", Partitions: 1, Configs: lab.KeepEverything()},
		lab.TopicSpec{Name: "empty", Partitions: 3, Configs: lab.KeepEverything()})
	k := startKlink(t, p.plain("*")...)
	total := produce(t, p.src, lab.LoadOptions{Topics: []string{"wide", "narrow"}, Seed: 1, MaxBatch: 20, Total: int64(100 * ManyPartitions.N())}).Acked
	requireMirrored(t, p, total, "wide", "narrow", "empty")

	addPartitions(t, p.src, "narrow", 4)
	total += produce(t, p.src, lab.LoadOptions{Topics: []string{"narrow"}, Seed: 2, Total: 4_000}).Acked
	k.awaitEnds(t, "narrow", map[int32]int64{3: 1})
	requireMirrored(t, p, total, "wide", "narrow", "empty")
	k.stop(t)
}
