package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/control"
	"klink/linker/maps"
	"klink/linker/state"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// checkpointKeys make the link of mirrorWith one in checkpoint mode.
const checkpointKeys = "    mode: checkpoint\n    checkpoint: {source_alias: a, target_alias: b}\n"

// mirrorMaker is a pair of clusters as a MirrorMaker 2 leaves it.
type mirrorMaker struct {
	src, dst *kfake.Cluster
	from, to *kgo.Client
}

// mirroredByMM2 is a source with 300 orders, of which the first 200 were copied behind
// seven records of others, and payments of which nothing was. Of the orders 40 was the
// last one committed.
func mirroredByMM2(t *testing.T) mirrorMaker {
	t.Helper()
	w := mirrorMaker{src: cluster(t, kfake.NumBrokers(1), kfake.ClusterID("SRC"), kfake.SeedTopics(1, "orders", "payments")),
		dst: cluster(t, kfake.NumBrokers(1), kfake.ClusterID("DST"), kfake.SeedTopics(1, "a.orders"),
			kfake.SeedTopics(3, "mm2-offsets.a.internal"), kfake.SeedTopics(1, "mm2-offset-syncs.a.internal", "heartbeats"))}
	w.from, w.to = takeoverClient(t, w.src), takeoverClient(t, w.dst)
	send(t, w.from, orders(0, 300)...)
	var others []*kgo.Record
	for i := range 7 {
		others = append(others, &kgo.Record{Topic: "a.orders", Value: fmt.Append(nil, "other ", i)})
	}
	send(t, w.to, others...)
	w.copies(t, 0, 200)
	send(t, w.to, &kgo.Record{Topic: "mm2-offsets.a.internal", Key: []byte(`["MirrorSourceConnector",{"cluster":"a","partition":0,"topic":"orders"}]`), Value: []byte(`{"offset":40}`)})
	for up := int64(0); up < 200; up += 101 {
		k, v, err := mm2.Sync{Topic: "orders", Up: up, Down: up + 7}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		send(t, w.to, &kgo.Record{Topic: "mm2-offset-syncs.a.internal", Key: k, Value: v})
	}
	return w
}

// copies writes copies of orders.
func (w mirrorMaker) copies(t testing.TB, from, end int) {
	t.Helper()
	all := orders(from, end)
	for _, r := range all {
		r.Topic = "a.orders"
	}
	send(t, w.to, all...)
}

func orders(from, end int) (all []*kgo.Record) {
	for i := from; i < end; i++ {
		all = append(all, &kgo.Record{Topic: "orders", Key: fmt.Append(nil, i), Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
			Headers: []kgo.RecordHeader{{Key: "h", Value: fmt.Append(nil, i%3)}}})
	}
	return all
}

