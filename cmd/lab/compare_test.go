package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
)

// pair is two embedded clusters with the topic t.
func pair(t *testing.T, partitions int32) (src, dst *lab.Embedded) {
	t.Helper()
	src, dst = labtest.StartEmbedded(t, lab.EmbeddedOptions{Brokers: 2}), labtest.StartEmbedded(t, lab.EmbeddedOptions{})
	for _, c := range []lab.Cluster{src, dst} {
		labtest.CreateTopics(t, c, lab.TopicSpec{Name: "t", Partitions: partitions, Configs: lab.KeepEverything()})
	}
	return src, dst
}

// produce writes records to partition 0 of t.
func produce(t *testing.T, c lab.Cluster, records ...kgo.Record) {
	t.Helper()
	cl := client(t, c.AdminOpts(), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, r := range records {
		if err := cl.ProduceSync(within(t, 10*time.Second), &r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

func TestL5TheSameLoadIsEqual(t *testing.T) {
	src, dst := pair(t, 4)
	for _, c := range []lab.Cluster{src, dst} {
		report := labtest.Produce(t, c, lab.LoadOptions{Topics: []string{"t"}, Seed: 3, Total: 20000, LargeEvery: 40, From: at(0), To: at(1e12), Idempotent: c == lab.Cluster(src)})
		if report.Acked < 20000 || len(report.Ends) != 4 {
			t.Fatalf("report %+v", report)
		}
	}
	labtest.AwaitMirrored(t, src, dst, "t")
	c := labtest.RequireEqual(t, src, dst, 20000, "t")
	for _, p := range c.Partitions {
		if p.SrcDigest != p.DstDigest || len(p.SrcDigest.Hex) != 64 {
			t.Errorf("%s: digests %+v and %+v", p.Src, p.SrcDigest, p.DstDigest)
		}
		d, err := lab.DigestPartition(within(t, 20*time.Second), dst, p.Dst, lab.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d != p.SrcDigest {
			t.Errorf("%s: digested alone %+v, compared %+v", p.Src, d, p.SrcDigest)
		}
	}
}

func TestL5EveryDifferenceIsFound(t *testing.T) {
	base := kgo.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: at(1000), Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "b"}}}
	for _, c := range []struct {
		name   string
		change func(*kgo.Record)
		shows  string
	}{
		{"null for empty key", func(r *kgo.Record) { r.Key = nil }, "key null"},
		{"empty for null header", func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte{}}, {Key: "b"}} }, `header "a" ""`},
		{"header order", func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "b"}, {Key: "a"}} }, `header "b" null, header "a" null`},
		{"one millisecond", func(r *kgo.Record) { r.Timestamp = at(1001) }, "time 1001"},
		{"value", func(r *kgo.Record) { r.Value = []byte("w") }, `value "w"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, dst := pair(t, 1)
			changed := base
			c.change(&changed)
			produce(t, src, base, base, base)
			produce(t, dst, base, changed, base)
			got := labtest.Compare(t, src, dst, lab.CompareOptions{Topics: []string{"t"}})
			first := got.Partitions[0].First
			if got.Equal() || first == nil || first.Offset != 1 || !strings.Contains(got.String(), c.shows) {
				t.Errorf("the comparison says %s, want a difference at 1 that shows %s", got, c.shows)
			}
		})
	}
}

func TestL5MissingAndSurplusEndsAreSeen(t *testing.T) {
	src, dst := pair(t, 1)
	r := kgo.Record{Value: []byte("v"), Timestamp: at(1000)}
	produce(t, src, r, r)
	produce(t, dst, r)
	c := labtest.Compare(t, src, dst, lab.CompareOptions{Topics: []string{"t"}})
	if !c.Equal() || c.SameEnds() || c.Records() != 1 {
		t.Errorf("one record of two is there: %s", c)
	}
	expired, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := lab.AwaitMirrored(expired, src, dst, lab.CompareOptions{Topics: []string{"t"}}); err == nil {
		t.Error("a target that is behind counts as mirrored")
	}
}

func TestL5NothingReadIsNoSuccess(t *testing.T) {
	src, dst := pair(t, 1)
	if !fails(t, func(tb testing.TB) { labtest.RequireEqual(tb, src, dst, 0, "t") }) {
		t.Error("two empty topics were found equal")
	}
	r := kgo.Record{Value: []byte("v"), Timestamp: at(1000)}
	produce(t, src, r)
	produce(t, dst, r)
	if fails(t, func(tb testing.TB) { labtest.RequireEqual(tb, src, dst, 1, "t") }) {
		t.Error("one equal record was not enough")
	}
	if !fails(t, func(tb testing.TB) { labtest.RequireEqual(tb, src, dst, 2, "t") }) {
		t.Error("one record was enough where two were asked for")
	}
	if _, err := lab.CompareClusters(t.Context(), src, dst, lab.CompareOptions{}); err == nil {
		t.Error("a comparison of no topics was made")
	}
	if _, err := lab.CompareClusters(within(t, 5*time.Second), src, dst, lab.CompareOptions{Topics: []string{"t"}, Rename: map[string]string{"t": "none"}}); err == nil {
		t.Error("a topic that the target does not have was compared")
	}
}

// recorder is a TB that only remembers that the test failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }
func (r *recorder) Fatal(...any)          { r.failed = true; panic(r) }

// fails runs a check and says whether it failed its test.
func fails(t *testing.T, check func(testing.TB)) (failed bool) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		failed = r.failed
	}()
	check(r)
	return r.failed
}

func TestTransactionsAreReadAsTheIsolationSays(t *testing.T) {
	src, dst := pair(t, 1)
	txn := client(t, src.AdminOpts(), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := txn.ProduceSync(within(t, 10*time.Second), &kgo.Record{Value: []byte("v"), Timestamp: at(1000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := txn.EndTransaction(within(t, 10*time.Second), commit); err != nil {
			t.Fatal(err)
		}
	}
	// The log: a record, its commit marker, an aborted record, its marker.
	for isolation, want := range map[lab.Isolation]int64{lab.ReadCommitted: 1, lab.ReadUncommitted: 2} {
		d, err := lab.DigestPartition(within(t, 20*time.Second), src, lab.Partition{Topic: "t"}, lab.ReadOptions{Isolation: isolation})
		if err != nil {
			t.Fatal(err)
		}
		if d.Records != want || d.To != 4 {
			t.Errorf("isolation %d: %d records up to %d, want %d up to 4", isolation, d.Records, d.To, want)
		}
	}
	// A range that ends in invisible records ends all the same.
	d, err := lab.DigestPartition(within(t, 20*time.Second), src, lab.Partition{Topic: "t"}, lab.ReadOptions{From: 2, To: 3})
	if err != nil || d.Records != 0 {
		t.Errorf("an aborted record alone: %+v, %v", d, err)
	}
	r := kgo.Record{Value: []byte("v"), Timestamp: at(1000)}
	produce(t, dst, r)
	if c := labtest.Compare(t, src, dst, lab.CompareOptions{Topics: []string{"t"}}); !c.Equal() || c.Records() != 1 {
		t.Errorf("%s", c)
	}
	produce(t, dst, r, r, r)
	c := labtest.Compare(t, src, dst, lab.CompareOptions{Topics: []string{"t"}, SrcUncommitted: true, DstCommitted: true})
	if first := c.Partitions[0].First; first == nil || first.Offset != 1 || first.Src != nil || first.Dst == nil {
		t.Errorf("a record where the source has a marker: %s", c)
	}
}
