package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric/noop"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/groups"
	"klink/linker/state"
	"klink/linker/topics"
)

// controlTime bounds one step against a real broker on a busy machine.
const controlTime = 3 * time.Minute

func controlContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), controlTime)
	t.Cleanup(cancel)
	return ctx
}

func controlClient(t testing.TB, k *lab.Kafka) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(k.ClientOpts(), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// controlStore opens a store and runs it until its close function is called.
func controlStore(t testing.TB, cl *kgo.Client) (s *control.Store, stop func()) {
	t.Helper()
	s, err := control.Open(controlContext(t), control.Options{Client: cl, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the store ended with %v", err)
		}
		s.Close()
	})
	t.Cleanup(stop)
	return s, stop
}

// epochPut is one write whose answer was waited for.
type epochPut struct {
	partition int32
	first     int64
	err       error
}

// putEpochs writes a step of lineage for each of n partitions at once.
func putEpochs(ctx context.Context, s *control.Store, link string, epoch int32, n int) []epochPut {
	out := make([]epochPut, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			p := epochPut{partition: int32(i), first: int64(epoch)*1000 + int64(i)}
			p.err = s.PutEpoch(ctx, control.EpochRecord{Link: link, Topic: "t", Partition: p.partition,
				Epoch: control.Epoch{Epoch: epoch, First: p.first}})
			out[i] = p
		})
	}
	wg.Wait()
	return out
}

// Everything that was acknowledged is on record after the broker and the store
// were killed, two stores agree on who owns what, and a reader without a store
// sees the same.
func TestControlTopicOutlivesKills(t *testing.T) {
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			k := startOne(t, lab.KafkaOptions{Version: version, Proxy: true})
			ctx := controlContext(t)
			firstClient := controlClient(t, k)
			a, stopA := controlStore(t, firstClient)
			b, _ := controlStore(t, controlClient(t, k))
			if !a.Created() || b.Created() {
				t.Error("the first store makes the topic, the second finds it")
			}
			owners := contend(t, ctx, a, b)

			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(a.PutTopic(ctx, control.TopicRecord{Link: "a", SourceTopic: "t", TargetTopic: "t", Partitions: 500}))
			begun := time.Now()
			acked := putEpochs(ctx, a, "a", 1, 500)
			t.Logf("500 writers at once took %v", time.Since(begun))

			// The broker dies under load and comes back: writes go on by themselves, and
			// of two operators' commands each number goes to one.
			var during []epochPut
			var told map[int32]string
			var wg sync.WaitGroup
			wg.Go(func() { during = putEpochs(ctx, a, "a", 2, 500) })
			wg.Go(func() { told = giveCommands(t, ctx, 25, a, b) })
			must(k.Broker(1).Kill())
			must(k.Broker(1).Start(ctx))
			wg.Wait()

			// The store dies with writes under way.
			dying, cancel := context.WithCancel(ctx)
			wg.Go(func() { acked = append(acked, putEpochs(dying, a, "a", 3, 500)...) })
			must(a.PutLink(ctx, control.LinkRecord{Link: "a", Mode: "mirror"}))
			cancel()
			wg.Wait()
			stopA()
			firstClient.Close()

			again, _ := controlStore(t, controlClient(t, k))
			view, err := control.Read(ctx, controlClient(t, k))
			must(err)
			checkEpochs(t, append(acked, during...), again.Epochs, view.Epochs)
			checkCommands(t, told, again.Commands)
			checkCommands(t, told, view.Commands)
			for target, owner := range owners {
				if got, _ := again.TopicOwner(target); got != owner {
					t.Errorf("%s belongs to %q, and %q was told so", target, got, owner)
				}
			}
			if age := time.Since(view.Report().AsOf); age < 0 || age > controlTime {
				t.Errorf("the report is %v old", age)
			}
		})
	}
}

// contend lets two stores claim the same target topics at once and returns who
// was told to own which.
func contend(t *testing.T, ctx context.Context, stores ...*control.Store) map[string]string {
	t.Helper()
	owners := make(map[string]string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, s := range stores {
		link := string(rune('a' + i))
		for n := range 20 {
			wg.Go(func() {
				target := fmt.Sprintf("target-%d", n)
				err := s.PutTopic(ctx, control.TopicRecord{Link: link, SourceTopic: "source-" + target, TargetTopic: target})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, control.ErrOwned):
				case err != nil:
					t.Error(err)
				case owners[target] != "":
					t.Errorf("%s has two owners", target)
				default:
					owners[target] = link
				}
			})
		}
	}
	wg.Wait()
	if len(owners) != 20 {
		t.Errorf("%d of 20 targets have an owner", len(owners))
	}
	return owners
}