func takeoverClient(t testing.TB, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func send(t testing.TB, cl *kgo.Client, all ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// adopt gives the command.
func (w mirrorMaker) adopt(t testing.TB, file string, more ...string) (TakeoverResult, result) {
	t.Helper()
	got := execute(t.Context(), production(), append([]string{"adopt", "--from-mm2", "-c", file, "-o", "json", "--watch", "10ms"}, more...)...)
	var r TakeoverResult
	if got.out != "" {
		if err := json.Unmarshal([]byte(got.out), &r); err != nil {
			t.Fatalf("%v in %s", err, got.out)
		}
	}
	return r, got
}

// mustGoOn runs klink until all orders are on the target, and holds them to the source.
func (w mirrorMaker) mustGoOn(t *testing.T) {
	t.Helper()
	k := mirrorWith(t, w.src, w.dst, checkpointKeys)
	k.await(t, "orders", state.Active)
	var got []*kgo.Record
	for deadline := time.Now().Add(30 * time.Second); len(got) < 307 && time.Now().Before(deadline); {
		got = readAll(t, w.to, "a.orders")
	}
	k.stop()
	want := append(readAll(t, w.to, "a.orders")[:7:7], readAll(t, w.from, "orders")...)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if string(got[i].Key) != string(want[i].Key) || !got[i].Timestamp.Equal(want[i].Timestamp) {
			t.Fatalf("target offset %d is %s, want %s", i, got[i].Key, want[i].Key)
		}
	}
	view, err := maps.Read(t.Context(), w.to)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range view.Places("east") {
		if m, _, err := view.Map(p); err != nil {
			t.Error(err)
		} else if a := m.ToTarget(250); p.Topic == "orders" && a != (exact.Answer{Offset: 257, Kind: exact.Exact}) {
			t.Errorf("%+v", a)
		}
	}
}

func readAll(t testing.TB, cl *kgo.Client, topic string) (all []*kgo.Record) {
	t.Helper()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	own, err := kgo.NewClient(append(cl.Opts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for int64(len(all)) < end.Offset && ctx.Err() == nil {
		all = append(all, own.PollFetches(ctx).Records()...)
	}
	return all
}

// TestAdoptFromMM2: nothing is written before it was agreed to; then klink goes on
// behind the last copy, though less was committed. Another call has nothing to do.
func TestAdoptFromMM2(t *testing.T) {
	w := mirroredByMM2(t)
	file := writeLink(t, w.src, w.dst, checkpointKeys)
	r, got := w.adopt(t, file, "--dry-run")
	if got.code != 0 || len(r.Topics) != 2 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("%+v", got)
	}
	p := r.Topics[0].Partitions[0]
	if p.State != "PROVEN" || p.Next != 200 || *p.ConnectOffset != 40 || p.TargetEnd != 207 || r.Doubles != 0 || *p.TranslatedFrom != 0 {
		t.Errorf("%+v", p)
	}
	if there, err := kadm.NewClient(w.to).ListTopics(t.Context()); err != nil || there.Has(control.TopicName) || there.Has(maps.TopicName) {
		t.Errorf("a dry run made a topic (%v)", err)
	}
	if r, got = w.adopt(t, file, "--yes"); got.code != 0 || !r.Topics[0].Adopted {
		t.Fatalf("%+v", got)
	}
	w.mustGoOn(t)
	if r, got = w.adopt(t, file, "--yes"); got.code != 0 || r.Topics[0].Partitions[0].State != stateAdopted {
		t.Errorf("%+v", got)
	}
	if again := readAll(t, w.to, "a.orders"); len(again) != 307 {
		t.Errorf("%d records", len(again))
	}
}

// TestAdoptFromMM2HalfDone: the adoption went on record and where to go on did not.
// klink copies nothing then, and another call completes it.
func TestAdoptFromMM2HalfDone(t *testing.T) {
	w := mirroredByMM2(t)
	s, err := control.Open(t.Context(), control.Options{Client: takeoverClient(t, w.dst), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(w.from).ListTopics(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	follow := start(t.Context(), s.Run)
	err = s.PutAdopt(t.Context(), control.AdoptRecord{Link: "east", Topic: "orders", SourceID: [16]byte(topics["orders"].ID), Ends: map[int32]int64{0: 207}, At: time.Now()})
	follow.stop()
	<-follow.done
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	k := mirrorWith(t, w.src, w.dst, checkpointKeys)
	k.await(t, "orders", state.Halted)
	k.stop()
	if n := len(readAll(t, w.to, "a.orders")); n != 207 {
		t.Fatalf("%d records", n)
	}
	if r, got := w.adopt(t, k.file, "--yes"); got.code != 0 || !r.Topics[0].Adopted {
		t.Fatalf("%+v", got)
	}
	w.mustGoOn(t)
}

// TestAdoptFromMM2Refuses: cases by name.
func TestAdoptFromMM2Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*testing.T, mirrorMaker)
		keys  string
		more  []string
		code  int
		says  string
	}{
		"mirror mode":          {keys: " ", code: 2, says: "mode: checkpoint"},
		"another alias":        {keys: "    mode: checkpoint\n    checkpoint: {source_alias: x}\n", more: []string{"--offsets-topic", "mm2-offsets.a.internal"}, code: 2, says: "sources a"},
		"no offsets topic":     {keys: "    mode: checkpoint\n    checkpoint: {source_alias: x}\n", code: 2, says: "no topic mm2-offsets.x.internal"},
		"another connector":    {more: []string{"--connector", "x"}, code: 2, says: "connector x"},
		"no terminal":          {more: []string{"--yes=false"}, code: 2, says: "--yes"},
		"several connectors":   {spoil: func(t *testing.T, w mirrorMaker) { connectOffset(t, w, "a->b.MirrorSourceConnector", 5) }, code: 2, says: "choose with --connector"},
		"a truncated source":   {spoil: func(t *testing.T, w mirrorMaker) { alter(t, w); connectOffset(t, w, "MirrorSourceConnector", 500) }, code: 1, says: "cut off"},
		"one that is mirrored": {spoil: func(t *testing.T, w mirrorMaker) { ran(t, w) }, code: 1, says: "copies this topic already"},
	} {
		t.Run(name, func(t *testing.T) {
			w := mirroredByMM2(t)
			if c.spoil != nil {
				c.spoil(t, w)
			}
			keys := checkpointKeys
			if c.keys != "" {
				keys = c.keys
			}
			_, got := w.adopt(t, writeLink(t, w.src, w.dst, keys), append([]string{"--yes"}, c.more...)...)
			if got.code != c.code || !strings.Contains(got.err+got.out, c.says) {
				t.Errorf("want %d %q: %+v", c.code, c.says, got)
			}
		})
	}
}

func connectOffset(t testing.TB, w mirrorMaker, connector string, last int) {
	t.Helper()
	send(t, w.to, &kgo.Record{Topic: "mm2-offsets.a.internal", Key: fmt.Appendf(nil, `[%q,{"cluster":"a","partition":0,"topic":"orders"}]`, connector), Value: fmt.Appendf(nil, `{"offset":%d}`, last)})
}

// alter adds a record to the target that is no copy.
func alter(t testing.TB, w mirrorMaker) {
	t.Helper()
	send(t, w.to, &kgo.Record{Topic: "a.orders", Value: []byte("altered")})
}

// ran lets klink copy without an adoption.
func ran(t testing.TB, w mirrorMaker) {
	t.Helper()
	k := mirrorWith(t, w.src, w.dst, checkpointKeys)
	k.await(t, "orders", state.Active)
	k.stop()
}

// TestAdoptFromMM2Running: it is seen that MirrorMaker 2 runs, by each of the ways.
func TestAdoptFromMM2Running(t *testing.T) {
	beat := func(source string) *kgo.Record {
		k, v, err := mm2.Heartbeat{Source: source, Target: "b", Timestamp: 1}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return &kgo.Record{Topic: "heartbeats", Key: k, Value: v}
	}
	for name, c := range map[string]struct {
		writes *kgo.Record
		says   string
	}{
		"a copy comes":             {&kgo.Record{Topic: "a.orders", Value: []byte("x")}, "grew"},
		"offsets are committed":    {&kgo.Record{Topic: "mm2-offsets.a.internal", Key: []byte("x"), Value: []byte("x")}, "grew"},
		"a heartbeat comes":        {beat("a"), "heartbeat"},
		"another flow's heartbeat": {beat("c"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := mirroredByMM2(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil { // until the command has seen it
					r := *c.writes
					if err := w.to.ProduceSync(ctx, &r).FirstErr(); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			}()
			_, got := w.adopt(t, writeLink(t, w.src, w.dst, checkpointKeys), "--yes", "--watch", "300ms")
			cancel()
			<-ended
			if refused := got.code == 1; refused != (c.says != "") || !strings.Contains(got.err, c.says) {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("a worker is there", func(t *testing.T) {
		w := mirroredByMM2(t)
		file := writeLink(t, w.src, w.dst, checkpointKeys)
		worker, err := kgo.NewClient(kgo.SeedBrokers(w.dst.ListenAddrs()...), kgo.ConsumerGroup("a-mm2"), kgo.ConsumeTopics("heartbeats"), kgo.DisableClientMetrics())
		if err != nil {
			t.Fatal(err)
		}
		defer worker.Close()
		joined := func() bool {
			d, err := kadm.NewClient(w.to).DescribeGroups(t.Context(), "a-mm2")
			return err == nil && len(d["a-mm2"].Members) > 0
		}
		for deadline := time.Now().Add(30 * time.Second); !joined() && time.Now().Before(deadline); {
			worker.PollFetches(shortly(t))
		}
		if _, got := w.adopt(t, file, "--yes"); got.code != 1 || !strings.Contains(got.err, "a-mm2 on the target has 1 member") {
			t.Errorf("%+v", got)
		}
	})
}

func shortly(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestTakeoverTable: what is shown before it is asked whether to go on.
func TestTakeoverTable(t *testing.T) {
	last := int64(40)
	r := TakeoverResult{Link: "east", SourceAlias: "a", OffsetsTopic: "mm2-offsets.a.internal", Topics: []TakeoverTopic{
		{SourceTopic: "orders", TargetTopic: "a.orders", OK: true, Partitions: []TakeoverPartition{
			{Partition: 0, State: "PROVEN", ConnectOffset: &last, Next: 200, SourceEnd: 300, TargetEnd: 207, Detail: "the target ends with the copy of source offset 199"},
			{Partition: 1, State: "STALE", Next: 41, SourceEnd: 300, TargetEnd: 90, Doubles: 49, Lost: 3, Detail: "MirrorMaker 2 says so"}}},
		{SourceTopic: "audit", TargetTopic: "a.audit", Reason: reasonRefused, Detail: "the target has 1 partitions, the source 2", Hint: "add partitions"}}}
	r.count()
	s := &shell{}
	said := s.takeoverText(r)
	for _, part := range []string{"orders -> a.orders", "PROVEN", "at most 49", "not copied: 3", "audit: add partitions", "must not be started again"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is missing in\n%s", part, said)
		}
	}
	if r.Failed != 1 || slices.Contains(r.Notes, "") {
		t.Errorf("%+v", r)
	}
}
