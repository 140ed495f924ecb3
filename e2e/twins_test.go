package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/linker/state"
)

// TestG3_TwoKlinksFromTheFirstAppendOn starts two processes on one link at once,
// with nothing on the target, on records with current and with old timestamps
// (which the broker forgets the producer of at its next look, here every second).
// In the end they share both topics, and each shows all of them. No other test runs
// beside it: what one has sent when the other is given the partition has to reach the
// broker before the other's first batch.
func TestG3_TwoKlinksFromTheFirstAppendOn(t *testing.T) {
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{Props: map[string]string{"producer.id.expiration.check.interval.ms": "1000"}})
	now := time.Now()
	loads := map[string]lab.LoadOptions{
		"current": {From: now.Add(-time.Minute), To: now},
		"old":     {From: now.AddDate(0, 0, -30), To: now.AddDate(0, 0, -20)},
	}
	var total int64
	var topics []string
	for name, o := range loads {
		create(t, p.src, lab.TopicSpec{Name: name, Partitions: 4, Configs: lab.KeepEverything()})
		topics = append(topics, name)
		o.Topics, o.Seed, o.MaxBatch, o.Total = []string{name}, 5, 30, int64(TwinRecords.N())
		loads[name] = o
		half := o
		half.Total /= 2
		total += produce(t, p.src, half).Acked
	}
	a := startKlink(t, p.plain(topics...)...)
	b := startKlink(t, p.plain(topics...)...)
	for _, o := range loads { // the other half while both run
		o.Seed, o.Total, o.RecordsPerSecond = 6, o.Total/2, 5_000
		total += produce(t, p.src, o).Acked
	}
	requireMirrored(t, p, total, topics...)
	for _, k := range []*klink{a, b} {
		for _, topic := range topics {
			for n := range int32(4) {
				l := k.await(t, fmt.Sprintf("%s/%d ACTIVE", topic, n), func(l state.Link) bool {
					s, ok := partition(l, topic, n)
					return ok && (s.State == state.Active || s.State == state.Halted)
				})
				if s, _ := partition(l, topic, n); s.State == state.Halted {
					t.Errorf("%s/%d halted: %s %s", topic, n, s.Reason, s.Detail)
				}
			}
		}
	}
	a.stop(t)
	b.stop(t)
	requireEqual(t, p, total, topics...)
}

// TestG4_ForeignWrite lets another producer write one record to a mirrored
// topic: under traffic the partition halts at once, idle within five seconds,
// and names what lies behind; all other partitions go on.
func TestG4_ForeignWrite(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	for _, name := range []string{"busy", "idle"} {
		create(t, p.src, lab.TopicSpec{Name: name, Partitions: 3, Configs: lab.KeepEverything()})
	}
	total := produce(t, p.src, lab.LoadOptions{Topics: []string{"busy", "idle"}, Seed: 1, Total: 3_000}).Acked
	k := startKlink(t, p.plain("busy", "idle")...)
	requireMirrored(t, p, total, "busy", "idle")

	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: []string{"busy"}, Seed: 2, MaxBatch: 20, RecordsPerSecond: 2_000})
	if err != nil {
		t.Fatal(err)
	}
	at := foreignRecord(t, p.dst, "busy", 1)
	s := k.awaitHalt(t, "busy", 1, state.ForeignWrite)
	// Told by the answer to an append, or by a comparison where the partition was just
	// being looked at.
	if !strings.Contains(s.Detail, fmt.Sprintf("offsets %d to ", at)) {
		t.Errorf("the record at %d is not named: %s", at, s.Detail)
	}

	at = foreignRecord(t, p.dst, "idle", 2)
	began := time.Now()
	s = k.awaitHalt(t, "idle", 2, state.ForeignWrite)
	if took := time.Since(began); took > slack*5*time.Second {
		t.Errorf("an idle partition halted after %s, want within 5 s on an idle machine", took)
	}
	if !strings.Contains(s.Detail, fmt.Sprint(at)) {
		t.Errorf("the record at %d is not named: %s", at, s.Detail)
	}

	r := load.Stop()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	k.awaitEnds(t, "busy", map[int32]int64{0: r.Ends[lab.Partition{Topic: "busy"}], 2: r.Ends[lab.Partition{Topic: "busy", Number: 2}]})
	c, err := lab.CompareClusters(within(t, patience), p.src, p.dst, lab.CompareOptions{Topics: []string{"busy", "idle"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range c.Partitions {
		halted := x.Src == lab.Partition{Topic: "busy", Number: 1} || x.Src == lab.Partition{Topic: "idle", Number: 2}
		if !halted && (x.First != nil || x.SrcDigest != x.DstDigest || x.SrcBounds.End != x.DstBounds.End) {
			t.Errorf("%s went wrong beside a halted one: %+v", x.Src, x)
		}
		if x.Src == (lab.Partition{Topic: "busy", Number: 1}) && x.First == nil {
			t.Error("the verifier does not see the foreign record")
		}
	}
	// Nothing is appended after a halt, and a restart finds the same.
	ended := targetEnd(t, p, "busy", 1)
	k.stop(t)
	k = startKlink(t, p.plain("busy", "idle")...)
	k.awaitHalt(t, "busy", 1, state.ForeignWrite)
	k.awaitHalt(t, "idle", 2, state.ForeignWrite)
	if now := targetEnd(t, p, "busy", 1); now != ended {
		t.Errorf("the halted partition grew from %d to %d", ended, now)
	}
	k.stop(t)
}

// foreignRecord writes one record as any application would, and returns where.
func foreignRecord(t testing.TB, c lab.Cluster, topic string, n int32) int64 {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := cl.ProduceSync(within(t, patience), &kgo.Record{Topic: topic, Partition: n, Key: []byte("k"), Value: []byte("foreign")})
	if err := r.FirstErr(); err != nil {
		t.Fatal(err)
	}
	return r[0].Record.Offset
}

// targetEnd is a partition's end on the target.
func targetEnd(t testing.TB, p pair, topic string, n int32) int64 {
	t.Helper()
	b, err := lab.ReadBounds(within(t, patience), p.dst, lab.ReadUncommitted, topic)
	if err != nil {
		t.Fatal(err)
	}
	return b[lab.Partition{Topic: topic, Number: n}].End
}
