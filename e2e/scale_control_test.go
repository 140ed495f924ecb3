package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/linker/state"
)

// TestScaleOfTheControlPlane: one klink mirrors many partitions and carries many
// groups from its start on, answers for all of them, and all are failed over in
// one command with nobody there but the target.
func TestScaleOfTheControlPlane(t *testing.T) {
	const topics, perGroup = 10, 10
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	partitions := ScalePartitions.N() / topics
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("scale-%d", i))
		create(t, p.src, lab.TopicSpec{Name: names[i], Partitions: int32(partitions), Configs: lab.KeepEverything()})
	}
	// Records of today: years between neighbours would have the broker roll a segment
	// for each batch, and that is what would be measured.
	now := time.Now()
	total := produce(t, p.src, lab.LoadOptions{Topics: names, Seed: 1, Codecs: []string{"lz4"}, MinBatch: 10, MaxBatch: 30,
		From: now.Add(-time.Hour), To: now, Total: int64(40 * ScalePartitions.N())}).Acked
	want := commitGroups(t, p.src, names, partitions, perGroup)

	l := openLink("scale", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], names...)
	l["groups"] = object{"include": []string{"*"}}
	file := configFile(t, l)
	began := time.Now()
	k := startKlink(t, "-c", file)
	if err := lab.AwaitMirrored(within(t, 4*patience), p.src, p.dst, lab.CompareOptions{Topics: names}); err != nil {
		t.Fatal(err)
	}
	mirrored := time.Since(began)
	adm := admin(t, p.dst)
	eventually(t, 2*patience, "all groups' offsets", func() bool { return haveCommits(t, adm, want) })
	t.Logf("%d partitions with %d records mirrored %v after the start, %d groups carried after %v",
		topics*partitions, total, mirrored.Round(time.Millisecond), len(want), time.Since(began).Round(time.Millisecond))
	if mirrored > time.Minute {
		t.Errorf("start to all mirrored took %v", mirrored)
	}
	requireQuickStatus(t, k, file, topics*partitions, len(want))

	k.kill(t)
	began = time.Now()
	r := switchover(t, 0, "failover", "-c", file, "--yes")
	t.Logf("failover of %d partitions took %v", topics*partitions, time.Since(began).Round(time.Millisecond))
	// The figure is in the log; on a busy machine it is no more than an order of
	// magnitude.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("failover took %v", took)
	}
	cuts := requireStopped(t, r, names...)
	ends, err := lab.ReadBounds(within(t, patience), p.src, lab.ReadCommitted, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range r.Topics {
		for _, s := range topic.Partitions {
			n := lab.Partition{Topic: topic.SourceTopic, Number: s.Partition}
			if !s.Fenced || s.FenceOffset == nil || cuts[n.Topic][n.Number] != ends[n].End {
				t.Fatalf("%s is not fenced behind %d: %+v", n, ends[n].End, s)
			}
		}
	}
	// Every record of one topic stands for those of all.
	requireEqualRecords(t, p, names[0])
}

// commitGroups commits an offset in so many partitions for each group, none beyond
// its log, and returns what was committed.
func commitGroups(t *testing.T, c lab.Cluster, topics []string, partitions, perGroup int) map[string]kadm.Offsets {
	t.Helper()
	adm := admin(t, c)
	// Not each partition of many has got a record.
	logs, err := lab.ReadBounds(within(t, patience), c, lab.ReadCommitted, topics...)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]kadm.Offsets{}
	var g errgroup.Group
	g.SetLimit(8)
	for i := range ScaleGroups.N() {
		name := fmt.Sprintf("group-%d", i)
		offsets := kadm.Offsets{}
		for j := range perGroup {
			p := lab.Partition{Topic: topics[j%len(topics)], Number: int32((i*perGroup + j) % partitions)}
			offsets.AddOffset(p.Topic, p.Number, min(int64(1+(i+j)%5), logs[p].End), -1)
		}
		want[name] = offsets
		g.Go(func() error {
			done, err := adm.CommitOffsets(within(t, patience), name, offsets)
			if err == nil {
				err = done.Error()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return want
}

// haveCommits tells whether a cluster has all those offsets.
func haveCommits(t *testing.T, adm *kadm.Client, want map[string]kadm.Offsets) bool {
	t.Helper()
	var names []string
	for name := range want {
		names = append(names, name)
	}
	all := adm.FetchManyOffsets(within(t, patience), names...)
	for name, offsets := range want {
		have := all[name]
		if have.Err != nil {
			return false
		}
		missing := false
		offsets.Each(func(o kadm.Offset) {
			got, ok := have.Fetched.Lookup(o.Topic, o.Partition)
			missing = missing || !ok || got.At != o.At
		})
		if missing {
			return false
		}
	}
	return true
}

// requireQuickStatus holds that the command answers within a second, with
// everything in it. The best of some tries counts: the rest is the machine's.
func requireQuickStatus(t *testing.T, k *klink, file string, partitions, groups int) {
	t.Helper()
	best := time.Hour
	for range 5 {
		began := time.Now()
		r, o := statusOf(t, "-c", file, "--http", k.addr)
		best = min(best, time.Since(began))
		l := linkOf(r, "scale")
		shown := 0
		for _, topic := range l.Topics {
			for _, s := range topic.Partitions {
				if s.State == state.Active {
					shown++
				}
			}
		}
		if shown != partitions || len(l.Groups) != groups || !json.Valid([]byte(o.out)) {
			t.Errorf("shown are %d partitions as ACTIVE and %d groups", shown, len(l.Groups))
		}
	}
	t.Logf("status of %d partitions and %d groups took %v", partitions, groups, best.Round(time.Millisecond))
	if best > time.Second {
		t.Errorf("status took %v", best)
	}
}