// checkEpochs looks for every acknowledged step in what two readers say. Those
// without an answer may be on record or not.
func checkEpochs(t *testing.T, puts []epochPut, readers ...func(link, topic string, partition int32) []control.Epoch) {
	t.Helper()
	answered := 0
	for _, read := range readers {
		for _, p := range puts {
			if p.err != nil {
				continue
			}
			answered++
			found := false
			for _, e := range read("a", "t", p.partition) {
				found = found || e.First == p.first
			}
			if !found {
				t.Errorf("partition %d: the step at %d was acknowledged and is not on record", p.partition, p.first)
			}
		}
	}
	if answered < 2*1000 {
		t.Errorf("only %d of the writes had an answer", answered)
	}
}

// A real broker takes the settings that mirroring forces, keeps them, and is
// asked for nothing it does not know.
func TestTargetTopicsOnRealBrokers(t *testing.T) {
	for _, version := range []string{install.Newest, install.Oldest} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			k := startOne(t, lab.KafkaOptions{Version: version})
			ctx, cl := controlContext(t), controlClient(t, k)
			adm := kadm.NewClient(cl)
			sourceTopic(t, ctx, adm, "orders", map[string]string{"cleanup.policy": "compact,delete", "segment.ms": "600000",
				"compression.type": "zstd", "message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000",
				"retention.ms": "86400000", "unclean.leader.election.enable": "true", "min.insync.replicas": "2"})
			_, stop := controlStore(t, cl)
			defer stop()

			m, err := topics.NewMatcher(topics.Rules{Include: []string{"*"}, Rename: topics.Rename{Prefix: "dr."}})
			if err != nil {
				t.Fatal(err)
			}
			found, err := topics.Discover(ctx, cl, m)
			if err != nil || len(found.Topics) != 1 || found.ClusterID != k.ClusterID() || found.Topics[0].ID == (feed.TopicID{}) {
				t.Fatalf("%+v %v", found, err)
			}
			plans := topics.PlanAll(found.Topics, topics.PlanOptions{})
			many := topics.PlanAll(found.Topics, topics.PlanOptions{ReplicationFactor: 3})[0]
			many.Target = "dr.many"
			// 4.x takes no segment below 1 MiB (KIP-1030); older brokers do.
			small := plans[0]
			small.Target, small.Source.Configs = "dr.small", topics.Settings{"segment.bytes": {Value: "200000", Explicit: true}}
			target := topics.NewTarget(cl, control.TopicName)
			out, err := target.Ensure(ctx, append(plans, many, small))
			if err != nil {
				t.Fatal(err)
			}
			if o := out[0]; o.Reason != "" || !o.Created || len(o.Dropped) != 2 {
				t.Errorf("%+v", o)
			}
			if o := out[1]; o.Reason != state.TooFewBrokers {
				t.Errorf("%+v", o)
			}
			if o := out[2]; o.Reason != "" || (len(o.Dropped) == 1) != (version == install.Newest) {
				t.Errorf("%+v", o)
			}
			wantForced(t, ctx, adm, "dr.orders", version)

			// A second look finds nothing to correct; a foreign change is corrected.
			out, err = target.Ensure(ctx, plans)
			if err != nil || out[0].Reason != "" || len(out[0].Changed) != 0 || len(out[0].Warnings) != 0 {
				t.Errorf("%+v %v", out, err)
			}
			alter(t, ctx, adm, "dr.orders", "compression.type", "lz4")
			plans[0].Partitions = 5
			out, err = target.Ensure(ctx, plans)
			if err != nil || len(out[0].Changed) != 1 || !out[0].Grown || out[0].Partitions != 5 {
				t.Errorf("%+v %v", out, err)
			}
			wantForced(t, ctx, adm, "dr.orders", version)
			if err := topics.CheckClusters(topics.Clusters{Source: found.ClusterID, Target: found.ClusterID}, topics.Clusters{}); !errors.Is(err, topics.ErrSameCluster) {
				t.Error(err)
			}
			copyOffsets(t, ctx, cl, adm)
		})
	}
}

