package groups

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"klink/linker/control"
	"klink/linker/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a source and a target with the topic "orders", called dr.orders on the
// target, holding records on both, and a session whose steps the test makes.
type pair struct {
	t        testing.TB
	ctx      context.Context
	src, dst *kfake.Cluster
	srcCl    *kgo.Client
	dstCl    *kgo.Client
	srcAdm   *kadm.Client
	dstAdm   *kadm.Client
	now      time.Time
	store    *memStore
	lease    *memLease
	shown    []state.Topic
	o        Options
	session  *session
}

func newPair(t testing.TB, opts ...kfake.Opt) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	p := &pair{t: t, ctx: ctx, now: time.Now(), lease: new(memLease)}
	cluster := func(topic string) (*kfake.Cluster, *kgo.Client) {
		c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2), kfake.SeedTopics(2, topic))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c, p.client(c)
	}
	p.src, p.srcCl = cluster("orders")
	p.dst, p.dstCl = cluster("dr.orders")
	p.srcAdm, p.dstAdm = kadm.NewClient(p.srcCl), kadm.NewClient(p.dstCl)
	filter, err := NewFilter([]string{"*"}, []string{"excluded"})
	if err != nil {
		t.Fatal(err)
	}
	p.store = newMemStore(control.TopicRecord{Link: "l", SourceTopic: "orders", TargetTopic: "dr.orders", TargetID: p.topicID("dr.orders")})
	p.o = Options{Link: "l", Worker: "w", Source: p.srcCl, Target: p.dstCl, Committers: []*kgo.Client{p.client(p.dst), p.client(p.dst)},
		Filter: filter, MirrorOf: func(s string) (string, bool) { return "dr." + s, s == "orders" },
		Topics: func() []state.Topic { return p.shown }, Lease: p.lease, Interval: time.Second, Pace: DefaultPace(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Meter: noop.NewMeterProvider().Meter(""),
		Now: func() time.Time { return p.now }}
	p.restart()
	return p
}

func (p *pair) client(c *kfake.Cluster) *kgo.Client {
	p.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.RequestRetries(2),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(cl.Close)
	return cl
}

func (p *pair) topicID(topic string) topicID {
	p.t.Helper()
	ts, err := p.dstAdm.ListTopics(p.ctx, topic)
	if err != nil {
		p.t.Fatal(err)
	}
	return topicID(ts[topic].ID)
}

// restart is a new process, after a kill -9.
func (p *pair) restart() {
	p.t.Helper()
	count, err := newInstruments(p.o.Meter, "l")
	if err != nil {
		p.t.Fatal(err)
	}
	p.session = newSession(p.o, count, p.store)
}

// fill writes n records to partition 0 of the target.
func (p *pair) fill(n int) {
	p.t.Helper()
	for range n {
		if err := p.dstCl.ProduceSync(p.ctx, &kgo.Record{Topic: "dr.orders", Value: []byte("v")}).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pair) commit(adm *kadm.Client, group, topic string, partition int32, at int64, metadata string) {
	p.t.Helper()
	os := make(kadm.Offsets)
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: 7, Metadata: metadata})
	if err := adm.CommitAllOffsets(p.ctx, group, os); err != nil {
		p.t.Fatal(err)
	}
}

// cycles lets everything that is due be looked at, some seconds later.
func (p *pair) cycles() {
	p.t.Helper()
	p.now = p.now.Add(5 * time.Second)
	s := p.session
	s.mu.Lock()
	due, _ := s.desk.Due(p.now, s.freeLocked)
	s.mu.Unlock()
	for lane, names := range due {
		s.mu.Lock()
		s.lanes[lane]++
		s.mu.Unlock()
		s.cycle(p.ctx, lane, names)
	}
}

// sync is a poll and what follows from it.
func (p *pair) sync() map[string]state.Group {
	p.t.Helper()
	p.now = p.now.Add(5 * time.Second)
	p.session.pollOnce(p.ctx)
	p.cycles()
	return p.report()
}

func (p *pair) report() map[string]state.Group {
	out := make(map[string]state.Group)
	for _, g := range p.session.desk.Report(p.now) {
		out[g.Group] = g
	}
	return out
}

// committed is a group's offset on partition 0 of the target, nil where none.
func (p *pair) committed(group string) *kadm.Offset {
	p.t.Helper()
	os, err := p.dstAdm.FetchOffsets(p.ctx, group)
	if err != nil {
		return nil
	}
	if o, ok := os.Lookup("dr.orders", 0); ok && o.At >= 0 {
		return &o.Offset
	}
	return nil
}

func (p *pair) want(group string, at int64) {
	p.t.Helper()
	if o := p.committed(group); o == nil || o.At != at {
		p.t.Errorf("group %q is at %+v on the target, want %d", group, o, at)
	}
}

func (p *pair) wantReason(g state.Group, partition int, reason Verdict) {
	p.t.Helper()
	if len(g.Partitions) <= partition || g.Partitions[partition].Reason != string(reason) {
		p.t.Errorf("%+v, want %s", g, reason)
	}
}
