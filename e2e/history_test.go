package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
	"klink/linker/state"
)

// logs are the digests of whole partitions, as any consumer sees them.
type logs map[lab.Partition]lab.Digest

// digestsOf reads all partitions of topics.
func digestsOf(t testing.TB, c lab.Cluster, topics ...string) logs {
	t.Helper()
	out := logs{}
	ctx := within(t, 4*patience)
	bounds, err := lab.ReadBounds(ctx, c, lab.ReadUncommitted, topics...)
	if err != nil {
		t.Fatal(err)
	}
	for p := range bounds {
		if out[p], err = lab.DigestPartition(ctx, c, p, lab.ReadOptions{Isolation: lab.ReadUncommitted}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// requireUntouched proves that the logs are still what they were.
func (l logs) requireUntouched(t testing.TB, c lab.Cluster, topics ...string) {
	t.Helper()
	want := logs{}
	for p, d := range l {
		for _, topic := range topics {
			if p.Topic == topic {
				want[p] = d
			}
		}
	}
	if d := cmp.Diff(want, digestsOf(t, c, topics...)); d != "" || len(want) == 0 {
		t.Errorf("the logs of %v changed (-was +is):\n%s", topics, d)
	}
}

// fixed is a load whose records depend on the seed alone, in batches of ten.
func fixed(seed uint64, total int64, topics ...string) lab.LoadOptions {
	day := time.Now().Truncate(24 * time.Hour)
	return lab.LoadOptions{Topics: topics, Seed: seed, Total: total, MinBatch: 10, MaxBatch: 10, From: day.Add(-time.Hour), To: day}
}

// remove deletes topics and returns when no broker knows them.
func remove(t testing.TB, c lab.Cluster, topics ...string) {
	t.Helper()
	adm := admin(t, c)
	resp, err := adm.DeleteTopics(within(t, patience), topics...)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, fmt.Sprintf("%v to be gone", topics), func() bool {
		there, err := adm.ListTopics(within(t, patience))
		for _, topic := range topics {
			if err != nil || there.Has(topic) {
				return false
			}
		}
		return true
	})
}

// goOn proves that a topic which nothing happened to is mirrored further.
func goOn(t testing.TB, p pair, seed uint64, topic string) {
	t.Helper()
	r := produce(t, p.src, fixed(seed, 500, topic))
	requireMirrored(t, p, r.Acked, topic)
}

// TestG4_Histories: whatever happened to a topic on either side, before klink
// starts, while it runs or while it is down, a partition goes on only where its
// target holds a prefix of the source's log; everywhere else it halts with a
// reason and nothing is appended.
func TestG4_Histories(t *testing.T) {
	t.Parallel()
	// A cluster that creates topics for whoever asks would bring back a deleted
	// one at the first careless question (C107).
	careless := lab.KafkaOptions{Proxy: true, Props: map[string]string{"auto.create.topics.enable": "true"}}
	p := startPair(t, careless, careless)
	t.Run("target has data", func(t *testing.T) { testForeignTargets(t, p) })
	t.Run("topics replaced", func(t *testing.T) { testReplaced(t, p) })
}

// testForeignTargets: an ordinary producer filled the targets before.
func testForeignTargets(t *testing.T, p pair) {
	cases := []struct {
		topic    string
		src, dst []lab.LoadOptions
		why      state.Reason // "" where it is mirrored on
	}{
		{"f-prefix", []lab.LoadOptions{fixed(1, 2000)}, []lab.LoadOptions{fixed(1, 500)}, ""},
		{"f-same", []lab.LoadOptions{fixed(2, 700)}, []lab.LoadOptions{fixed(2, 700)}, ""},
		{"f-longer", []lab.LoadOptions{fixed(3, 500)}, []lab.LoadOptions{fixed(3, 2000)}, state.Diverged},
		{"f-other", []lab.LoadOptions{fixed(4, 700)}, []lab.LoadOptions{fixed(5, 700)}, state.Diverged},
		{"f-other-shorter", []lab.LoadOptions{fixed(6, 700)}, []lab.LoadOptions{fixed(7, 300)}, state.Diverged},
		{"f-other-longer", []lab.LoadOptions{fixed(6, 300)}, []lab.LoadOptions{fixed(7, 700)}, state.Diverged},
		{"f-tail", []lab.LoadOptions{fixed(8, 400), fixed(9, 600)}, []lab.LoadOptions{fixed(8, 400), fixed(10, 10)}, state.Diverged},
	}
	var good, bad, all []string
	for _, c := range cases {
		all = append(all, c.topic)
		if c.why == "" {
			good = append(good, c.topic)
		} else {
			bad = append(bad, c.topic)
		}
	}
	createAll(t, p.src, 1, all...)
	createAll(t, p.dst, 1, all...)
	fill := func(c lab.Cluster, topic string, loads []lab.LoadOptions) {
		for _, o := range loads {
			o.Topics = []string{topic}
			produce(t, c, o)
		}
	}
	for _, c := range cases {
		fill(p.src, c.topic, c.src)
		fill(p.dst, c.topic, c.dst)
	}
	before := digestsOf(t, p.dst, bad...)
	k := startKlink(t, p.plain("f-*")...)
	for _, c := range cases {
		if c.why == "" {
			continue
		}
		if p := k.awaitHalt(t, c.topic, 0, c.why); !strings.Contains(p.Detail, "klink did not write") || !strings.Contains(p.Hint, "on_unmirrorable: checkpoint") {
			t.Errorf("%s: %s (%s)", c.topic, p.Detail, p.Hint)
		}
	}
	produce(t, p.src, fixed(11, 500, all...))
	requireMirrored(t, p, 2700, good...)
	k.stop(t)
	before.requireUntouched(t, p.dst, bad...)
}

// testReplaced deletes topics on either side and makes them anew.
func testReplaced(t *testing.T, p pair) {
	const calm = "t-calm"
	one := []string{calm, "t-deleted", "t-remade", "t-later", "t-dst-deleted", "t-dst-remade", "d-deleted", "d-remade", "d-dst-deleted", "d-dst-remade"}
	many := []string{"t-fewer", "d-fewer"}
	all := append(one[:len(one):len(one)], many...)
	createAll(t, p.src, 1, one...)
	createAll(t, p.src, 12, many...)
	total := produce(t, p.src, fixed(1, 4000, all...)).Acked
	args := p.plain("t-*", "d-*")
	k := startKlink(t, args...)
	requireMirrored(t, p, total, all...)
	was := digestsOf(t, p.dst, all...)

	quiet := p.watchMetadata()
	remove(t, p.src, "t-deleted", "t-remade", "t-later", "t-fewer")
	remove(t, p.dst, "t-dst-deleted", "t-dst-remade")
	createAll(t, p.src, 1, "t-remade")
	createAll(t, p.src, 3, "t-fewer")
	createAll(t, p.dst, 1, "t-dst-remade")
	more := []string{"t-remade", "t-fewer", "t-dst-deleted", "t-dst-remade"}
	produce(t, p.src, fixed(2, 6000, more...))
	k.awaitHalt(t, "t-deleted", 0, state.SourceDeleted)
	k.awaitHalt(t, "t-later", 0, state.SourceDeleted)
	createAll(t, p.src, 1, "t-later")
	k.awaitTopic(t, "t-remade", state.Halted, state.SourceRecreated)
	k.awaitTopic(t, "t-fewer", state.Halted, state.SourceRecreated)
	k.awaitHalt(t, "t-dst-deleted", 0, state.TargetRecreated)
	k.awaitHalt(t, "t-dst-remade", 0, state.TargetRecreated)
	produce(t, p.src, fixed(3, 1000, more...))
	goOn(t, p, 4, calm)
	k.await(t, "all of what was made anew to say so", func(l state.Link) bool {
		return recreated(l, "t-fewer") == 12 && recreated(l, "t-remade") == 1 && recreated(l, "t-later") == 1
	})
	quiet(t)
	was.requireUntouched(t, p.dst, "t-deleted", "t-remade", "t-later", "t-fewer")
	requireEmpty(t, p.dst, "t-dst-remade")
	k.stop(t)

	remove(t, p.src, "d-deleted", "d-remade", "d-fewer")
	remove(t, p.dst, "d-dst-deleted", "d-dst-remade", "t-remade")
	createAll(t, p.src, 1, "d-remade")
	createAll(t, p.src, 3, "d-fewer")
	createAll(t, p.dst, 1, "d-dst-remade")
	produce(t, p.src, fixed(5, 6000, "d-remade", "d-fewer", "d-dst-deleted", "d-dst-remade"))
	k = startKlink(t, args...)
	for _, topic := range []string{"t-deleted", "d-deleted"} {
		k.awaitTopic(t, topic, state.Halted, state.SourceDeleted)
	}
	for _, topic := range []string{"t-fewer", "t-later", "d-remade", "d-fewer"} {
		k.awaitTopic(t, topic, state.Halted, state.SourceRecreated)
	}
	for _, topic := range []string{"t-dst-remade", "d-dst-remade"} {
		k.awaitTopic(t, topic, state.Halted, state.TargetRecreated)
	}
	// A target that was deleted while klink did not run, as the hints say, is
	// mirrored from the beginning, be it of the old source or of a new one.
	requireMirrored(t, p, 1000, "d-dst-deleted", "t-dst-deleted", "t-remade")
	goOn(t, p, 6, calm)
	k.stop(t)
	was.requireUntouched(t, p.dst, "t-deleted", "t-later", "t-fewer", "d-deleted", "d-remade", "d-fewer")
	requireEmpty(t, p.dst, "t-dst-remade", "d-dst-remade")
	there, err := admin(t, p.src).ListTopics(within(t, patience))
	if err != nil || there.Has("t-deleted") || there.Has("d-deleted") {
		t.Errorf("a deleted source topic came back: %v, %v", there.Names(), err)
	}
}

// recreated counts a topic's partitions that are halted since it was made anew, and of
// which no lag is told.
func recreated(l state.Link, topic string) (n int) {
	for _, x := range l.Topics {
		for _, p := range x.Partitions {
			if x.SourceTopic == topic && p.State == state.Halted && p.Reason == string(state.SourceRecreated) && p.LagRecords == nil {
				n++
			}
		}
	}
	return n
}

// requireEmpty proves that nothing was written.
func requireEmpty(t testing.TB, c lab.Cluster, topics ...string) {
	t.Helper()
	for p, d := range digestsOf(t, c, topics...) {
		if d.Records != 0 || d.To != 0 {
			t.Errorf("%s holds %d records up to %d, want none", p, d.Records, d.To)
		}
	}
}

// watchMetadata counts questions about topics on both sides until the function
// it returns is called, which fails the test if they come as a storm (C058).
func (p pair) watchMetadata() (check func(testing.TB)) {
	count := func() (n int) {
		for _, c := range []*lab.Kafka{p.src, p.dst} {
			for _, b := range c.Brokers() {
				n += b.Proxy().Count(int16(kmsg.Metadata))
			}
		}
		return n
	}
	before, begun := count(), time.Now()
	return func(t testing.TB) {
		t.Helper()
		n, took := count()-before, time.Since(begun)
		rate := float64(n) / took.Seconds()
		t.Logf("%d Metadata requests in %v", n, took)
		if rate > 40 {
			t.Errorf("%.0f Metadata requests per second", rate)
		}
	}
}
