package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/comparator"
	"klink/linker/maps"
	"klink/translate/exact"
)

// foreignRecords are on a target topic before klink copies to it.
const foreignRecords = 25

// TestCheckpointMode copies source logs of several kinds onto target topics that
// hold other data, through kills by SIGKILL under load: every visible record is
// there once and in its order, nothing else is, and the map on the target knows the
// place of each.
func TestCheckpointMode(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Props: shapes.BrokerProps()}
	p := startPair(t, o, o)
	topics := []string{"orders", "txns", "cleaned"}
	create(t, p.src, lab.TopicSpec{Name: "orders", Partitions: 2, Configs: lab.KeepEverything()})
	if err := shapes.Transactions(within(t, 2*patience), p.src, shapes.Place{Topic: "txns", Partitions: 2, Seed: 5}, 60); err != nil {
		t.Fatal(err)
	}
	if err := shapes.Compacted(within(t, 2*patience), p.src, shapes.Place{Topic: "cleaned", Partitions: 1, Seed: 5}); err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		n := int32(len(boundsOf(t, p.src, topic)))
		create(t, p.dst, lab.TopicSpec{Name: "east." + topic, Partitions: n, Configs: lab.KeepEverything()})
		produceForeign(t, p.dst, "east."+topic, n)
	}
	l := openLink("ferry", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topics...)
	l["mode"], l["checkpoint"] = "checkpoint", object{"source_alias": "east"}
	file := configFile(t, l)

	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: []string{"orders"}, Seed: 7,
		MaxBatch: 50, RecordsPerSecond: 5_000, From: time.Now(), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(3, 4))
	for range CheckpointKills.N() {
		k := startKlink(t, "-c", file)
		before := boundsOf(t, p.dst, "east.orders")[0].End
		eventually(t, patience, "something to be copied", func() bool { return boundsOf(t, p.dst, "east.orders")[0].End > before })
		<-time.After(time.Duration(dice.IntN(200)) * time.Millisecond) // the moment is the test's input
		k.kill(t)
	}
	if r := load.Stop(); r.Err != nil {
		t.Fatal(r.Err)
	}
	k := startKlink(t, "-c", file)
	for _, topic := range topics {
		for n := range boundsOf(t, p.src, topic) {
			requireCopied(t, p, topic, int32(n))
		}
	}
	k.stop(t)
	requireMapped(t, p, topics)
	requireEqualThroughTheMap(t, file)
}

// requireEqualThroughTheMap has klink compare find all copies, each once. The target's
// topics, which were there before, have settings of their own.
func requireEqualThroughTheMap(t testing.TB, file string) {
	t.Helper()
	r, o := compare(t, "-c", file)
	if r.Failed > 0 || r.Differences != int64(len(r.Configs)) {
		t.Errorf("klink compare: exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			if p.Mode != comparator.Checkpoint || p.RecordsCompared == 0 || *p.Duplicates != 0 || *p.Digest != *p.TargetDigest {
				t.Errorf("%s/%d: %+v", topic.SourceTopic, p.Partition, p)
			}
		}
	}
}

// produceWhere writes records to the partitions that they name.
func produceWhere(t testing.TB, c lab.Cluster, all []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(append(slices.Clone(c.AdminOpts()), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(within(t, patience), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// produceForeign writes what is not klink's to each partition.
func produceForeign(t testing.TB, c lab.Cluster, topic string, partitions int32) {
	t.Helper()
	var all []*kgo.Record
	for n := range partitions {
		for i := range foreignRecords {
			all = append(all, &kgo.Record{Topic: topic, Partition: n, Key: fmt.Appendf(nil, "other-%d", i), Value: []byte("not copied")})
		}
	}
	produceWhere(t, c, all)
}

// visible reads what a read_committed consumer sees of a partition up to the log's
// end as it is now.
func visible(t testing.TB, c lab.Cluster, topic string, partition int32) (all []*kgo.Record) {
	t.Helper()
	bounds, err := lab.ReadBounds(within(t, patience), c, lab.ReadCommitted, topic)
	if err != nil {
		t.Fatal(err)
	}
	b := bounds[lab.Partition{Topic: topic, Number: partition}]
	cl, err := kgo.NewClient(append(slices.Clone(c.AdminOpts()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(b.Start)}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	for next := b.Start; next < b.End; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %s[%d] at %d of %d: %v", topic, partition, next, b.End, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
		})
		if fetches.Empty() {
			next = b.End
		}
	}
	return all
}

// requireCopied waits until the target shows what the source shows, behind what was
// there before, and compares.
func requireCopied(t testing.TB, p pair, topic string, n int32) {
	t.Helper()
	want := visible(t, p.src, topic, n)
	var got []*kgo.Record
	eventually(t, patience, fmt.Sprintf("%s[%d] to be copied", topic, n), func() bool {
		got = visible(t, p.dst, "east."+topic, n)
		return len(got) >= foreignRecords+len(want)
	})
	if len(got) != foreignRecords+len(want) || len(want) == 0 {
		t.Fatalf("%s[%d]: %d records on the target, of which %d are not copies; %d on the source", topic, n, len(got), foreignRecords, len(want))
	}
	for i, w := range want {
		if g := got[foreignRecords+i]; !sameRecord(g, w) {
			t.Fatalf("%s[%d]: copy %d at offset %d is not the record at offset %d of the source", topic, n, i, g.Offset, w.Offset)
		}
	}
}

func sameRecord(a, b *kgo.Record) bool {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	return same(a.Key, b.Key) && same(a.Value, b.Value) && a.Timestamp.Equal(b.Timestamp) &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b kgo.RecordHeader) bool { return a.Key == b.Key && same(a.Value, b.Value) })
}

// recordedMaps are the maps on record on a target.
func recordedMaps(t testing.TB, c lab.Cluster) *maps.View {
	t.Helper()
	cl, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	view, err := maps.Read(within(t, patience), cl)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// requireMapped: the map on the target leads from each record to its copy and back.
func requireMapped(t testing.TB, p pair, topics []string) {
	t.Helper()
	view := recordedMaps(t, p.dst)
	places := view.Places("ferry")
	checked := 0
	for _, place := range places {
		m, _, err := view.Map(place)
		if err != nil {
			t.Fatal(err)
		}
		src, dst := visible(t, p.src, place.Topic, place.Partition), visible(t, p.dst, "east."+place.Topic, place.Partition)
		for i, r := range src {
			at := dst[foreignRecords+i].Offset
			to, back := m.ToTarget(r.Offset), m.ToSource(at)
			if to != (exact.Answer{Offset: at, Kind: exact.Exact}) || back != (exact.Answer{Offset: r.Offset, Kind: exact.Exact}) {
				t.Fatalf("%s[%d]: offset %d leads to %+v and its copy's %d back to %+v", place.Topic, place.Partition, r.Offset, to, at, back)
			}
			checked++
		}
		t.Logf("%s[%d]: %d records, %d runs", place.Topic, place.Partition, len(src), m.Len())
	}
	if len(places) != 5 || checked == 0 {
		t.Errorf("%d maps of %d topics", len(places), len(topics))
	}
}
