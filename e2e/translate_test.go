package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/app"
	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/mm2"
	"klink/cmd/lab/process"
	"klink/cmd/lab/readers"
)

// startMirrorMaker starts a MirrorMaker 2 that mirrors topics from alias src to alias dst.
func startMirrorMaker(t testing.TB, p pair, settings, topics string) *process.Process {
	t.Helper()
	kafka, err := install.Kafka(within(t, patience), install.Newest)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd, err := mm2.Command(kafka, dir, settings, mm2.Values{Source: p.src.Bootstrap()[0], Target: p.dst.Bootstrap()[0], S: "src", T: "dst", Topics: topics, Codec: "none"})
	if err != nil {
		t.Fatal(err)
	}
	log := &lineLog{changed: make(chan struct{})}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	proc, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proc.Kill() // gone already where the test ended it
		if text, _ := log.read(); t.Failed() {
			t.Logf("MirrorMaker 2 wrote:\n%s", text[max(0, len(text)-20_000):])
		}
	})
	return proc
}

// translation is what klink translate prints; it need not have found everything.
func translation(t testing.TB, args ...string) (r app.TranslateResult, whole bool) {
	t.Helper()
	o := command(t, append([]string{"translate", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("klink translate %v: %v, exit code %d: %s", args, err, o.code, o.errOut)
	}
	return r, o.code == 0
}

// noise is how many records of others the target's partitions hold before copies.
const noise = 25

// lagMax is how far a MirrorMaker 2 lets a record be behind the last offset sync
// (offset.lag.max), and the one that exceeds it.
const lagMax = 101

// TestMM2_TranslateReadsMirrorMaker: klink translates a group's offsets by what a
// real MirrorMaker 2 wrote, never behind what its own Java client says, never past
// what the group has not read, and reads no more again than it says.
func TestMM2_TranslateReadsMirrorMaker(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	create(t, p.src, lab.TopicSpec{Name: "orders", Partitions: 2}, lab.TopicSpec{Name: "unmirrored"})
	create(t, p.dst, lab.TopicSpec{Name: "src.orders", Partitions: 2})
	writeEach(t, p.dst, "src.orders", noise)
	n := int64(TranslatedRecords.N())
	writeEach(t, p.src, "orders", int(n))
	committed := map[int32]int64{0: n * 7 / 16, 1: n}
	commitEach(t, p.src, "billing", "orders", committed[0], committed[1])

	maker := startMirrorMaker(t, p, "sampled", "orders")
	alone := []string{"--target", p.dst.Bootstrap()[0], "--from-mm2", "--source-alias", "src", "--target-alias", "dst", "--group", "billing"}
	eventually(t, 2*patience, "MirrorMaker 2's checkpoints", func() bool {
		if !maker.Running() {
			t.Fatal("MirrorMaker 2 ended")
		}
		found, err := mm2.ReadCheckpoints(within(t, patience), p.dst, "src", "billing")
		// Where one stands at the end of a log, that is mirrored to there, and so are its syncs.
		end := found[lab.Partition{Topic: "src.orders", Number: 1}]
		return err == nil && len(found) == 2 && end.Downstream >= noise+n-lagMax
	})
	if err := maker.Kill(); err != nil {
		t.Fatal(err)
	}
	writeGarbage(t, p.dst, "src.checkpoints.internal")

	java := javaOffsets(t, p.dst)
	r, whole := translation(t, alone...)
	if !whole || len(r.Reads) != 1 || !r.Reads[0].Complete || r.Reads[0].Undecodable != 1 {
		t.Fatalf("%+v", r)
	}
	for i, got := range r.Groups[0].Partitions {
		if want := java[i]; *got.TargetTopic != want.Topic || got.Partition != want.Partition || *got.TargetOffset != want.Offset {
			t.Errorf("by checkpoints alone %+v, the Java client says %+v", got, want)
		}
	}
	both := append([]string{"--source", p.src.Bootstrap()[0]}, alone...)
	commitEach(t, p.src, "billing", "unmirrored", 0)
	r, whole = translation(t, both...)
	if whole || r.Unanswered != 1 || len(r.Groups[0].Partitions) != 3 || r.Groups[0].Partitions[2].Reason != "NOT_MIRRORED" || len(r.Reads) != 2 {
		t.Fatalf("%+v", r)
	}
	for i, got := range r.Groups[0].Partitions[:2] {
		next := committed[got.Partition] + noise
		again := next - *got.TargetOffset
		t.Logf("%d: next %d, klink %d (%s, reads again at most %d), the Java client %d", got.Partition, next, *got.TargetOffset, got.Kind, *got.ReadAgain, java[i].Offset)
		if *got.TargetOffset < java[i].Offset || again < 0 || again > *got.ReadAgain || *got.ReadAgain > lagMax {
			t.Errorf("%+v: the group goes on at %d, the Java client says %d", got, next, java[i].Offset)
		}
	}
	requireWayBack(t, p, both, n)
}

// requireWayBack commits on the target and translates back.
func requireWayBack(t testing.TB, p pair, args []string, n int64) {
	t.Helper()
	commitEach(t, p.dst, "billing", "src.orders", noise+n/3, noise+n)
	r, whole := translation(t, append(slices.Clone(args), "--reverse")...)
	if !whole || len(r.Groups[0].Partitions) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, got := range r.Groups[0].Partitions {
		if again := *got.TargetOffset - noise - *got.SourceOffset; again < 0 || again > *got.ReadAgain || *got.ReadAgain > lagMax {
			t.Errorf("way back: %+v", got)
		}
	}
}

// javaOffsets asks MirrorMaker 2's own client where billing goes on.
func javaOffsets(t testing.TB, c *lab.Kafka) []readers.Translated {
	t.Helper()
	answers, err := readers.Remote(within(t, 2*patience), readers.RemoteJob{Bootstrap: c.Bootstrap(), Groups: map[string][]string{"src": {"billing"}}})
	if err != nil {
		t.Fatal(err)
	}
	found := answers.Offsets["src"]["billing"]
	if len(found) != 2 {
		t.Fatalf("the Java client says %+v", answers)
	}
	return found
}

// writeEach writes so many records to each of two partitions, in their order.
func writeEach(t testing.TB, c lab.Cluster, topic string, records int) {
	t.Helper()
	var all []*kgo.Record
	for i := range records {
		for n := range int32(2) {
			all = append(all, &kgo.Record{Topic: topic, Partition: n, Value: []byte(strings.Repeat("v", i%100))})
		}
	}
	produceWhere(t, c, all)
}

// commitEach commits a group's offsets, by partition.
func commitEach(t testing.TB, c lab.Cluster, group, topic string, offsets ...int64) {
	t.Helper()
	all := make(kadm.Offsets)
	for n, o := range offsets {
		all.AddOffset(topic, int32(n), o, -1)
	}
	if err := admin(t, c).CommitAllOffsets(within(t, patience), group, all); err != nil {
		t.Fatal(err)
	}
}

// writeGarbage writes what is no record of MirrorMaker 2 and what its client skips.
func writeGarbage(t testing.TB, c lab.Cluster, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(within(t, patience), &kgo.Record{Topic: topic, Key: []byte("x"), Value: []byte("y")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// requireTranslated: klink translates all groups to where they are to go on, exactly.
func requireTranslated(t testing.TB, want map[string][]readers.Translated, args ...string) {
	t.Helper()
	r, whole := translation(t, append(args, "--group", "*")...)
	if !whole || len(r.Groups) != len(want) {
		t.Fatalf("%d groups of %d: %+v", len(r.Groups), len(want), r)
	}
	for _, g := range r.Groups {
		var got []readers.Translated
		for i, p := range g.Partitions {
			got = append(got, readers.Translated{Topic: *p.TargetTopic, Partition: p.Partition, Offset: *p.TargetOffset, Metadata: want[g.Group][i].Metadata})
			if *p.ReadAgain != 0 {
				t.Errorf("%s: %+v", g.Group, p)
			}
		}
		if !slices.Equal(got, want[g.Group]) {
			t.Errorf("klink translate %v: group %s goes on at %+v, want %+v", args, g.Group, got, want[g.Group])
		}
	}
}

// requireTranslatedBack: an offset on the target leads back to the source record of
// which the next copy is, or to the end.
func requireTranslatedBack(t testing.TB, p pair, args ...string) {
	t.Helper()
	r, whole := translation(t, append(args, "--group", "*", "--reverse")...)
	if !whole || len(r.Groups) == 0 {
		t.Fatalf("%+v", r)
	}
	logs := map[lab.Partition][2][]*kgo.Record{}
	for _, g := range r.Groups {
		for _, a := range g.Partitions {
			at := lab.Partition{Topic: *a.SourceTopic, Number: a.Partition}
			if _, read := logs[at]; !read {
				logs[at] = [2][]*kgo.Record{visible(t, p.src, at.Topic, at.Number), visible(t, p.dst, *a.TargetTopic, at.Number)[foreignRecords:]}
			}
			src, dst := logs[at][0], logs[at][1]
			i := slices.IndexFunc(dst, func(r *kgo.Record) bool { return r.Offset >= *a.TargetOffset })
			if i >= 0 && *a.SourceOffset != src[i].Offset || i < 0 && *a.SourceOffset <= src[len(src)-1].Offset {
				t.Errorf("%s of %s: target offset %d leads back to %d", at, g.Group, *a.TargetOffset, *a.SourceOffset)
			}
		}
	}
}
