package translate

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/translate/exact"
	"klink/translate/mm2"
)

var policy = mm2.Policy{Source: "a", Target: "b"}

// at is a time of the tests, by seconds.
func at(seconds int64) time.Time { return time.Unix(1_700_000_000+seconds, 0) }

func syncRecord(t testing.TB, topic string, partition int32, up, down int64) *kgo.Record {
	t.Helper()
	k, v, err := mm2.Sync{Topic: topic, Partition: partition, Up: up, Down: down}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Key: k, Value: v, Timestamp: at(up)}
}

func checkpointRecord(t testing.TB, group, topic string, up, down int64) *kgo.Record {
	t.Helper()
	k, v, err := mm2.Checkpoint{Key: mm2.Key{Group: group, Topic: topic}, Up: up, Down: down}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Key: k, Value: v, Timestamp: at(up)}
}

// left builds what a MirrorMaker 2 left, read to its end.
func left(t testing.TB, checkpoints, syncs []*kgo.Record) *MirrorMaker {
	t.Helper()
	m := &MirrorMaker{Policy: policy}
	if checkpoints != nil {
		m.Checkpoints = &Checkpoints{Read: Read{Complete: true, UndecodableAt: Unknown}}
		for _, r := range checkpoints {
			m.Checkpoints.take(r, m.Checkpoints.apply)
		}
	}
	if syncs != nil {
		m.Syncs = &Syncs{Read: Read{Complete: true, UndecodableAt: Unknown}}
		for _, r := range syncs {
			m.Syncs.take(r, m.Syncs.apply)
		}
	}
	return m
}

// copied is one source partition and its copy, record by record.
type copied struct {
	src, dst []int64 // both rise
	srcEnd   int64
	dstEnd   int64
}

// newCopied copies some records, with gaps on both sides.
func newCopied(rng *rand.Rand) copied {
	var c copied
	c.srcEnd, c.dstEnd = rng.Int64N(5), rng.Int64N(5)
	for range 1 + rng.IntN(300) {
		if rng.IntN(6) == 0 {
			c.srcEnd += rng.Int64N(4)
		}
		if rng.IntN(6) == 0 {
			c.dstEnd += rng.Int64N(4)
		}
		c.src, c.dst = append(c.src, c.srcEnd), append(c.dst, c.dstEnd)
		c.srcEnd, c.dstEnd = c.srcEnd+1, c.dstEnd+1
	}
	return c
}

func (c copied) exact(t testing.TB) *exact.Map {
	t.Helper()
	m := &exact.Map{}
	for i := range c.src {
		if err := m.Add(exact.Run{Src: c.src[i], Dst: c.dst[i], Count: 1, Seq: int32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// reread is how many records of one side at or above the answer are of positions
// below the question on the other; skipped how many at or above it are missed.
func reread(asked, answered int64, from, to []int64) (again, skipped int64) {
	for i := range from {
		switch {
		case from[i] < asked && to[i] >= answered:
			again++
		case from[i] >= asked && to[i] < answered:
			skipped++
		}
	}
	return again, skipped
}

// fake is a cluster with a client.
func fake(t testing.TB) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return c, cl
}

// write makes a topic and writes records there.
func write(t testing.TB, cl *kgo.Client, topic string, records ...*kgo.Record) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, topic); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Topic = topic
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
