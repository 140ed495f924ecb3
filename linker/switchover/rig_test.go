package switchover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/topics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// rig is an embedded target with all that a Switch needs of it.
type rig struct {
	*kfake.Cluster
	t     testing.TB
	admin *kgo.Client
	adm   *kadm.Client
	store *control.Store
	o     Options
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newClient(t testing.TB, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// plainReader gives fetcher.LogReader the shape of the port.
type plainReader struct{ *fetcher.LogReader }

func (r plainReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	return r.LogReader.Read(ctx, fetcher.ReadRequest{Partition: p, ID: id, From: from, MaxBytes: maxBytes})
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{Cluster: newCluster(t), t: t}
	plain := kgo.DisableIdempotentWrite()
	r.admin = newClient(t, r.Cluster)
	r.adm = kadm.NewClient(r.admin)
	m := leaders.New(r.admin)
	a := appender.New(appender.Options{Lanes: []*kgo.Client{newClient(t, r.Cluster, plain)}, Slow: newClient(t, r.Cluster, plain), Admin: r.admin,
		Leaders: m, Markers: newClient(t, r.Cluster), MarkerBulks: newClient(t, r.Cluster)})
	var err error
	r.store, err = control.Open(testContext(t), control.Options{Client: newClient(t, r.Cluster), Logger: New(Options{}).log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.Run(ctx) })
	wg.Go(func() { _ = r.store.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		r.store.Close()
		m.Close()
	})
	r.o = Options{Link: theLink, Store: r.store, Target: a, Reader: plainReader{fetcher.NewLogReader(r.admin, m, fetcher.NewBudget(0))},
		Settings: topics.NewTarget(r.admin, control.TopicName), Groups: NewGroups(r.admin), Owner: "test", Times: Times{Acks: 100 * time.Millisecond}}
	if err := r.store.PutLink(testContext(t), control.LinkRecord{Link: theLink, Mode: "mirror", SourceClusterID: "src"}); err != nil {
		t.Fatal(err)
	}
	return r
}

// mirror makes a mirror of a topic with records in each partition, written by
// nobody in particular.
func (r *rig) mirror(name string, partitions int32, records int) {
	r.t.Helper()
	ctx := testContext(r.t)
	forced := map[string]*string{"retention.ms": kadm.StringPtr("-1"), "retention.bytes": kadm.StringPtr("-1"), "compression.type": kadm.StringPtr("producer")}
	made, err := r.adm.CreateTopic(ctx, partitions, 1, forced, name)
	if err != nil {
		r.t.Fatal(err)
	}
	err = r.store.PutTopic(ctx, control.TopicRecord{Link: theLink, SourceTopic: name, TargetTopic: name, SourceID: topicID("s" + name), TargetID: feed.TopicID(made.ID),
		Partitions: partitions, SourceConfigs: control.NewConfigs(map[string]control.Config{"retention.ms": {Value: "3600000", Explicit: true}, "retention.bytes": {Value: "-1"}})})
	if err != nil {
		r.t.Fatal(err)
	}
	if records == 0 {
		return
	}
	cl := newClient(r.t, r.Cluster, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for n := range partitions {
		for i := range records {
			cl.Produce(ctx, &kgo.Record{Topic: name, Partition: n, Value: fmt.Appendf(nil, "%d", i)}, nil)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) retention(topic string) string {
	r.t.Helper()
	got, err := r.adm.DescribeTopicConfigs(testContext(r.t), topic)
	if err != nil || len(got) != 1 {
		r.t.Fatal(err)
	}
	for _, c := range got[0].Configs {
		if c.Key == "retention.ms" {
			return c.MaybeValue()
		}
	}
	return ""
}

// TestFailoverOnACluster: commands, fences, cuts, settings and groups against
// brokers, and a second time.
func TestFailoverOnACluster(t *testing.T) {
	r := newRig(t)
	r.mirror("orders", 3, 4)
	r.mirror("empty", 1, 0)
	ctx := testContext(t)
	if err := r.store.PutGroup(ctx, control.GroupRecord{Link: theLink, Group: "g", At: time.Now(), Offsets: []control.GroupOffset{
		{Topic: "orders", Partition: 1, Previous: feed.Unknown, Written: 3, SourceOffset: 3, At: time.Now()}}}); err != nil {
		t.Fatal(err)
	}
	offsets := make(kadm.Offsets)
	offsets.Add(kadm.Offset{Topic: "orders", Partition: 1, At: 3, LeaderEpoch: -1})
	if err := r.adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	var first Result
	for i := range 2 {
		res, err := New(r.o).Failover(ctx, Request{By: "op@host"})
		if err != nil {
			t.Fatalf("%v: %+v", err, res)
		}
		p := res.Topics[1].Partitions[1]
		if len(res.Topics) != 2 || *p.TargetEnd != 5 || *p.LastMirrored != 3 || !p.Fenced || *p.FenceOffset != 4 || res.Topics[1].State != "STOPPED" {
			t.Errorf("run %d: %+v", i, p)
		}
		if e := res.Topics[0].Partitions[0]; *e.FenceOffset != 0 || e.LastMirrored != nil {
			t.Errorf("run %d, empty: %+v", i, e)
		}
		if g := res.Groups; len(g) != 1 || g[0].State != "SYNCED" || *g[0].Partitions[0].RecordsToRead != 1 {
			t.Errorf("run %d: groups %+v", i, g)
		}
		if i == 0 {
			first = res
		} else if *first.Switch != *res.Switch {
			t.Errorf("switch %s, then %s", *first.Switch, *res.Switch)
		}
	}
	if got := r.retention("orders"); got != "3600000" {
		t.Errorf("retention.ms is %q", got)
	}
	ends, err := r.adm.ListEndOffsets(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != 5 {
			t.Errorf("partition %d ends at %d", o.Partition, o.Offset)
		}
	})
}

// TestAThousandPartitionsInSeconds holds the number of the README, less the wait
// for workers.
func TestAThousandPartitionsInSeconds(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.mirror(fmt.Sprintf("t%d", i), 100, 0)
	}
	begun := time.Now()
	res, err := New(r.o).Failover(testContext(t), Request{})
	took := time.Since(begun)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", took)
	if took > 3500*time.Millisecond && !raceEnabled {
		t.Errorf("took %v", took)
	}
	for _, topic := range res.Topics {
		for _, p := range topic.Partitions {
			if !p.Fenced || *p.FenceOffset != 0 {
				t.Fatalf("%s: %+v", topic.SourceTopic, p)
			}
		}
	}
}

// TestFailoverWithoutMarkers: the right is missing, and the right is named.
func TestFailoverWithoutMarkers(t *testing.T) {
	r := newRig(t)
	r.mirror("orders", 2, 1)
	r.o.Times.Session = 200 * time.Millisecond
	r.ControlKey(int16(kmsg.WriteTxnMarkers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.KeepControl()
		return refuse(req.(*kmsg.WriteTxnMarkersRequest)), nil, true
	})
	res, err := New(r.o).Failover(testContext(t), Request{})
	var failed *ItemsFailedError
	top := res.Topics[0]
	if !errors.As(err, &failed) || top.Reason != Unfenced || top.Partitions[0].Fenced || *top.Partitions[0].LastMirrored != 0 {
		t.Errorf("%v: %+v", err, top)
	}
	if got := r.retention("orders"); got != "3600000" {
		t.Errorf("retention.ms is %q: the settings come into force all the same", got)
	}
}

func refuse(req *kmsg.WriteTxnMarkersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, m := range req.Markers {
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = m.ProducerID
		for _, t := range m.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				rp.Partition, rp.ErrorCode = p, kerr.ClusterAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return resp
}

// TestFailoverFromWhatWasRead: the control topic can be read and not be written.
func TestFailoverFromWhatWasRead(t *testing.T) {
	r := newRig(t)
	r.mirror("orders", 1, 2)
	v, err := control.Read(testContext(t), newClient(t, r.Cluster))
	if err != nil {
		t.Fatal(err)
	}
	o := r.o
	o.Store = Recorded(v, errCut)
	res, err := New(o).Failover(testContext(t), Request{})
	if p := res.Topics[0].Partitions[0]; err == nil || !p.Fenced || *p.FenceOffset != 2 || res.Topics[0].OK || res.Switch != nil {
		t.Errorf("%v: %+v", err, res)
	}
	res, err = New(r.o).Failover(testContext(t), Request{})
	if p := res.Topics[0].Partitions[0]; err != nil || *p.FenceOffset != 2 || *p.LastMirrored != 1 {
		t.Errorf("%v: fence at %d, end %d", err, *p.FenceOffset, *p.TargetEnd)
	}
}

// TestEndsOfASource: a topic that is not there is an error of its own.
func TestEndsOfASource(t *testing.T) {
	r := newRig(t)
	r.mirror("orders", 2, 3)
	here, gone := feed.Partition{Topic: "orders", Partition: 1}, feed.Partition{Topic: "gone"}
	got, err := NewSourceEnds(r.admin).SourceEnds(testContext(t), []feed.Partition{here, gone})
	if err != nil {
		t.Fatal(err)
	}
	if e := got[here]; e.Err != nil || e.Stable != 3 || e.End != 3 || e.ID.IsZero() {
		t.Errorf("got %+v", e)
	}
	if e := got[gone]; e.Err == nil || e.End != feed.Unknown {
		t.Errorf("got %+v", e)
	}
}

// TestPreflightNamesWhatIsMissing.
func TestPreflightNamesWhatIsMissing(t *testing.T) {
	may := func(kind kmsg.ACLResourceType, name string, ops ...kmsg.ACLOperation) (out []kfake.ACL) {
		for _, op := range ops {
			out = append(out, kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true})
		}
		return out
	}
	acls := append(may(kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLOperationRead), may(kmsg.ACLResourceTypeTopic, "all", kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationDescribe)...)
	acls = append(acls, may(kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLOperationDescribe)...)
	c := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "klink", "secret", acls...),
		kfake.SeedTopics(1, "orders", "all"))
	as := func(user, pass string) *kgo.Client {
		return newClient(t, c, kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()))
	}
	got := Preflight(testContext(t), PreflightOptions{Client: as("klink", "secret"), Topics: []string{"orders", "all", "nowhere"}})
	// Who may not describe a topic is not told of it.
	want := []string{rightMarkers, "AlterConfigs on topic nowhere", "AlterConfigs on topic orders", "Write on topic __klink"}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range got {
		if w.Right != want[i] || w.Known != (i%2 == 0) || w.Detail == "" || w.Hint == "" {
			t.Errorf("got %+v, want %s", w, want[i])
		}
	}
	for _, w := range Preflight(testContext(t), PreflightOptions{Client: as("root", "root"), Topics: []string{"orders"}}) {
		if w.Known {
			t.Errorf("a superuser lacks %s", w.Right)
		}
	}
}
