package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
)

// pair is a source and a target cluster.
type pair struct{ src, dst *lab.Kafka }

// seats are what tests wait for: how many brokers run at once decides how much
// memory all of them take, and how much each is slowed down by the others. Who asks
// for many is not passed over by those who ask for few. All that a test needs is
// taken at once; a test that held some and waited for more might wait for itself.
var seats = semaphore.NewWeighted(brokersAtOnce)

// brokersAtOnce is chosen for two processors and 7 GB: a broker takes some 280 MB,
// and the largest test has six.
const brokersAtOnce = 8

// startAll starts clusters side by side once there are seats for all of them.
func startAll(t testing.TB, all ...lab.KafkaOptions) []*lab.Kafka {
	t.Helper()
	if testing.Short() {
		t.Skip("no real cluster in -short")
	}
	var brokers int64
	for _, o := range all {
		brokers += int64(max(1, o.Brokers))
	}
	if err := seats.Acquire(t.Context(), brokers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { seats.Release(brokers) })
	started := make([]*lab.Kafka, len(all))
	var wg sync.WaitGroup
	for i, o := range all {
		wg.Go(func() { started[i] = labtest.StartKafka(t, o) })
	}
	wg.Wait()
	if slices.Contains(started, nil) {
		t.Fatal("the clusters did not start")
	}
	return started
}

// startOne starts a single cluster.
func startOne(t testing.TB, o lab.KafkaOptions) *lab.Kafka {
	t.Helper()
	return startAll(t, o)[0]
}

// startPair starts two clusters.
func startPair(t testing.TB, src, dst lab.KafkaOptions) pair {
	t.Helper()
	all := startAll(t, src, dst)
	return pair{src: all[0], dst: all[1]}
}

// plain are the flags for two open clusters.
func (p pair) plain(topics ...string) []string {
	args := []string{"--source", p.src.Bootstrap()[0], "--target", p.dst.Bootstrap()[0]}
	for _, t := range topics {
		args = append(args, "--topic", t)
	}
	return args
}

// within returns a context for one step of a test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// create makes topics.
func create(t testing.TB, c lab.Cluster, specs ...lab.TopicSpec) {
	t.Helper()
	if err := lab.CreateTopics(within(t, patience), c, specs...); err != nil {
		t.Fatal(err)
	}
}

// addPartitions grows a topic.
func addPartitions(t testing.TB, c lab.Cluster, topic string, to int) {
	t.Helper()
	cl, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r, err := kadm.NewClient(cl).UpdatePartitions(within(t, patience), to, topic)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	// The brokers learn of them a moment later; who writes before leaves them empty.
	ctx, adm := within(t, patience), admin(t, c)
	waitFor(t, "the partitions to be known", func() bool {
		known, err := adm.ListTopics(ctx, topic)
		return err == nil && len(known[topic].Partitions) == to
	})
}

// produce writes a load to its end and returns what was acknowledged.
func produce(t testing.TB, c lab.Cluster, o lab.LoadOptions) lab.LoadReport {
	t.Helper()
	l, err := lab.StartLoad(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Wait(within(t, 10*patience))
	if err != nil || r.Err != nil {
		t.Fatalf("load: %v, %v", err, r.Err)
	}
	return r
}

// requireMirrored waits until the target holds all of the source, which must be
// at rest, and compares both sides record by record.
func requireMirrored(t testing.TB, p pair, atLeast int64, topics ...string) lab.Comparison {
	t.Helper()
	o := lab.CompareOptions{Topics: topics}
	if err := lab.AwaitMirrored(within(t, 4*patience), p.src, p.dst, o); err != nil {
		t.Fatal(err)
	}
	return requireEqual(t, p, atLeast, topics...)
}

// requireEqual compares what both sides hold now.
func requireEqual(t testing.TB, p pair, atLeast int64, topics ...string) lab.Comparison {
	t.Helper()
	c, err := lab.CompareClusters(within(t, 10*patience), p.src, p.dst, lab.CompareOptions{Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Equal() || !c.SameEnds() {
		t.Fatalf("not equal: %s", c)
	}
	if c.Records() < atLeast {
		t.Fatalf("only %d records compared, want %d", c.Records(), atLeast)
	}
	for _, x := range c.Partitions {
		if x.SrcDigest != x.DstDigest || (x.SrcDigest.Records > 0 && strings.Count(x.SrcDigest.Hex, "0") == 64) {
			t.Fatalf("%s: digests %+v and %+v", x.Src, x.SrcDigest, x.DstDigest)
		}
	}
	return c
}
