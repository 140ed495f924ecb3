package e2e

import (
	"testing"
	"time"

	"klink/cmd/lab"
	"klink/linker/state"
)

// TestG4_Failover: the daemon died by kill -9 under load and the source is gone.
// What the target has up to the cut is what the source had, the fence is visible
// to nobody, the topics can be used as those of the source could, and a klink that
// comes back leaves them alone.
func TestG4_Failover(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	own := lab.KeepEverything()
	own["retention.ms"] = "86400000" // a day, and all records are of today
	topics := []string{"owned", "plain"}
	create(t, p.src, lab.TopicSpec{Name: "owned", Partitions: 3, Configs: own}, lab.TopicSpec{Name: "plain", Partitions: 2, Configs: lab.KeepEverything()})
	total := produce(t, p.src, today(topics, lab.LoadOptions{Seed: 1, MaxBatch: 50, Total: int64(MovedRecords.N())})).Acked
	file := configFile(t, openLink("forced", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topics...))
	k := startKlink(t, "-c", file)
	requireMirrored(t, p, total, topics...)
	eventually(t, patience, "the source's ends to be on record", func() bool {
		r := switchover(t, 0, "forecast", "-c", file)
		return r.RecordsLost != nil && r.UnseenSeconds != nil
	})
	load, err := lab.StartLoad(within(t, patience), p.src, today(topics, lab.LoadOptions{Seed: 2, MaxBatch: 20, RecordsPerSecond: 2_000}))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the load's time is the test's input
	k.kill(t)
	load.Crash()
	src := p.src.Broker(1)
	if err := src.Kill(); err != nil {
		t.Fatal(err)
	}

	forecast := switchover(t, 0, "forecast", "-c", file)
	if forecast.RecordsLost == nil || forecast.UnseenSeconds == nil || forecast.Switch != "" {
		t.Fatalf("forecast %+v", forecast)
	}
	began := time.Now()
	r := switchover(t, 0, "failover", "-c", file, "--yes")
	if r.RecordsLost == nil || r.UnseenSeconds == nil {
		t.Fatalf("failover %+v", r)
	}
	t.Logf("took %v; %d records lost, unseen for %.1f s", time.Since(began), *r.RecordsLost, *r.UnseenSeconds)
	cuts := requireStopped(t, r, topics...)
	for _, topic := range topics {
		for _, part := range r.topic(topic).Partitions {
			if !part.Fenced || part.FenceOffset == nil || *part.FenceOffset != cuts[topic][part.Partition] {
				t.Errorf("%s: cut at %d, %+v", topic, cuts[topic][part.Partition], part)
			}
		}
	}
	awaitConfigs(t, within(t, patience), admin(t, p.dst), "owned", map[string]string{"retention.ms": own["retention.ms"]})
	if err := src.Start(within(t, 2*patience)); err != nil {
		t.Fatal(err)
	}
	p.requireSameUpTo(t, cuts)

	ends := endsOf(t, p.dst, topics...)
	k = startKlink(t, "-c", file)
	for _, topic := range topics {
		k.awaitStopped(t, topic)
	}
	again := switchover(t, 0, "failover", "-c", file, "--yes")
	if again.Switch != r.Switch || *again.RecordsLost != *r.RecordsLost {
		t.Errorf("a second time: switch %q lost %d, was %q lost %d", again.Switch, *again.RecordsLost, r.Switch, *r.RecordsLost)
	}
	if now := endsOf(t, p.dst, topics...); !sameEnds(ends, now) {
		t.Errorf("after the failover the target's ends went from %v to %v", ends, now)
	}
	if got := produce(t, p.dst, today(topics, lab.LoadOptions{Seed: 3, Total: 500})).Acked; got < 500 {
		t.Errorf("%d records of 500 were taken by the target", got)
	}
	k.stop(t)
}

// today makes a load's records young enough for retention.
func today(topics []string, o lab.LoadOptions) lab.LoadOptions {
	o.Topics, o.From, o.To = topics, time.Now().Add(-time.Hour), time.Now()
	return o
}

