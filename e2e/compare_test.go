package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/shapes"
	"klink/comparator"
	"klink/linker/state"
)

// TestCompare: klink compare finds every kind of difference where there is one,
// and none in a mirror.
func TestCompare(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Version: install.Newest, Props: shapes.BrokerProps()}
	p := startPair(t, o, o)
	t.Run("mirrors and plants", func(t *testing.T) {
		t.Run("mirrors", func(t *testing.T) { t.Parallel(); compareMirrors(t, p) })
		t.Run("plants", func(t *testing.T) { t.Parallel(); comparePlants(t, p) })
		t.Run("audited", func(t *testing.T) { t.Parallel(); auditMirrors(t, p) })
		t.Run("resumed", func(t *testing.T) { t.Parallel(); compareResumed(t, p) })
	})
}

// compare runs klink compare and reads its JSON.
func compare(t testing.TB, args ...string) (comparator.Result, outcome) {
	t.Helper()
	o := command(t, append([]string{"compare", "-o", "json"}, args...)...)
	var r struct {
		Command string `json:"_command"`
		comparator.Result
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || r.Command != "compare" {
		t.Fatalf("klink compare %v: %v, exit code %d:\n%s%s", args, err, o.code, o.out, o.errOut)
	}
	return r.Result, o
}

// compareMirrors compares what klink mirrors, while it does: transactions, a
// compacted topic that both cleaners clean, and plain records under load.
func compareMirrors(t *testing.T, p pair) {
	ctx := within(t, 2*patience)
	create(t, p.src, lab.TopicSpec{Name: "m-plain", Partitions: 2, Configs: lab.KeepEverything()})
	var g errgroup.Group
	g.Go(func() error {
		return shapes.Transactions(ctx, p.src, shapes.Place{Topic: "m-mixed", Partitions: 2, Seed: 5}, 20)
	})
	g.Go(func() error { return shapes.Compacted(ctx, p.src, shapes.Place{Topic: "m-compacted", Seed: 5}) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	args := p.plain("m-*")
	k := startKlink(t, args...)
	load, err := lab.StartLoad(context.Background(), p.src, lab.LoadOptions{Topics: []string{"m-plain"}, Seed: 9, RecordsPerSecond: 2_000})
	if err != nil {
		t.Fatal(err)
	}
	k.await(t, "all topics mirrored", func(l state.Link) bool {
		return len(l.Topics) == 3 && !slices.ContainsFunc(l.Topics, func(t state.Topic) bool { return t.State != state.Active })
	})
	for _, more := range [][]string{nil, {"--no-digest", "--keys"}, {"--last", "1h", "m-plain"}} {
		r, o := compare(t, append(args, more...)...)
		if o.code != 0 || !r.Equal {
			t.Errorf("%v: exit code %d:\n%s%s", more, o.code, o.out, o.errOut)
		}
		for _, topic := range r.Topics {
			for _, part := range topic.Partitions {
				if part.RecordsCompared == 0 && len(more) != 3 || part.Digest == nil != (len(more) == 2 && more[0] == "--no-digest") {
					t.Errorf("%v: %s: %+v", more, topic.SourceTopic, part)
				}
				if !topic.Compacted && part.Digest != nil && *part.Digest != *part.TargetDigest {
					t.Errorf("%v: %s: the digests differ: %+v", more, topic.SourceTopic, part)
				}
			}
		}
	}
	if r := load.Stop(); r.Err != nil {
		t.Error(r.Err)
	}
	r, o := compare(t, append(args, "--record", "--yes")...)
	k.stop(t)
	if o.code != 0 || !r.Equal {
		t.Errorf("recorded: exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	requireRecorded(t, r, args...)
}

// requireRecorded checks that status tells what a comparison found.
func requireRecorded(t testing.TB, r comparator.Result, args ...string) {
	t.Helper()
	shown, _ := statusOf(t, args...)
	for _, topic := range r.Topics {
		for _, p := range topic.Partitions {
			got, ok := partition(shown.Links[0], topic.SourceTopic, p.Partition)
			if !ok || got.Audit == nil || got.Audit.Clean == nil || got.Audit.Last.To != p.To || *got.Audit.Last.Digest != *p.Digest || got.Audit.Last.Records != p.RecordsCompared {
				t.Errorf("%s/%d is on record as %+v, found was %+v", topic.SourceTopic, p.Partition, got.Audit, p)
			}
		}
	}
}

// plant is a topic that is written to both sides by hand, and what is to be
// found there.
type plant struct {
	topic string
	// src and dst write to the two sides; each is given the records of its own.
	src, dst func(*planter, []*kgo.Record) error
	want     map[comparator.Kind]int64
	first    int64
	detail   string
}

// plantRecords are so many that a shift is told from a change.
const plantRecords = 40

func plants() []plant {
	all := func(w *planter, recs []*kgo.Record) error { return w.write(recs...) }
	edited := func(edit func([]*kgo.Record)) func(*planter, []*kgo.Record) error {
		return func(w *planter, recs []*kgo.Record) error { edit(recs); return w.write(recs...) }
	}
	ended := func(how kgo.TransactionEndTry) func(*planter, []*kgo.Record) error {
		return func(w *planter, recs []*kgo.Record) error {
			if err := w.write(recs[:10]...); err != nil {
				return err
			}
			if err := w.transaction(how, recs[10]); err != nil {
				return err
			}
			return w.write(recs[11:]...)
		}
	}
	counts := func(kinds ...any) map[comparator.Kind]int64 {
		m := map[comparator.Kind]int64{}
		for i := 0; i < len(kinds); i += 2 {
			m[kinds[i].(comparator.Kind)] = int64(kinds[i+1].(int))
		}
		return m
	}
	return []plant{
		{"d-equal", all, func(w *planter, recs []*kgo.Record) error { return w.batches(recs) }, counts(), 0, ""},
		{"d-flip", all, edited(func(r []*kgo.Record) { r[7].Value[3] ^= 1 }), counts(comparator.Changed, 1), 7, "value of 20 bytes differs from byte 3 on"},
		{"d-swap", all, edited(func(r []*kgo.Record) { r[5], r[6] = r[6], r[5] }), counts(comparator.Changed, 2), 5, "timestamp"},
		{"d-header-order", all, edited(func(r []*kgo.Record) { h := r[9].Headers; h[0], h[1] = h[1], h[0] }), counts(comparator.Changed, 1), 9, "header 1 of 2 differs"},
		{"d-time", all, edited(func(r []*kgo.Record) { r[9].Timestamp = r[9].Timestamp.Add(time.Millisecond) }), counts(comparator.Changed, 1), 9, "timestamp"},
		{"d-null", all, edited(func(r []*kgo.Record) { r[0].Key = nil }), counts(comparator.Changed, 1), 0, "key is 4 bytes, on the target null"},
		{"d-tail", all, func(w *planter, r []*kgo.Record) error { return w.write(r[:35]...) }, counts(comparator.End, 1), 35, "5 offsets before"},
		{"d-longer", all, func(w *planter, r []*kgo.Record) error { return w.write(append(r, r[0])...) }, counts(comparator.End, 1), 40, "goes on to 41"},
		{"d-inserted", all, func(w *planter, r []*kgo.Record) error {
			return w.write(append(append(append([]*kgo.Record{}, r[:10]...), &kgo.Record{Value: []byte("x")}), r[10:]...)...)
		}, counts(comparator.Extra, 1, comparator.Shifted, 29, comparator.End, 1), 10, "the source has no record here"},
		{"d-lost", all, func(w *planter, r []*kgo.Record) error {
			return w.write(append(append([]*kgo.Record{}, r[:10]...), r[11:]...)...)
		},
			counts(comparator.Missing, 1, comparator.Shifted, 28, comparator.End, 1), 10, "the target has no record here"},
		{"d-visible", ended(kgo.TryAbort), ended(kgo.TryCommit), counts(comparator.Extra, 1), 10, "the source has no record here"},
		{"d-hidden", ended(kgo.TryCommit), ended(kgo.TryAbort), counts(comparator.Missing, 1), 10, "the target has no record here"},
		{"d-compacted-lost", ended(kgo.TryCommit), ended(kgo.TryAbort), counts(comparator.Missing, 1), 10, "no later one of its key"},
		{"d-start", all, func(w *planter, r []*kgo.Record) error {
			if err := w.write(r...); err != nil {
				return err
			}
			return w.trim(12)
		}, counts(comparator.Start, 1), 0, "the target 12 offsets later"},
	}
}

// planter writes to one side of a topic.
type planter struct {
	ctx   context.Context
	c     lab.Cluster
	topic string
}

func (w *planter) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(w.c.AdminOpts(), append([]kgo.Opt{kgo.DefaultProduceTopic(w.topic), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)...)
}

// write sends records as one batch at most.
func (w *planter) write(recs ...*kgo.Record) error {
	cl, err := w.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(w.ctx, recs...).FirstErr()
}

// batches sends records in other batches, in every codec.
func (w *planter) batches(recs []*kgo.Record) error {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		cl, err := w.client(kgo.ProducerBatchCompression(codec))
		if err != nil {
			return err
		}
		n := len(recs) / len(codecs)
		err = cl.ProduceSync(w.ctx, recs[i*n:(i+1)*n]...).FirstErr()
		cl.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *planter) transaction(how kgo.TransactionEndTry, r *kgo.Record) error {
	cl, err := w.client(kgo.TransactionalID("plant-" + w.topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(w.ctx, r).FirstErr(); err != nil {
		return err
	}
	if err := cl.EndTransaction(w.ctx, how); err != nil {
		return err
	}
	return w.ended(cl, r.Offset)
}

// ended waits for the marker behind a record: it is written after the answer to
// who ended the transaction, and what is written next must not come before it.
func (w *planter) ended(cl *kgo.Client, offset int64) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := kadm.NewClient(cl).ListCommittedOffsets(w.ctx, w.topic)
		if end, ok := ends.Lookup(w.topic, 0); err == nil && ok && end.Offset == offset+2 {
			return nil
		}
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return fmt.Errorf("await the end of a transaction in %s: %w", w.topic, w.ctx.Err())
		}
	}
}

func (w *planter) trim(at int64) error {
	cl, err := w.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: w.topic, At: at})
	r, err := kadm.NewClient(cl).DeleteRecords(w.ctx, offsets)
	if err != nil {
		return err
	}
	return r.Error()
}

// planted makes the records of one side.
func planted() (recs []*kgo.Record) {
	for i := range plantRecords {
		recs = append(recs, &kgo.Record{Key: fmt.Appendf(nil, "k%03d", i), Value: fmt.Appendf(nil, "value %014d", i), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: nil}}})
	}
	return recs
}

