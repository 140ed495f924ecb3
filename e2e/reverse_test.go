package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/linker/reverse"
	"klink/linker/state"
)

const (
	homePartitions = 3
	// homeGroup is the application that travels.
	homeGroup = "traveller"
	homeTopic = "orders"
)

// homeTrip is a pair of clusters between which producers and an application move,
// with the links that go with them.
type homeTrip struct {
	p pair
	// file is the link's that mirrors now, or was stopped last; name its name.
	file, name string
	daemon     *klink
	// got is all that the application was given, wherever it was: offsets are the
	// same on both sides.
	got  lab.Deliveries
	seed uint64
}

// TestG6_ThereAndBackAgain: a planned switch there and back, as often as the size
// says: producers are stopped at the cut and started on the other side, the link is
// turned around in place, and an application with auto.offset.reset=none reads every
// record once, whichever side it is on.
func TestG6_ThereAndBackAgain(t *testing.T) {
	t.Parallel()
	h := &homeTrip{p: startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{}), name: "home"}
	create(t, h.p.src, lab.TopicSpec{Name: homeTopic, Partitions: homePartitions, Configs: lab.KeepEverything()})
	l := openLink(h.name, h.p.src.Bootstrap()[0], h.p.dst.Bootstrap()[0], homeTopic)
	l["groups"] = object{"include": []string{homeGroup}}
	h.file = configFile(t, l)
	seedGroup(t, h.p.src)
	h.daemon = startKlink(t, "-c", h.file)
	for trip := range 2 * RoundTrips.N() {
		began := time.Now()
		h.work(t)
		h.promote(t)
		h.work(t) // on the other side, before anything mirrors back
		h.turn(t)
		h.work(t)
		h.requireSame(t)
		t.Logf("trip %d took %s, the link is %s", trip, time.Since(began).Round(time.Millisecond), h.name)
	}
	h.daemon.stop(t)
	if h.name != "home" {
		t.Errorf("the link is called %q after an even number of trips", h.name)
	}
	c := h.requireSame(t)
	if n := h.got.Records(); n != c.Records() || len(h.got.Twice()) > 0 {
		t.Errorf("%d records were delivered of %d, twice: %v", n, c.Records(), h.got.Twice())
	}
	for n := range int32(homePartitions) {
		lost, first, err := h.got.Lost(within(t, patience), h.p.src, lab.Partition{Topic: homeTopic, Number: n}, lab.ReadOptions{Isolation: lab.ReadCommitted})
		if err != nil || lost > 0 {
			t.Errorf("partition %d: %d records were not delivered, the first at %d (%v)", n, lost, first, err)
		}
	}
}

// requireSame waits until both sides hold the same and returns the comparison. A
// cluster that was written to by applications has their aborted records, which are
// no copies of anything.
func (h *homeTrip) requireSame(t testing.TB) lab.Comparison {
	t.Helper()
	o := lab.CompareOptions{Topics: []string{homeTopic}, DstCommitted: true}
	err := lab.AwaitMirrored(within(t, patience), h.p.src, h.p.dst, o)
	var c lab.Comparison
	if err == nil {
		c, err = lab.CompareClusters(within(t, patience), h.p.src, h.p.dst, o)
	}
	if err != nil || !c.Equal() || !c.SameEnds() || c.Records() == 0 {
		t.Fatalf("not the same: %s (%v)", c, err)
	}
	return c
}

