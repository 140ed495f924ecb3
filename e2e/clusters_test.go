package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
)

// pair is a source and a target cluster.
type pair struct{ src, dst *lab.Kafka }

// startPair starts two clusters side by side.
func startPair(t testing.TB, src, dst lab.KafkaOptions) pair {
	t.Helper()
	var p pair
	var g errgroup.Group
	g.Go(func() error { p.src = labtest.StartKafka(t, src); return nil })
	g.Go(func() error { p.dst = labtest.StartKafka(t, dst); return nil })
	if err := g.Wait(); err != nil || p.src == nil || p.dst == nil {
		t.Fatal("the clusters did not start")
	}
	return p
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
