package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
)

// tombstonesStay is the delete.retention.ms of a topic whose mirror is away for
// longer.
const tombstonesStay = time.Second

// TestG8_WhatGoesWhileKlinkIsAway: the source's retention or cleaner removes what
// was not mirrored yet. Neither is passed over in silence.
func TestG8_WhatGoesWhileKlinkIsAway(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Props: shapes.BrokerProps()}
	p := startPair(t, o, o)
	keyed := shapes.Place{Topic: "keyed", Partitions: 1, Seed: 3}
	if err := shapes.Keyed(within(t, patience), p.src, keyed, tombstonesStay); err != nil {
		t.Fatal(err)
	}
	create(t, p.src, lab.TopicSpec{Name: "halts", Configs: lab.KeepEverything()}, lab.TopicSpec{Name: "padded", Configs: lab.KeepEverything()})
	load := lab.LoadOptions{Topics: []string{"halts", "padded"}, Seed: 5, Total: 500, MaxBatch: 20}
	produce(t, p.src, load)

	src, dst := p.src.Bootstrap()[0], p.dst.Bootstrap()[0]
	pads := openLink("pads", src, dst, "padded")
	pads["on_retention_overrun"] = "pad"
	file := configFile(t, openLink("halts", src, dst, "halts", "keyed"), pads)
	k := startKlink(t, "-c", file)
	requireMirrored(t, p, 400, "halts", "padded", "keyed")
	k.awaitReport(t, "keyed to be ACTIVE", func(r state.Report) bool {
		return topicOf(linkOf(r, "halts"), "keyed").State == state.Active
	})
	k.stop(t)

	was := map[string]lab.Bounds{}
	for _, topic := range load.Topics {
		was[topic] = boundsOf(t, p.dst, topic)[0]
	}
	load.Seed = 6
	produce(t, p.src, load)
	for _, topic := range load.Topics {
		deleteRecords(t, p.src, topic, map[int32]int64{0: was[topic].End + 50})
	}
	if err := shapes.Forget(within(t, 2*patience), p.src, keyed); err != nil {
		t.Fatal(err)
	}
	k = startKlink(t, "-c", file)
	t.Run("retention, halt", func(t *testing.T) { testOverrunHalts(t, p, k, was["halts"].End) })
	t.Run("retention, pad", func(t *testing.T) { testOverrunPads(t, p, k, file) })
	t.Run("tombstones", func(t *testing.T) { testStaleKeys(t, p, k, file) })
	k.stop(t)
}

func testOverrunHalts(t *testing.T, p pair, k *klink, end int64) {
	k.awaitReport(t, "halts to be HALTED", func(r state.Report) bool {
		x := topicOf(linkOf(r, "halts"), "halts")
		return x.State == state.Halted && x.Reason == string(state.RetentionOverrun)
	})
	if b := boundsOf(t, p.dst, "halts")[0]; b.End != end {
		t.Errorf("the halted target ends at %d, was %d", b.End, end)
	}
}

// testOverrunPads: the range is on record, and what follows has its offsets.
func testOverrunPads(t *testing.T, p pair, k *klink, file string) {
	requireMirrored(t, p, 100, "padded")
	start := boundsOf(t, p.src, "padded")[0].Start
	if b := boundsOf(t, p.dst, "padded")[0]; b.Start != start {
		t.Errorf("the target starts at %d, the source at %d", b.Start, start)
	}
	// It is on record some seconds later.
	eventually(t, patience, "the range lost to retention to be in the ledger", func() bool {
		return slices.Contains(ledgerReasons(t, file, "padded"), "retention")
	})
}

// testStaleKeys: the target holds keys that the source has deleted, and says so.
func testStaleKeys(t *testing.T, p pair, k *klink, file string) {
	k.awaitReport(t, "keyed to be POSSIBLY_STALE_KEYS", func(r state.Report) bool {
		x := topicOf(linkOf(r, "halts"), "keyed")
		return x.State == state.Active && len(x.Partitions) == 1 && slices.Contains(x.Partitions[0].Flags, state.PossiblyStaleKeys)
	})
	if err := lab.AwaitMirrored(within(t, patience), p.src, p.dst, lab.CompareOptions{Topics: []string{"keyed"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the stale keys to be described", func() bool {
		o := command(t, "describe", "-c", file, "keyed", "--ledger")
		return o.code == 0 && strings.Contains(o.out, state.PossiblyStaleKeys)
	})
}

// ledgerReasons are the reasons that klink describe --ledger gives of a topic.
func ledgerReasons(t testing.TB, file, topic string) (all []string) {
	t.Helper()
	o := command(t, "describe", "-c", file, topic, "--ledger", "-o", "json")
	var r any
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v: %s", err, o.errOut)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if s, ok := v["reason"].(string); ok {
				all = append(all, s)
			}
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(r)
	return all
}

