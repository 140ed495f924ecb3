package checkpoints

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"klink/fetcher/feed"
	"klink/linker/state"
	"klink/translate/exact"
	"klink/translate/mm2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a target with the topic a.orders, which copies orders of source a, and a Task
// whose turns the test takes.
type rig struct {
	testing.TB
	cluster *kfake.Cluster
	cl      *kgo.Client
	adm     *kadm.Client
	o       Options
	task    *Task
	now     time.Time

	mu      sync.Mutex // guards all below
	m       exact.Map
	commits []Commit
	known   bool
	held    bool
	topics  []string
	away    error
}

func newRig(t testing.TB) *rig {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(2, "a.orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &rig{TB: t, cluster: c, now: time.UnixMilli(1700000000000), known: true, held: true}
	r.cl = r.client()
	r.adm = kadm.NewClient(r.cl)
	r.o = Options{Link: "l", Policy: mm2.Policy{Source: "a", Target: "b"}, Client: r.client(), Copies: r, Source: r, Lease: r,
		Commits: func() ([]Commit, bool) { r.mu.Lock(); defer r.mu.Unlock(); return r.commits, r.known },
		Topics: func() []state.Topic {
			return []state.Topic{{SourceTopic: "orders", TargetTopic: "a.orders", Mode: checkpointMode, Partitions: []state.Partition{{Partition: 0}, {Partition: 1}}}}
		},
		Interval: 100 * time.Millisecond, Heartbeat: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Meter: noop.NewMeterProvider().Meter(""), Now: func() time.Time { return r.now }}
	r.restart()
	return r
}

func (r *rig) client() *kgo.Client {
	r.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.RequestRetries(2),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(cl.Close)
	return cl
}

// restart is a new process, after a kill -9.
func (r *rig) restart() {
	r.Helper()
	t, err := New(r.o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { t.checkpoints.close(); t.offsets.close() })
	t.wanted.Store(true)
	t.shown.writes(true)
	r.task = t
}

func (r *rig) Held(string, int32) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(time.Minute), r.held
}

func (r *rig) ListTopics(context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topics, r.away
}

func (r *rig) Translate(topic string, partition int32, src int64) exact.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if topic != "orders" || partition != 0 {
		return exact.Answer{}
	}
	return r.m.ToTarget(src)
}

func (r *rig) LastRun(topic string, partition int32) (exact.Run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if topic != "orders" || partition != 0 {
		return exact.Run{}, false
	}
	return r.m.Last()
}

// copied adds a row of copies, with the records on the target.
func (r *rig) copied(run exact.Run) {
	r.Helper()
	end := int64(0)
	if ends, err := r.adm.ListEndOffsets(r.Context(), "a.orders"); err != nil {
		r.Fatal(err)
	} else if o, ok := ends.Lookup("a.orders", 0); ok {
		end = o.Offset
	}
	for ; end < run.DstEnd(); end++ {
		r.produce("a.orders", nil, []byte("v"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.m.Add(run); err != nil {
		r.Fatal(err)
	}
}

// produce writes one record of somebody else's to partition 0.
func (r *rig) produce(topic string, key, value []byte) {
	r.Helper()
	if err := r.cl.ProduceSync(r.Context(), &kgo.Record{Topic: topic, Key: key, Value: value}).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) commit(group string, offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits = append(r.commits, Commit{Group: group, Source: feed.Partition{Topic: "orders"}, Target: "a.orders", Offset: offset, Metadata: "m"})
}

func (r *rig) round() result {
	until, _ := r.Held("", 0)
	return r.task.round(r.Context(), until)
}

func (r *rig) beat() {
	until, _ := r.Held("", 0)
	r.task.lookAtSource(r.Context(), until)
	r.task.beat(r.Context(), until)
}

// records reads a topic to its end.
func (r *rig) records(topic string) (all []*kgo.Record) {
	r.Helper()
	ends, err := r.adm.ListEndOffsets(r.Context(), topic)
	if err != nil {
		r.Fatal(err)
	}
	end, ok := ends.Lookup(topic, 0)
	if !ok || end.Err != nil {
		r.Fatalf("%s: %v", topic, end.Err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		r.Fatal(err)
	}
	defer cl.Close()
	for int64(len(all)) < end.Offset {
		fs := cl.PollFetches(r.Context())
		if err := fs.Err(); err != nil {
			r.Fatal(err)
		}
		all = append(all, fs.Records()...)
	}
	return all
}

// checkpoints is what Java makes of the topic: the last record of each key.
func (r *rig) checkpoints() map[string]int64 {
	r.Helper()
	out := make(map[string]int64)
	for _, rec := range r.records("a.checkpoints.internal") {
		c, err := mm2.DecodeCheckpoint(rec.Key, rec.Value)
		if err != nil {
			r.Fatal(err)
		}
		out[c.Group] = c.Down
	}
	return out
}

var errAway = errors.New("away")
