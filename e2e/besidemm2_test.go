package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/mm2"
	"klink/cmd/lab/process"
	"klink/cmd/lab/readers"
	"klink/cmd/lab/shapes"
)

// The aliases of the one source: klink's, by the default policy, and that of
// MirrorMaker 2, whose settings have the identity policy. So both copy to one target.
const klinkAlias, mm2Alias = "k", "m"

// besideSetting is a way to run MirrorMaker 2.
type besideSetting struct {
	name string // of a file in package mm2
	sees lab.Isolation
	// soon is how long a commit may take until it is translated: three intervals of
	// these settings, and what a slow machine adds.
	soon time.Duration
}

// besideSettings are as much tuned for a switch as it goes, and as it comes.
// By default its consumers see, and it copies, records of aborted transactions.
var besideSettings = []besideSetting{
	{name: "failover", sees: lab.ReadCommitted, soon: 2 * patience},
	{name: "default", sees: lab.ReadUncommitted, soon: 5 * patience},
}

// besideTopics are the topics, with their partitions.
var besideTopics = map[string]int32{"steady": 2, "txns": 2, "cleaned": 1}

// besideGroups are how much of each partition a group has read before the mirrors
// start, while they run, and in the end, in percent of what consumers see by then.
var besideGroups = map[string][3]int64{
	"reads-on": {50, 100, 100},
	"lags":     {10, 20, 45},
	"rewinds":  {60, 100, 30},
}

// TestMM2_BesideKlink runs a real MirrorMaker 2 and a klink in checkpoint mode from
// one source to one target, under load. Both copies hold every record once and in
// its order; where klink's groups go on no record is read again and none is left
// out, and so never more than with MirrorMaker 2.
func TestMM2_BesideKlink(t *testing.T) {
	t.Parallel()
	for _, s := range besideSettings[:MM2Settings.N()] {
		t.Run(s.name, func(t *testing.T) {
			b := startBeside(t, s)
			load := b.load(t)
			b.awaitLive(t)
			b.commit(t, 1)
			b.awaitKlink(t) // while the load goes on
			b.awaitMM2(t, "rewinds", func(p lab.Partition, c mm2.Checkpoint) bool { return c.Upstream == b.offset("rewinds", p) })
			if r := load.Stop(); r.Err != nil {
				t.Fatal(r.Err)
			}
			b.commit(t, 2)
			b.requireCopies(t)
			b.awaitKlink(t)
			b.awaitMM2(t, "reads-on", func(p lab.Partition, c mm2.Checkpoint) bool {
				return p.Topic != "steady" || c.Downstream == int64(len(b.seen[p]))
			})
			b.judge(t)
			b.klink.stop(t)
		})
	}
}

// sideBySide is one run of both.
type sideBySide struct {
	pair
	setting        besideSetting
	source, target *kadm.Client
	klink          *klink
	// seen is what the source shows of each partition, commits how many of those each
	// group has read.
	seen    map[lab.Partition][]*kgo.Record
	commits map[string]map[lab.Partition]int64
}

func startBeside(t *testing.T, s besideSetting) *sideBySide {
	t.Helper()
	// What compaction takes it takes from the source alone.
	b := &sideBySide{setting: s, pair: startPair(t, lab.KafkaOptions{Props: shapes.BrokerProps()},
		lab.KafkaOptions{Props: map[string]string{"log.cleaner.enable": "false"}})}
	b.source, b.target = admin(t, b.src), admin(t, b.dst)
	b.write(t)
	b.commit(t, 0) // MirrorMaker 2 looks for groups when it starts
	startMM2(t, b.pair, s.name)
	topics := slices.Sorted(maps.Keys(besideTopics))
	l := openLink("beside", b.src.Bootstrap()[0], b.dst.Bootstrap()[0], topics...)
	l["mode"], l["checkpoint"] = "checkpoint", object{"source_alias": klinkAlias, "target_alias": "t", "interval": "1s"}
	l["groups"] = object{"include": slices.Sorted(maps.Keys(besideGroups))}
	b.klink = startKlink(t, "-c", configFile(t, l))
	return b
}