// requireSameUpTo compares what both sides hold below a cut, and requires that
// the target shows nothing beyond it.
func (p pair) requireSameUpTo(t testing.TB, cuts map[string]map[int32]int64) {
	t.Helper()
	for topic, parts := range cuts {
		for n, end := range parts {
			at := lab.Partition{Topic: topic, Number: n}
			digest := func(c lab.Cluster, o lab.ReadOptions) lab.Digest {
				d, err := lab.DigestPartition(within(t, 2*patience), c, at, o)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			want := digest(p.src, lab.ReadOptions{Isolation: lab.ReadCommitted, To: end})
			got := digest(p.dst, lab.ReadOptions{To: end})
			if want != got || got.Records == 0 {
				t.Errorf("%s up to %d: source %+v, target %+v", at, end, want, got)
			}
			if beyond := digest(p.dst, lab.ReadOptions{From: end}); beyond.Records != 0 {
				t.Errorf("%s: %d records beyond the cut at %d", at, beyond.Records, end)
			}
		}
	}
}

// endsOf reads where the logs of topics end.
func endsOf(t testing.TB, c lab.Cluster, topics ...string) map[lab.Partition]int64 {
	t.Helper()
	out := map[lab.Partition]int64{}
	for _, topic := range topics {
		for n, b := range boundsOf(t, c, topic) {
			out[lab.Partition{Topic: topic, Number: n}] = b.End
		}
	}
	return out
}

func sameEnds(a, b map[lab.Partition]int64) bool {
	for p, end := range a {
		if b[p] != end {
			return false
		}
	}
	return len(a) == len(b)
}

// TestG4_Promote: while producers write, a promotion does not come about and
// changes nothing; once they stopped it does, with nothing lost and no fence, and
// what comes to the source later stays there.
func TestG4_Promote(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	own := lab.KeepEverything()
	own["retention.ms"] = "86400000" // a day, and all records are of today
	topics := []string{"orders", "payments"}
	create(t, p.src, lab.TopicSpec{Name: "orders", Partitions: 3, Configs: own}, lab.TopicSpec{Name: "payments", Configs: lab.KeepEverything()})
	produce(t, p.src, today(topics, lab.LoadOptions{Seed: 1, MaxBatch: 50, Total: int64(MovedRecords.N())}))
	file := configFile(t, openLink("planned", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], topics...))
	k := startKlink(t, "-c", file)
	load, err := lab.StartLoad(within(t, 2*patience), p.src, today(topics, lab.LoadOptions{Seed: 2, MaxBatch: 5, RecordsPerSecond: 5_000}))
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		k.awaitTopic(t, topic, state.Active, "")
	}
	r := switchover(t, 4, "promote", "-c", file, "--yes", "--timeout", "2s")
	if r.Failed != 2 || r.topic("orders").OK || r.topic("orders").State == string(state.Stopped) {
		t.Errorf("a promotion under load: %+v", r)
	}
	total := load.Stop().Acked
	requireMirrored(t, p, total, topics...)

	cuts := requireStopped(t, switchover(t, 0, "promote", "-c", file, "--yes"), topics...)
	for part, end := range endsOf(t, p.src, topics...) {
		if cuts[part.Topic][part.Number] != end {
			t.Errorf("%s is cut at %d and ends at %d", part, cuts[part.Topic][part.Number], end)
		}
	}
	awaitConfigs(t, within(t, patience), admin(t, p.dst), "orders", map[string]string{"retention.ms": own["retention.ms"]})
	ends := endsOf(t, p.dst, topics...)
	produce(t, p.src, today(topics, lab.LoadOptions{Seed: 3, Total: 100}))
	for _, topic := range topics {
		k.awaitStopped(t, topic)
	}
	k.stop(t)
	k = startKlink(t, "-c", file)
	for _, topic := range topics {
		k.awaitStopped(t, topic)
	}
	if now := endsOf(t, p.dst, topics...); !sameEnds(ends, now) {
		t.Errorf("after the promotion the target's ends went from %v to %v", ends, now)
	}
	again := switchover(t, 1, "promote", "-c", file, "--yes")
	if again.RecordsLost == nil || *again.RecordsLost < 100 || again.Failed == 0 {
		t.Errorf("the source took in 100 records after the cut: %+v", again)
	}
	requireStopped(t, switchover(t, 0, "failover", "-c", file, "--yes"), topics...)
	k.stop(t)
}