func sourceTopic(t *testing.T, ctx context.Context, adm *kadm.Client, name string, configs map[string]string) {
	t.Helper()
	ptrs := make(map[string]*string, len(configs))
	for k, v := range configs {
		ptrs[k] = &v
	}
	if _, err := adm.CreateTopic(ctx, 3, 1, ptrs, name); err != nil {
		t.Fatal(err)
	}
	for { // until the broker that answers next knows it
		td, err := adm.ListTopics(ctx, name)
		if err == nil && td[name].Err == nil && len(td[name].Partitions) == 3 {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func alter(t *testing.T, ctx context.Context, adm *kadm.Client, topic, key, value string) {
	t.Helper()
	rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err == nil {
		_, err = rs.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitConfigs(t, ctx, adm, topic, map[string]string{key: value})
}

// awaitConfigs waits until the broker shows settings: the controller answers
// before the brokers have learned of a change.
func awaitConfigs(t *testing.T, ctx context.Context, adm *kadm.Client, topic string, want map[string]string) {
	t.Helper()
	for {
		rs, err := adm.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, c := range rs[0].Configs {
			got[c.Key] = c.MaybeValue()
		}
		wrong := ""
		for k, v := range want {
			if got[k] != v {
				wrong = fmt.Sprintf("%s of %s is %q, want %q", k, topic, got[k], v)
			}
		}
		if wrong == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(wrong)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func wantForced(t *testing.T, ctx context.Context, adm *kadm.Client, topic, version string) {
	t.Helper()
	const unlimited = "9223372036854775807"
	want := map[string]string{"compression.type": "producer", "message.timestamp.type": "CreateTime", "retention.ms": "-1",
		"retention.bytes": "-1", "message.timestamp.before.max.ms": unlimited, "message.timestamp.after.max.ms": unlimited,
		"max.message.bytes": "2000000", "cleanup.policy": "compact,delete", "segment.ms": "600000", "unclean.leader.election.enable": "false",
		"min.insync.replicas": "1"}
	if version == install.Oldest {
		want["message.timestamp.difference.max.ms"] = unlimited
	}
	awaitConfigs(t, ctx, adm, topic, want)
}

// copyOffsets carries a group's commits to the mirror on the same broker, as
// only a real coordinator can refuse them.
func copyOffsets(t *testing.T, ctx context.Context, cl *kgo.Client, adm *kadm.Client) {
	t.Helper()
	own, err := kgo.NewClient(cl.Opts()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	store, stop := controlStore(t, own)
	defer stop()
	ts, err := adm.ListTopics(ctx, "orders", "dr.orders")
	if err != nil {
		t.Fatal(err)
	}
	record := control.TopicRecord{Link: "l", SourceTopic: "orders", SourceID: feed.TopicID(ts["orders"].ID), TargetTopic: "dr.orders", TargetID: feed.TopicID(ts["dr.orders"].ID)}
	if err := store.PutTopic(ctx, record); err != nil {
		t.Fatal(err)
	}
	commit := make(kadm.Offsets)
	commit.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 0, LeaderEpoch: -1, Metadata: "m"})
	commit.Add(kadm.Offset{Topic: "orders", Partition: 1, At: 7, LeaderEpoch: -1})
	if err := adm.CommitAllOffsets(ctx, "g", commit); err != nil {
		t.Fatal(err)
	}
	filter, err := groups.NewFilter([]string{"g"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := groups.New(groups.Options{Link: "l", Worker: "w", Source: cl, Target: cl, Committers: []*kgo.Client{cl}, Filter: filter,
		MirrorOf: func(s string) (string, bool) { return "dr." + s, !strings.HasPrefix(s, "dr.") },
		Topics:   func() []state.Topic { return nil }, Lease: heldLease{}, Interval: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Meter: noop.NewMeterProvider().Meter("")})
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running, store) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	reason := func(p int) string {
		if r := s.Report(); len(r) == 1 && len(r[0].Partitions) == 2 {
			return r[0].Partitions[p].Reason
		}
		return "not there"
	}
	for tick := time.NewTicker(20 * time.Millisecond); reason(0) != "" || reason(1) != string(groups.Clamped); <-tick.C {
		if ctx.Err() != nil {
			t.Fatalf("%+v", s.Report())
		}
	}
	os, err := adm.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	zero, _ := os.Lookup("dr.orders", 0)
	clamped, _ := os.Lookup("dr.orders", 1)
	if zero.At != 0 || zero.Metadata != "m" || clamped.At != 0 {
		t.Errorf("%+v %+v: want 0, and 0 by clamping to the empty mirror", zero, clamped)
	}
	if r, ok := store.Group("l", "g"); !ok || len(r.Offsets) != 2 || r.Offsets[1].SourceOffset != 7 || r.Offsets[1].Written != 0 {
		t.Errorf("on record is %+v", r)
	}
}

// heldLease is a lease that is always held.
type heldLease struct{}

func (heldLease) Held(string, int32) (time.Time, bool) { return time.Now().Add(time.Minute), true }