func writePlants(t *testing.T, p pair, all []plant) {
	t.Helper()
	ctx := within(t, 2*patience)
	var specs []lab.TopicSpec
	for _, x := range all {
		configs := lab.KeepEverything()
		if strings.Contains(x.topic, "compacted") {
			configs["cleanup.policy"] = "compact"
		}
		specs = append(specs, lab.TopicSpec{Name: x.topic, Configs: configs})
	}
	absent := lab.TopicSpec{Name: "d-absent"}
	create(t, p.src, append(specs, lab.TopicSpec{Name: "d-parts", Partitions: 2, Configs: lab.KeepEverything()}, absent)...)
	narrow := lab.KeepEverything()
	narrow["max.message.bytes"] = "2000"
	create(t, p.dst, append(specs, lab.TopicSpec{Name: "d-parts", Configs: narrow})...)
	var g errgroup.Group
	g.SetLimit(6)
	for _, x := range all {
		g.Go(func() error { return x.src(&planter{ctx, p.src, x.topic}, planted()) })
		g.Go(func() error { return x.dst(&planter{ctx, p.dst, x.topic}, planted()) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	commit(t, p.src, "g-equal", 7)
	commit(t, p.dst, "g-equal", 7)
	commit(t, p.src, "g-behind", 9)
	commit(t, p.dst, "g-behind", 4)
}

// commit sets a group's offset in a topic of the plants.
func commit(t testing.TB, c lab.Cluster, group string, at int64) {
	t.Helper()
	cl, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "d-equal", At: at, LeaderEpoch: -1})
	r, err := kadm.NewClient(cl).CommitOffsets(within(t, patience), group, offsets)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// comparePlants plants every kind of difference and finds each, and nothing else.
func comparePlants(t *testing.T, p pair) {
	all := plants()
	writePlants(t, p, all)
	dir := t.TempDir()
	r, o := compare(t, append(p.plain("d-*"), "--group", "g-*", "--keys", "--report", dir)...)
	if o.code != 3 || r.Equal || r.Failed != 0 {
		t.Errorf("exit code %d, %+v", o.code, r)
	}
	byName := map[string]comparator.TopicResult{}
	for _, topic := range r.Topics {
		byName[topic.SourceTopic] = topic
	}
	for _, x := range all {
		requirePlant(t, x, byName[x.topic])
	}
	if got := byName["d-parts"].Differences; len(got) != 1 || got[0] != "the source has 2 partitions, the target has 1 partitions" {
		t.Errorf("partitions: %q", got)
	}
	if got := byName["d-absent"].Differences; len(got) != 1 || !strings.Contains(got[0], "the target has no such topic") {
		t.Errorf("a topic that is not there: %q", got)
	}
	if len(r.Configs) != 1 || r.Configs[0].Key != "max.message.bytes" || r.Configs[0].TargetTopic != "d-parts" {
		t.Errorf("settings: %+v", r.Configs)
	}
	if len(r.Groups) != 2 || len(r.Groups[0].Partitions) != 1 || *r.Groups[0].Partitions[0].TargetOffset != 4 || r.Groups[1].Equal != 1 {
		t.Errorf("groups: %+v", r.Groups)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "compare.html")); err != nil || !strings.Contains(string(page), "header 1 of 2 differs") {
		t.Errorf("report: %v", err)
	}
	if o := command(t, append([]string{"compare"}, p.plain("none-*")...)...); o.code != 1 || !strings.Contains(o.errOut, "selects no topic") {
		t.Errorf("nothing to compare: %+v", o)
	}
	// Without digests the same is found.
	fast, _ := compare(t, append(p.plain("d-flip"), "--no-digest")...)
	if len(fast.Topics) != 1 || fast.Topics[0].Partitions[0].Counts[comparator.Changed] != 1 {
		t.Errorf("without digests: %+v", fast.Topics)
	}
}

func requirePlant(t *testing.T, x plant, got comparator.TopicResult) {
	t.Helper()
	if len(got.Partitions) != 1 {
		t.Errorf("%s: %+v", x.topic, got)
		return
	}
	p := got.Partitions[0]
	if d := cmp.Diff(x.want, p.Counts); d != "" {
		t.Errorf("%s: (-want +got)\n%s\n%+v", x.topic, d, p.Findings)
		return
	}
	if len(x.want) > 0 && (p.Findings[0].Offset != x.first || !strings.Contains(p.Findings[0].Detail, x.detail)) {
		t.Errorf("%s: first finding %+v, want one at %d with %q", x.topic, p.Findings[0], x.first, x.detail)
	}
	if x.topic == "d-compacted-lost" && (len(p.Keys) != 1 || p.Keys[0].Key != "k010" || p.Keys[0].TargetOffset != nil) {
		t.Errorf("%s: keys %+v", x.topic, p.Keys)
	}
	if x.topic == "d-equal" && (*p.Digest != *p.TargetDigest || p.RecordsCompared != plantRecords) {
		t.Errorf("%s: %+v", x.topic, p)
	}
}