// write makes the topics and what they have before the mirrors start.
func (b *sideBySide) write(t *testing.T) {
	t.Helper()
	ctx, src := within(t, 4*patience), b.src
	var g errgroup.Group
	g.Go(func() error {
		return shapes.Transactions(ctx, src, shapes.Place{Topic: "txns", Partitions: besideTopics["txns"], Seed: 5}, 60)
	})
	g.Go(func() error {
		return shapes.Compacted(ctx, src, shapes.Place{Topic: "cleaned", Partitions: besideTopics["cleaned"], Seed: 5})
	})
	create(t, src, lab.TopicSpec{Name: "steady", Partitions: besideTopics["steady"], Configs: lab.KeepEverything()})
	o := steadyLoad(1)
	o.RecordsPerSecond, o.Total = 0, int64(BesideRecords.N())
	produce(t, src, o)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func steadyLoad(seed uint64) lab.LoadOptions {
	now := time.Now()
	return lab.LoadOptions{Topics: []string{"steady"}, Seed: seed, MaxBatch: 20, RecordsPerSecond: 300, From: now.Add(-time.Hour), To: now}
}

func (b *sideBySide) load(t *testing.T) *lab.Load {
	t.Helper()
	load, err := lab.StartLoad(context.Background(), b.src, steadyLoad(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { load.Crash() }) // nothing where the test stopped it
	return load
}

// startMM2 starts MirrorMaker 2, which is killed with the test.
func startMM2(t *testing.T, p pair, settings string) {
	t.Helper()
	kafka, err := install.Kafka(within(t, 4*patience), install.Newest)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd, err := mm2.Command(kafka, dir, settings, mm2.Values{Source: p.src.Bootstrap()[0], Target: p.dst.Bootstrap()[0],
		S: mm2Alias, T: "t", Topics: strings.Join(slices.Sorted(maps.Keys(besideTopics)), ","), Codec: "lz4"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "output.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	proc, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proc.Kill()
		if text, err := os.ReadFile(out.Name()); t.Failed() && err == nil {
			t.Logf("MirrorMaker 2 wrote:\n%s", text[max(0, len(text)-20_000):])
		}
	})
}

// partitions are those of the source.
func (b *sideBySide) partitions() (all []lab.Partition) {
	for _, topic := range slices.Sorted(maps.Keys(besideTopics)) {
		for n := range besideTopics[topic] {
			all = append(all, lab.Partition{Topic: topic, Number: n})
		}
	}
	return all
}

// records reads what consumers of that isolation see of a partition.
func records(t testing.TB, c lab.Cluster, p lab.Partition, isolation lab.Isolation) (all []*kgo.Record) {
	t.Helper()
	err := lab.EachRecord(within(t, patience), c, p, lab.ReadOptions{Isolation: isolation}, func(r *kgo.Record) { all = append(all, r) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// commit lets every group come to where it stands at a step.
func (b *sideBySide) commit(t *testing.T, step int) {
	t.Helper()
	b.seen, b.commits = map[lab.Partition][]*kgo.Record{}, map[string]map[lab.Partition]int64{}
	for _, p := range b.partitions() {
		b.seen[p] = records(t, b.src, p, lab.ReadCommitted)
	}
	for group, percent := range besideGroups {
		offsets := make(kadm.Offsets)
		b.commits[group] = map[lab.Partition]int64{}
		for p, seen := range b.seen {
			n := max(1, int64(len(seen))*percent[step]/100)
			b.commits[group][p] = n
			offsets.AddOffset(p.Topic, p.Number, seen[n-1].Offset+1, -1)
		}
		if err := b.source.CommitAllOffsets(within(t, patience), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
}

// offset is what a group has committed at the source.
func (b *sideBySide) offset(group string, p lab.Partition) int64 {
	return b.seen[p][b.commits[group][p]-1].Offset + 1
}

// awaitLive waits until both mirrors have copied what the source has now.
func (b *sideBySide) awaitLive(t *testing.T) {
	t.Helper()
	for n, bounds := range boundsOf(t, b.src, "steady") {
		b.awaitEnd(t, lab.Partition{Topic: "steady", Number: n}, bounds.End)
		b.awaitEnd(t, klinkCopy(lab.Partition{Topic: "steady", Number: n}), bounds.End)
	}
}

// klinkCopy is where klink copies a partition to; MirrorMaker 2 keeps its name.
func klinkCopy(p lab.Partition) lab.Partition {
	return lab.Partition{Topic: klinkAlias + "." + p.Topic, Number: p.Number}
}

// awaitEnd waits until a partition of the target, which may not be there yet, has
// come to an offset.
func (b *sideBySide) awaitEnd(t *testing.T, p lab.Partition, end int64) {
	t.Helper()
	eventually(t, 4*patience, fmt.Sprintf("%s to come to %d", p, end), func() bool {
		ends, err := b.target.ListEndOffsets(within(t, patience), p.Topic)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := ends.Lookup(p.Topic, p.Number)
		return ok && at.Err == nil && at.Offset >= end
	})
}

// synced is where a group goes on in klink's copies by its commits on the target.
func (b *sideBySide) synced(t *testing.T, group string) map[lab.Partition]int64 {
	t.Helper()
	all, err := b.target.FetchOffsets(within(t, patience), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatal(err)
	}
	places := map[lab.Partition]int64{}
	for _, p := range b.partitions() {
		copied := klinkCopy(p)
		if o, ok := all.Lookup(copied.Topic, copied.Number); ok && o.Err == nil && o.At >= 0 {
			places[p] = o.At
		}
	}
	return places
}

// checkpointed is where klink's checkpoints say that it goes on.
func (b *sideBySide) checkpointed(t *testing.T, group string) map[lab.Partition]int64 {
	t.Helper()
	all, err := mm2.ReadCheckpoints(within(t, patience), b.dst, klinkAlias, group)
	if err != nil {
		t.Fatal(err)
	}
	places := map[lab.Partition]int64{}
	for _, p := range b.partitions() {
		if c, ok := all[klinkCopy(p)]; ok {
			places[p] = c.Downstream
		}
	}
	return places
}

// awaitKlink waits until the target has every group where it stands on the source,
// by commits and by checkpoints: before the copy of the first record that it has not read. A copy's offset is its
// number, see requireCopies.
func (b *sideBySide) awaitKlink(t *testing.T) {
	t.Helper()
	for group, want := range b.commits {
		eventually(t, patience, fmt.Sprintf("klink to carry %s over to %v", group, want), func() bool {
			return maps.Equal(b.synced(t, group), want) && maps.Equal(b.checkpointed(t, group), want)
		})
	}
}

// awaitMM2 waits until MirrorMaker 2's checkpoint of each partition is as wanted.
func (b *sideBySide) awaitMM2(t *testing.T, group string, wanted func(lab.Partition, mm2.Checkpoint) bool) {
	t.Helper()
	eventually(t, b.setting.soon, "MirrorMaker 2 to translate "+group, func() bool {
		all, err := mm2.ReadCheckpoints(within(t, patience), b.dst, mm2Alias, group)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(b.partitions(), func(p lab.Partition) bool {
			c, ok := all[p]
			return !ok || !wanted(p, c)
		})
	})
}

// requireCopies waits until both mirrors have copied what they see of the source,
// which rests, and compares: the same records in the same order, and nothing else.
func (b *sideBySide) requireCopies(t *testing.T) {
	t.Helper()
	for _, p := range b.partitions() {
		b.requireCopy(t, klinkCopy(p), b.seen[p])
		b.requireCopy(t, p, records(t, b.src, p, b.setting.sees))
	}
}

func (b *sideBySide) requireCopy(t *testing.T, at lab.Partition, want []*kgo.Record) {
	t.Helper()
	b.awaitEnd(t, at, int64(len(want)))
	got := records(t, b.dst, at, lab.ReadUncommitted)
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%s: %d records, the source shows %d", at, len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Offset != int64(i) || !sameRecord(g, w) {
			t.Fatalf("%s: copy %d, at offset %d, is not the record at offset %d of the source", at, i, g.Offset, w.Offset)
		}
	}
}

// judge sets side by side what each group reads again of what it had read, where it
// goes on as MirrorMaker 2's own client says of both mirrors.
func (b *sideBySide) judge(t *testing.T) {
	t.Helper()
	groups := slices.Sorted(maps.Keys(besideGroups))
	java, err := readers.Remote(within(t, 4*patience), readers.RemoteJob{Bootstrap: b.dst.Bootstrap(),
		Groups: map[string][]string{mm2Alias: groups, klinkAlias: groups}})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		ours, theirs := places(java.Offsets[klinkAlias][group]), places(java.Offsets[mm2Alias][group])
		for _, p := range b.partitions() {
			here, ok := ours[klinkCopy(p)]
			again := b.commits[group][p] - here
			there := b.copiesBefore(t, p, b.offset(group, p)) - theirs[p] // 0 for no answer: all again
			t.Logf("%-8s %-10s klink %d, MirrorMaker 2 %d records again", group, p, again, there)
			if !ok || again != 0 || there >= 0 && again > there {
				t.Errorf("%s goes on at %d (%v) in %s: %d records again, with MirrorMaker 2 %d", group, here, ok, klinkCopy(p), again, there)
			}
		}
	}
}

func places(all []readers.Translated) map[lab.Partition]int64 {
	out := map[lab.Partition]int64{}
	for _, at := range all {
		out[lab.Partition{Topic: at.Topic, Number: at.Partition}] = at.Offset
	}
	return out
}

// copiesBefore counts MirrorMaker 2's copies of records before a source offset.
func (b *sideBySide) copiesBefore(t *testing.T, p lab.Partition, offset int64) (n int64) {
	t.Helper()
	for _, r := range records(t, b.src, p, b.setting.sees) {
		if r.Offset < offset {
			n++
		}
	}
	return n
}