// TestThrottledIsNoHole: a source that throttles klink answers with nothing for a
// while. That is not the end of the log, nor a hole in it (C064).
func TestThrottledIsNoHole(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Props: shapes.BrokerProps()}
	// What may be read without a wait is what one window allows, not ten.
	src := lab.KafkaOptions{Props: maps.Clone(o.Props)}
	src.Props["quota.window.num"] = "2"
	p := startPair(t, src, o)
	place := shapes.Place{Topic: "cleaned", Partitions: 1, Seed: 8}
	if err := shapes.Compacted(within(t, 2*patience), p.src, place); err != nil {
		t.Fatal(err)
	}
	create(t, p.src, lab.TopicSpec{Name: "wide", Partitions: 2, Configs: lab.KeepEverything()})
	load := lab.LoadOptions{Topics: []string{"wide"}, Seed: 9, Total: 6_000, MaxBatch: 100}
	total := produce(t, p.src, load)
	throttle(t, p.src, 100_000, "default-fetch", "default-fetch-short")
	k := startKlink(t, p.plain("cleaned", "wide")...)
	requireMirrored(t, p, total.Acked, "wide")
	k.requireVisible(t, p, lab.VisibleOptions{Topics: []string{"cleaned"}})
	if n := throttled(t, k); n == 0 {
		t.Error("nothing was throttled")
	} else {
		t.Logf("throttled for %.1f s", n)
	}
	k.stop(t)
}

// throttle lets each of these clients read so much a second (KIP-546).
func throttle(t testing.TB, c lab.Cluster, bytesPerSecond float64, clientIDs ...string) {
	t.Helper()
	var all []kadm.AlterClientQuotaEntry
	for _, id := range clientIDs {
		all = append(all, kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}},
			Ops: []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: bytesPerSecond}}})
	}
	got, err := admin(t, c).AlterClientQuotas(within(t, patience), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// TestOffsetsForTimes: where the source has no gaps, a look-up by time gives the
// same offset on both sides. Markers carry the time at which they were written: a
// look-up for the records behind them may give one of them, so an earlier offset
// than on the source and never a later one.
func TestOffsetsForTimes(t *testing.T) {
	t.Parallel()
	o := lab.KafkaOptions{Props: shapes.BrokerProps()}
	p := startPair(t, o, o)
	from := time.UnixMilli(1_600_000_000_000)
	create(t, p.src, lab.TopicSpec{Name: "plain", Configs: lab.KeepEverything()})
	produce(t, p.src, lab.LoadOptions{Topics: []string{"plain"}, Seed: 4, Total: 1_000, MaxBatch: 20, From: from, To: from.Add(time.Hour)})
	if err := shapes.Transactions(within(t, 2*patience), p.src, shapes.Place{Topic: "marked", Partitions: 1, Seed: 4}, 40); err != nil {
		t.Fatal(err)
	}
	k := startKlink(t, p.plain("plain", "marked")...)
	requireMirrored(t, p, 1_000, "plain")
	k.requireVisible(t, p, lab.VisibleOptions{Topics: []string{"marked"}})

	first, last := timesOf(t, p.src, "marked")
	for step := range 11 {
		at := from.Add(time.Duration(step) * 6 * time.Minute)
		if src, dst := offsetAt(t, p.src, "plain", at), offsetAt(t, p.dst, "plain", at); src != dst {
			t.Errorf("plain at %s: offset %d on the source, %d on the target", at, src, dst)
		}
		at = first.Add(last.Sub(first) * time.Duration(step) / 10)
		if src, dst := offsetAt(t, p.src, "marked", at), offsetAt(t, p.dst, "marked", at); dst > src {
			t.Errorf("marked at %s: offset %d on the source, %d on the target", at, src, dst)
		}
	}
	k.stop(t)
}

// offsetAt is the first offset of partition 0 at or after a time, as an ordinary
// client is told.
func offsetAt(t testing.TB, c lab.Cluster, topic string, at time.Time) int64 {
	t.Helper()
	all, err := admin(t, c).ListOffsetsAfterMilli(within(t, patience), at.UnixMilli(), topic)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := all.Lookup(topic, 0)
	if !ok || o.Err != nil {
		t.Fatalf("no offset of %s at %s: %v", topic, at, o.Err)
	}
	return o.Offset
}

// timesOf are the times of the first and the last record of partition 0.
func timesOf(t testing.TB, c lab.Cluster, topic string) (first, last time.Time) {
	t.Helper()
	end := boundsOf(t, c, topic)[0].End
	cl, err := kgo.NewClient(append(slices.Clone(c.AdminOpts()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().AtStart()}}), kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	for next := int64(0); next < end; {
		fetches := cl.PollFetches(ctx)
		if err := context.Cause(ctx); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				return
			}
			if first.IsZero() {
				first = r.Timestamp
			}
			last = r.Timestamp
		})
	}
	return first, last
}

// throttled is for how many seconds the source has told klink to wait.
func throttled(t testing.TB, k *klink) (seconds float64) {
	t.Helper()
	_, b, err := k.get(within(t, patience), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(line, "klink_fetch_throttle") {
			n, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			seconds += n
		}
	}
	return seconds
}