// seedGroup commits the start of the log: auto.offset.reset is none.
func seedGroup(t testing.TB, c lab.Cluster) {
	t.Helper()
	var offsets kadm.Offsets
	for n := range int32(homePartitions) {
		offsets.AddOffset(homeTopic, n, 0, -1)
	}
	done, err := admin(t, c).CommitOffsets(within(t, patience), homeGroup, offsets)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// work has producers write where the link's source is, a transaction that is
// aborted among them, and the application read and commit all of it.
func (h *homeTrip) work(t testing.TB) {
	t.Helper()
	h.seed++
	h.abort(t)
	ends := produce(t, h.p.src, lab.LoadOptions{Topics: []string{homeTopic}, Seed: h.seed, MinBatch: 5, MaxBatch: 50, Total: 1_000}).Ends
	cl, err := kgo.NewClient(append(h.p.src.ClientOpts(), kgo.ConsumerGroup(homeGroup), kgo.ConsumeTopics(homeTopic),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	for next := map[int32]int64{}; !arrived(next, ends); {
		fetched := cl.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("the application at %v of %v: %v", next, ends, err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			h.got.Note(lab.Partition{Topic: r.Topic, Number: r.Partition}, r.Offset)
			next[r.Partition] = r.Offset + 1
		})
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cl.LeaveGroupContext(ctx); err != nil {
		t.Fatal(err)
	}
}

func arrived(next map[int32]int64, ends map[lab.Partition]int64) bool {
	for p, end := range ends {
		if next[p.Number] < end {
			return false
		}
	}
	return true
}

// abort leaves a transaction of each partition aborted.
func (h *homeTrip) abort(t testing.TB) {
	t.Helper()
	ctx := within(t, patience)
	cl, err := kgo.NewClient(append(h.p.src.ClientOpts(), kgo.TransactionalID("undecided"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for n := range int32(homePartitions) {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: homeTopic, Partition: n, Value: []byte("aborted")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cl.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// promote cuts, with the producers stopped, and moves everybody to the other side.
func (h *homeTrip) promote(t testing.TB) {
	t.Helper()
	cutOver(t, "promote", "-c", h.file, "--yes")
	h.p.src, h.p.dst = h.p.dst, h.p.src
}

// turn turns the link around and starts the new one; the old one says so.
func (h *homeTrip) turn(t testing.TB) {
	t.Helper()
	file := filepath.Join(t.(*testing.T).TempDir(), "next.yaml")
	r := turnAround(t, 0, "-c", h.file, "--yes", "--write", file)
	if r.Failed != 0 || r.Written != file || len(r.Topics) != 1 || r.Topics[0].Verdict != reverse.InPlace || len(r.Groups) != 1 {
		t.Fatalf("%+v", r)
	}
	h.daemon.await(t, "the old link names the new one", func(l state.Link) bool {
		s := topicOf(l, homeTopic)
		return s.State == state.Stopped && strings.Contains(s.Detail+s.Hint, r.Next)
	})
	h.daemon.stop(t)
	h.file, h.name = file, r.Next
	h.daemon = startKlink(t, "-c", h.file)
}

// cutOver runs promote, which must lose nothing, or failover; both must stop all
// topics.
func cutOver(t testing.TB, verb string, args ...string) {
	t.Helper()
	o := command(t, append([]string{verb, "-o", "json"}, args...)...)
	var r struct {
		Failed      int
		RecordsLost *int64 `json:"records_lost"`
		Topics      []struct{ State string }
		Warnings    []struct{ Right string }
	}
	err := json.Unmarshal([]byte(o.out), &r)
	if err != nil || o.code != 0 || r.Failed != 0 || len(r.Topics) == 0 {
		t.Fatalf("klink %s %v: %v, exit code %d:\n%s%s", verb, args, err, o.code, o.out, o.errOut)
	}
	for _, x := range r.Topics {
		if x.State != string(state.Stopped) {
			t.Errorf("klink %s left a topic %s", verb, x.State)
		}
	}
	if verb == "promote" && (r.RecordsLost == nil || *r.RecordsLost != 0 || len(r.Warnings) != 0) {
		t.Errorf("a promotion loses records, or misses rights for the way home: %s", o.out)
	}
}

// turned is what klink reverse prints with -o json.
type turned struct {
	Command string `json:"_command"`
	Version int    `json:"_version"`
	reverse.Result
}

// turnAround runs klink reverse and requires an exit code.
func turnAround(t testing.TB, code int, args ...string) turned {
	t.Helper()
	o := command(t, append([]string{"reverse", "-o", "json"}, args...)...)
	var r turned
	if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != code || r.Command != "reverse" || r.Version != 1 {
		t.Fatalf("klink reverse %v: %v, exit code %d, want %d:\n%s%s", args, err, o.code, code, o.out, o.errOut)
	}
	return r
}

// TestReverseAfterFailover: what the promoted side never got after a failover is
// shown with its numbers and times and stands in the way; with --recreate the old
// source's topic is mirrored anew, with its offsets. A topic that lost nothing goes on
// in place, and the fence that the failover wrote is covered there.
func TestReverseAfterFailover(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	for _, topic := range []string{"even", "tail"} {
		create(t, p.src, lab.TopicSpec{Name: topic, Partitions: 2, Configs: lab.KeepEverything()})
	}
	file := configFile(t, openLink("east", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "even", "tail"))
	k := startKlink(t, "-c", file)
	produce(t, p.src, lab.LoadOptions{Topics: []string{"even", "tail"}, Seed: 1, MaxBatch: 50, Total: 2_000})
	requireMirrored(t, p, 2_000, "even", "tail")
	k.stop(t)
	late := writeTail(t, p.src, 70)
	cutOver(t, "failover", "-c", file, "--yes")
	produce(t, p.dst, lab.LoadOptions{Topics: []string{"even", "tail"}, Seed: 2, MaxBatch: 50, Total: 1_000})
	back := pair{src: p.dst, dst: p.src}

	first := filepath.Join(t.TempDir(), "first.yaml")
	r := turnAround(t, 0, "even", "-c", file, "--yes", "--write", first)
	for _, q := range r.Topics[0].Partitions {
		if r.Topics[0].Verdict != reverse.InPlace || q.FenceOffset == nil || *q.FenceOffset != *q.SourceEnd {
			t.Fatalf("%s: %+v", r.Topics[0].Verdict, q)
		}
	}
	k = startKlink(t, "-c", first)
	requireMirrored(t, back, 1_000, "even")
	k.stop(t)

	requireTail(t, turnAround(t, 4, "-c", file, "--yes", "--write", first), late)
	second := filepath.Join(t.TempDir(), "second.yaml")
	r = turnAround(t, 0, "-c", file, "--yes", "--write", second, "--recreate")
	for _, x := range r.Topics {
		if !x.OK || x.Recreate != (x.SourceTopic == "tail") || r.Written != second {
			t.Fatalf("%+v", x)
		}
	}
	startKlink(t, "-c", second)
	requireMirrored(t, back, 3_000, "even", "tail")
}

// requireTail holds what is shown of a topic that cannot go on in place, beside one
// that does so already.
func requireTail(t testing.TB, r turned, late time.Time) {
	t.Helper()
	for _, x := range r.Topics {
		if x.SourceTopic == "even" && (x.Verdict != reverse.Reversed || !x.OK) {
			t.Errorf("%+v", x)
		}
		if x.SourceTopic != "tail" {
			continue
		}
		if x.Verdict != reverse.HasTail || x.OK || x.TailRecords != 140 || r.Failed != 1 || r.Written != "" {
			t.Errorf("%+v", x)
		}
		for _, q := range x.Partitions {
			if q.Tail == nil || q.Tail.Records != 70 || q.Tail.End-q.Tail.From != 70 || q.Tail.From != *q.CutEnd ||
				!q.Tail.FirstAt.Equal(late) || !q.Tail.LastAt.Equal(late.Add(69*time.Second)) {
				t.Errorf("%+v, tail %+v", q, q.Tail)
			}
		}
	}
}

// writeTail writes n records to each partition of the topic, a second apart, and
// returns the first one's time.
func writeTail(t testing.TB, c *lab.Kafka, n int) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl, err := kgo.NewClient(append(c.ClientOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	first := time.Now().Add(-time.Hour).Truncate(time.Second)
	var all []*kgo.Record
	for i := range n {
		for part := range int32(2) {
			all = append(all, &kgo.Record{Topic: "tail", Partition: part, Timestamp: first.Add(time.Duration(i) * time.Second), Value: fmt.Appendf(nil, "late %d", i)})
		}
	}
	if err := cl.ProduceSync(ctx, all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return first
}
