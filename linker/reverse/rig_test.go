package reverse

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/control"
	"klink/linker/intent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is an embedded cluster with what the Reverser asks it by.
type cluster struct {
	id     string
	client func(...kgo.Opt) *kgo.Client
	admin  *kgo.Client
	adm    *kadm.Client
	side   Side
}

// committedReader gives fetcher.LogReader the shape of the port.
type committedReader struct{ *fetcher.LogReader }

func (r committedReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	return r.LogReader.Read(ctx, fetcher.ReadRequest{Partition: p, ID: id, From: from, MaxBytes: maxBytes, ReadCommitted: true})
}

func startCluster(t testing.TB, id string) *cluster {
	t.Helper()
	network := &kfake.VirtualNetwork{}
	k, err := kfake.NewCluster(kfake.ListenFn(network.Listen), kfake.Ports(9092), kfake.ClusterID(id))
	must(t, err)
	t.Cleanup(k.Close)
	c := &cluster{id: id}
	c.client = func(opts ...kgo.Opt) *kgo.Client {
		t.Helper()
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10*time.Millisecond),
			kgo.Dialer(func(ctx context.Context, netw, addr string) (net.Conn, error) {
				return network.DialContext(ctx, netw, addr)
			}))...)
		must(t, err)
		t.Cleanup(cl.Close)
		return cl
	}
	c.admin = c.client()
	c.adm = kadm.NewClient(c.admin)
	m := leaders.New(c.admin)
	t.Cleanup(m.Close)
	ctl := c.client()
	c.side = Side{Admin: c.admin, Reader: committedReader{fetcher.NewLogReader(c.admin, m, fetcher.NewBudget(0))},
		Records: func(ctx context.Context) (Records, error) {
			v, err := control.Read(ctx, ctl)
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		Open: func(ctx context.Context) (Store, error) {
			return control.Open(ctx, control.Options{Client: ctl, Logger: slog.New(slog.DiscardHandler)})
		}}
	return c
}

// create makes a topic and returns its id.
func (c *cluster) create(t testing.TB, topic string, partitions int32) feed.TopicID {
	t.Helper()
	r, err := c.adm.CreateTopic(t.Context(), partitions, 1, nil, topic)
	must(t, err)
	return feed.TopicID(r.ID)
}

// grow adds a partition.
func (c *cluster) grow(t testing.TB, topic string) {
	t.Helper()
	all, err := c.adm.CreatePartitions(t.Context(), 1, topic)
	must(t, err)
	for _, r := range all {
		must(t, r.Err)
	}
}

// write appends records from an offset on, each text one; the same text at the same
// offset is the same record on every cluster.
func (c *cluster) write(t testing.TB, topic string, partition int32, from int64, texts ...string) {
	t.Helper()
	cl := c.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i, s := range texts {
		o := from + int64(i)
		r := &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "%d", o), Value: []byte(s), Timestamp: time.UnixMilli(1_700_000_000_000 + 1000*o)}
		must(t, cl.ProduceSync(t.Context(), r).FirstErr())
		if r.Offset != o {
			t.Fatalf("record %q stands at %d, want %d", s, r.Offset, o)
		}
	}
	cl.Close()
}

func (c *cluster) commit(t testing.TB, group, topic string, partition int32, at int64) {
	t.Helper()
	var os kadm.Offsets
	os.AddOffset(topic, partition, at, -1)
	r, err := c.adm.CommitOffsets(t.Context(), group, os)
	must(t, err)
	must(t, r.Error())
}

// opened is a running store, until the function is called.
func (c *cluster) opened(t testing.TB) (*control.Store, func()) {
	t.Helper()
	s, err := control.Open(t.Context(), control.Options{Client: c.client(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); wg.Wait(); s.Close() })
	t.Cleanup(stop)
	return s, stop
}

func (c *cluster) view(t testing.TB) *control.View {
	t.Helper()
	v, err := control.Read(t.Context(), c.admin)
	must(t, err)
	return v
}

