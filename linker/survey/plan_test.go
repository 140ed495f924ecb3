package survey

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/topics"
)

// link is two embedded clusters and the options to plan between them.
type link struct {
	src, dst *cluster
	o        PlanOptions
}

func startLink(t testing.TB, include ...string) *link {
	t.Helper()
	l := &link{src: startCluster(t, kfake.ClusterID("source")), dst: startCluster(t, kfake.ClusterID("target"))}
	m, err := topics.NewMatcher(topics.Rules{Include: include, Rename: topics.Rename{Map: map[string]string{"renamed": "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	l.o = PlanOptions{Link: "east", Src: l.src.admin, Dst: l.dst.admin, SrcReader: l.src.read, DstReader: l.dst.read, Matcher: m,
		Policy: plan.Policy{Gaps: plan.FillMarkers, PadLimit: 1_000_000}, Otherwise: OtherwiseHalt, FollowStart: true, Limits: plan.DefaultLimits(), Pace: Assumed()}
	return l
}

func (c *cluster) create(t testing.TB, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	x := kmsg.NewCreateTopicsRequestTopic()
	x.Topic, x.NumPartitions, x.ReplicationFactor = topic, partitions, 1
	for k, v := range configs {
		x.Configs = append(x.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: &v})
	}
	req.Topics = append(req.Topics, x)
	resp, err := req.RequestWith(t.Context(), c.admin)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// produce writes n records to partition 0, each in a batch of its own.
func (c *cluster) produce(t testing.TB, cl *kgo.Client, topic string, n int) {
	t.Helper()
	for i := range n {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "%d", i), Value: make([]byte, 100)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// transact writes transactions of two records each, every other one aborted.
func (c *cluster) transact(t testing.TB, topic string, n int) {
	t.Helper()
	cl := c.client(kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		c.produce(t, cl, topic, 2)
		if err := cl.EndTransaction(t.Context(), i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cluster) plain() *kgo.Client {
	return c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
}

func (r PlanResult) topic(t testing.TB, name string) TopicPlan {
	t.Helper()
	i := slices.IndexFunc(r.Topics, func(x TopicPlan) bool { return x.SourceTopic == name })
	if i < 0 {
		t.Fatalf("no topic %s in %+v", name, r.Topics)
	}
	return r.Topics[i]
}

// requireNumbers checks the numbers of partition 0.
func requireNumbers(t testing.TB, x TopicPlan, start, end, pads, gaps int64) {
	t.Helper()
	p := x.Partitions[0]
	for name, n := range map[string][2]any{"source_start": {*p.SourceStart, start}, "source_end": {*p.SourceEnd, end}, "pad_offsets": {*p.PadOffsets, pads}, "gap_offsets": {*p.GapOffsets, gaps},
		"gap_estimated": {p.GapEstimated, false}, "gap_bytes": {*p.GapBytes, gaps * 78}} {
		if n[0] != n[1] {
			t.Errorf("%s: %s is %v, want %v", x.SourceTopic, name, n[0], n[1])
		}
	}
}

func TestPlan(t *testing.T) {
	l := startLink(t, "plain", "tx", "later", "mirrored", "wider", "renamed", "none-*", "absent")
	for _, topic := range []string{"plain", "tx", "later", "mirrored", "renamed"} {
		l.src.create(t, topic, 1, nil)
	}
	l.src.create(t, "wider", 1, nil)
	l.dst.create(t, "wider", 2, nil)
	l.dst.create(t, "mirrored", 1, map[string]string{"compression.type": "gzip"})
	src, dst := l.src.plain(), l.dst.plain()
	l.src.produce(t, src, "plain", 10)
	l.src.transact(t, "tx", 6)
	l.src.produce(t, src, "later", 10)
	if err := deleteRecords(t.Context(), l.src.admin.Broker(0), partitionZero("later"), 4); err != nil {
		t.Fatal(err)
	}
	l.src.produce(t, src, "mirrored", 10)
	l.dst.produce(t, dst, "mirrored", 3)

	r, err := Plan(t.Context(), l.o)
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]Outlook{"plain": Raw, "tx": Raw, "later": PadFirst, "mirrored": Raw, "wider": Refuse, "renamed": Raw, "absent": Refuse} {
		if got := r.topic(t, topic); got.Verdict != want || (len(got.Reasons) == 0) != (topic == "plain" || topic == "renamed") {
			t.Errorf("%s: %s, %q", topic, got.Verdict, got.Reasons)
		}
	}
	requireNumbers(t, r.topic(t, "plain"), 0, 10, 0, 0)
	requireNumbers(t, r.topic(t, "tx"), 0, 18, 0, 6+6) // markers, and the records of three aborted transactions
	requireNumbers(t, r.topic(t, "later"), 4, 10, 4, 0)
	requireNumbers(t, r.topic(t, "mirrored"), 0, 10, 0, 0)
	plain, later := r.topic(t, "plain").Partitions[0], r.topic(t, "later").Partitions[0]
	if *plain.DataBytes < 10*100 || *plain.EstimatedSeconds <= 0 || *plain.TargetEnd != 0 || *later.PadBytes != 3 || *later.DataBytes >= *plain.DataBytes {
		t.Errorf("%+v\n%+v", plain, later)
	}
	if got := *r.topic(t, "mirrored").Partitions[0].TargetEnd; got != 3 {
		t.Errorf("target end %d", got)
	}
	if got := r.topic(t, "renamed"); got.TargetTopic != "other" || *got.Partitions[0].SourceEnd != 0 {
		t.Errorf("%+v", got)
	}
	if i := slices.IndexFunc(r.Configs, func(d ConfigDifference) bool { return d.SourceTopic == "mirrored" && d.Key == "compression.type" }); i < 0 || *r.Configs[i].Target != "gzip" || *r.Configs[i].Planned != "producer" {
		t.Errorf("%+v", r.Configs)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "none-*") || len(r.Rates) != 1 || r.Rates[0].Link != "east" || r.Rates[0].MeasuredAt != nil || time.Since(r.AsOf) > time.Minute {
		t.Errorf("%+v, %+v", r.Notes, r.Rates)
	}
	// An embedded cluster has no authorizer: all is allowed, but what is not told.
	if len(r.Missing) != 0 {
		t.Errorf("missing rights %q", r.Missing)
	}
	l.requireUntouched(t)
}

// requireUntouched: planning made no topic on either side (S5).
func (l *link) requireUntouched(t testing.TB) {
	t.Helper()
	for side, c := range map[string]*cluster{"source": l.src, "target": l.dst} {
		req := kmsg.NewPtrMetadataRequest()
		resp, err := req.RequestWith(t.Context(), c.admin)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range resp.Topics {
			if side == "target" && *x.Topic != "wider" && *x.Topic != "mirrored" {
				t.Errorf("the %s has a topic %s", side, *x.Topic)
			}
		}
	}
}

// A long log is sampled, or read as a whole with Exact; both agree.
func TestPlanExact(t *testing.T) {
	l := startLink(t, "long")
	l.src.create(t, "long", 1, nil)
	cl := l.src.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(20_000), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.TransactionalID("long"))
	for range 300 {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var rs []*kgo.Record
		for range 10 {
			rs = append(rs, &kgo.Record{Topic: "long", Value: make([]byte, 5000)})
		}
		if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	sampled, err := Plan(t.Context(), l.o)
	if err != nil {
		t.Fatal(err)
	}
	l.o.Exact = true
	exact, err := Plan(t.Context(), l.o)
	if err != nil {
		t.Fatal(err)
	}
	s, e := sampled.topic(t, "long").Partitions[0], exact.topic(t, "long").Partitions[0]
	if e.GapEstimated || *e.GapOffsets != 300 || *e.SourceEnd != 3300 || *e.DataBytes < 300*50_000 {
		t.Errorf("exact: %d gaps, %d bytes, estimated: %v", *e.GapOffsets, *e.DataBytes, e.GapEstimated)
	}
	near := func(a, b int64) bool { return a*10 > b*8 && a*8 < b*10 }
	if !s.GapEstimated || !near(*s.GapOffsets, *e.GapOffsets) || !near(*s.DataBytes, *e.DataBytes) {
		t.Errorf("sampled: %d gaps, %d bytes; in truth %d and %d", *s.GapOffsets, *s.DataBytes, *e.GapOffsets, *e.DataBytes)
	}
	if m := exact.Rates[0].ExpectedMarkers; m == nil || *m <= 0 {
		t.Errorf("expected markers %v", m)
	}
}

// One partition that cannot be read is one partition's trouble.
func TestPlanUnreadable(t *testing.T) {
	l := startLink(t, "plain", "secret")
	for _, topic := range []string{"plain", "secret"} {
		l.src.create(t, topic, 1, nil)
		l.src.produce(t, l.src.plain(), topic, 3)
	}
	l.src.ControlKey(kmsg.Fetch.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		l.src.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) == 0 || req.Topics[0].TopicID != l.src.TopicInfo("secret").TopicID {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		x, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		x.TopicID, p.ErrorCode = req.Topics[0].TopicID, kerr.TopicAuthorizationFailed.Code
		x.Partitions = append(x.Partitions, p)
		resp.Topics = append(resp.Topics, x)
		return resp, nil, true
	})
	r, err := Plan(t.Context(), l.o)
	if err != nil {
		t.Fatal(err)
	}
	if x := r.topic(t, "secret"); x.Verdict != Refuse || !strings.Contains(strings.Join(x.Reasons, " "), "source: missing right: Read on topic secret") || x.Partitions[0].GapOffsets != nil {
		t.Errorf("%+v", x)
	}
	if x := r.topic(t, "plain"); x.Verdict != Raw {
		t.Errorf("%+v", x)
	}
}

func TestPlanOnly(t *testing.T) {
	l := startLink(t, "*")
	l.src.create(t, "a", 1, nil)
	l.src.create(t, "b", 1, nil)
	l.o.Only = func(source, _ string) bool { return source == "b" }
	r, err := Plan(t.Context(), l.o)
	if err != nil || len(r.Topics) != 1 || r.Topics[0].SourceTopic != "b" || len(r.Notes) != 0 {
		t.Errorf("%v: %+v", err, r)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Plan(ctx, l.o); err == nil {
		t.Error("no error after the end of its context")
	}
}

// fixed is a start at an offset.
type fixed int64

func (f fixed) Offset(context.Context, feed.Partition, feed.TopicID, feed.Bounds) (int64, error) {
	return int64(f), nil
}

// onRecord is what a control topic says of one partition.
type onRecord struct {
	topic  control.TopicRecord
	pad    control.PadRecord
	epochs []control.Epoch
}

func (r onRecord) Pad(string, string, int32) (control.PadRecord, bool) { return r.pad, r.pad.Goal > 0 }
func (r onRecord) Topic(string, string) (control.TopicRecord, bool)    { return r.topic, true }
func (r onRecord) Epochs(string, string, int32) []control.Epoch        { return r.epochs }

// The start decides where a mirror begins, and what is on record where it goes
// on; offsets are kept in each case.
func TestPlanBeginning(t *testing.T) {
	l := startLink(t, "a")
	l.src.create(t, "a", 1, nil)
	l.src.produce(t, l.src.plain(), "a", 10)
	padsOf := func() int64 {
		r, err := Plan(t.Context(), l.o)
		if err != nil {
			t.Fatal(err)
		}
		return *r.topic(t, "a").Partitions[0].PadOffsets
	}
	for start, want := range map[From]int64{nil: 0, fixed(0): 0, fixed(7): 7, fixed(10): 10} {
		if l.o.From = start; padsOf() != want {
			t.Errorf("from %v: not %d pads", start, want)
		}
	}
	l.o.From = nil
	l.dst.create(t, "a", 1, nil)
	l.dst.produce(t, l.dst.plain(), "a", 2)
	l.o.Records = onRecord{pad: control.PadRecord{Goal: 5, TargetID: feed.TopicID(l.dst.TopicInfo("a").TopicID)}}
	if got := padsOf(); got != 3 {
		t.Errorf("with a goal of 5 and two offsets there: %d pads", got)
	}
	l.o.Records = onRecord{pad: control.PadRecord{Goal: 5, TargetID: feed.TopicID{1}}} // of a target that is gone
	if got := padsOf(); got != 0 {
		t.Errorf("with another target's goal: %d pads", got)
	}
	l.o.Records = onRecord{epochs: []control.Epoch{{}}}
	if r, err := Plan(t.Context(), l.o); err != nil || !slices.Contains(r.topic(t, "a").Reasons, "mirrored up to offset 1 already") {
		t.Errorf("%v: %q", err, r.topic(t, "a").Reasons)
	}
}