// pairing is a link between two clusters, with topics of some partitions, stopped.
type pairing struct {
	src, dst   *cluster
	name       string
	partitions int32
	// ids are by topic name.
	srcID, dstID map[string]feed.TopicID
}

const definition = `name: east
mode: mirror
source: {brokers: [a:1], tls: {enabled: true, ca_file: /ca.pem}}
target: {brokers: [b:1], sasl: {mechanism: PLAIN, username: k, password_env: P}}
topics: {include: ["o*"], rename: {prefix: m-}, replication_factor: 3}
groups: {include: ["*"]}
start: latest
`

// target is the mirror's name of a topic.
func target(topic string) string { return "m-" + topic }

func startPairing(t testing.TB, partitions int32, names ...string) *pairing {
	t.Helper()
	p := &pairing{src: startCluster(t, "A"), dst: startCluster(t, "B"), name: "east", partitions: partitions,
		srcID: map[string]feed.TopicID{}, dstID: map[string]feed.TopicID{}}
	for _, n := range names {
		p.srcID[n], p.dstID[n] = p.src.create(t, n, partitions), p.dst.create(t, target(n), partitions)
	}
	s, stop := p.dst.opened(t)
	defer stop()
	must(t, s.PutLink(t.Context(), control.LinkRecord{Link: p.name, Mode: "mirror", SourceClusterID: "A", TargetClusterID: "B", Definition: definition}))
	for _, n := range names {
		must(t, s.PutTopic(t.Context(), control.TopicRecord{Link: p.name, SourceTopic: n, SourceID: p.srcID[n], TargetTopic: target(n),
			TargetID: p.dstID[n], Partitions: partitions, Generation: 4, Compacted: n == "compacted"}))
	}
	return p
}

// both writes the same to both sides.
func (p *pairing) both(t testing.TB, topic string, partition int32, from int64, texts ...string) {
	t.Helper()
	p.src.write(t, topic, partition, from, texts...)
	p.dst.write(t, target(topic), partition, from, texts...)
}

// cutAt is when every test's links are cut.
var cutAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stop promotes topics of a link at the given cluster, which is its target, as all
// partitions end there now.
func stop(t testing.TB, at *cluster, link string, switchID string, partitions int32, names ...string) {
	t.Helper()
	s, end := at.opened(t)
	defer end()
	must(t, s.CatchUp(t.Context()))
	slices.Sort(names)
	for _, n := range names {
		r, ok := s.Topic(link, n)
		if !ok {
			t.Fatalf("link %s has no topic %s", link, n)
		}
		cut := control.CutRecord{Link: link, Topic: n, Switch: switchID, SourceID: r.SourceID, TargetID: r.TargetID, TargetTopic: r.TargetTopic, At: cutAt}
		ends, err := at.adm.ListEndOffsets(t.Context(), r.TargetTopic)
		must(t, err)
		for i := range partitions {
			o, _ := ends.Lookup(r.TargetTopic, i)
			cut.Partitions = append(cut.Partitions, control.CutPartition{Partition: i, TargetEnd: o.Offset})
		}
		must(t, s.PutCut(t.Context(), cut))
	}
	for _, c := range []intent.Command{
		{Verb: intent.Pend, Wait: time.Minute, Switch: switchID},
		{Verb: intent.Promote, Switch: switchID, Fence: 1},
	} {
		c.Link, c.Topics, c.Number, c.ID = link, names, s.Intents(link).Next(), "00"
		must(t, s.PutCommand(t.Context(), c))
	}
}

// reverser turns the link around.
func (p *pairing) reverser() *Reverser {
	return New(Options{Source: p.src.side, Target: p.dst.side, Groups: func(g string) bool { return g != "left-out" },
		Version: "v", By: "me@here", Now: func() time.Time { return cutAt.Add(time.Hour) }})
}
