package e2e

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/readers"
	"klink/cmd/lab/shapes"
	"klink/linker/state"
	"klink/translate/mm2"
)

// TestMM2_JavaReadsKlinksTopics: MirrorMaker 2's own client, old and new, takes what
// klink writes in checkpoint mode for MirrorMaker 2's: it finds the clusters and how
// far away they are, and leads each group to exactly the next record that it has not
// read, also over what was not copied and beside what others wrote.
func TestMM2_JavaReadsKlinksTopics(t *testing.T) {
	t.Parallel()
	p := startPair(t, lab.KafkaOptions{}, lab.KafkaOptions{})
	create(t, p.src, lab.TopicSpec{Name: "orders", Partitions: 1, Configs: lab.KeepEverything()},
		lab.TopicSpec{Name: "heartbeats"}, lab.TopicSpec{Name: "west.heartbeats"})
	produce(t, p.src, fixed(1, 300, "orders"))
	if err := shapes.Transactions(within(t, 2*patience), p.src, shapes.Place{Topic: "txns", Partitions: 2, Seed: 5}, 60); err != nil {
		t.Fatal(err)
	}
	partitions := map[string]int32{"orders": 1, "txns": 2}
	for topic, n := range partitions {
		create(t, p.dst, lab.TopicSpec{Name: "east." + topic, Partitions: n, Configs: lab.KeepEverything()})
		produceForeign(t, p.dst, "east."+topic, n)
	}
	committed := commitAlong(t, p.src, partitions)

	l := openLink("ferry", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "orders", "txns")
	l["mode"], l["groups"] = "checkpoint", object{"include": []string{"*"}}
	l["checkpoint"] = object{"source_alias": "east", "target_alias": "home", "interval": "200ms", "heartbeat_interval": "100ms"}
	file := configFile(t, l)
	k := startKlink(t, "-c", file)
	k.await(t, "all copied", func(l state.Link) bool {
		return slices.IndexFunc(l.Topics, func(t state.Topic) bool {
			return slices.ContainsFunc(t.Partitions, func(p state.Partition) bool { return p.LagRecords == nil || *p.LagRecords > 0 })
		}) < 0 && len(l.Topics) == len(partitions)
	})
	copied := time.Now()
	k.await(t, "all groups looked at since then", func(l state.Link) bool {
		c := l.Checkpoints
		return c != nil && c.LookedAt.After(copied) && c.Checkpoints != nil && *c.Checkpoints == 3*int64(len(committed)) &&
			len(c.Waiting)+len(c.Troubles) == 0 && !c.BeatAt.IsZero()
	})
	want := readers.RemoteAnswers{
		Upstream:         []string{"east", "west"},
		CheckpointTopics: []string{"east.checkpoints.internal"},
		HeartbeatTopics:  []string{"east.heartbeats", "east.west.heartbeats", "heartbeats"},
		Hops:             map[string]int{"east": 1, "west": 2, "z": -1},
		Topics:           map[string][]string{"east": {"east.heartbeats", "east.orders", "east.txns", "east.west.heartbeats"}},
		Offsets:          map[string]map[string][]readers.Translated{"east": nextRecords(t, p, partitions, committed)},
	}
	var groups []string
	for group := range committed {
		groups = append(groups, group)
	}
	for _, version := range []string{install.Newest, install.Oldest} {
		got, err := readers.Remote(within(t, 4*patience), readers.RemoteJob{Version: version, Bootstrap: p.dst.Bootstrap(),
			Sources: []string{"east", "west", "z"}, Groups: map[string][]string{"east": groups}})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Kafka %s\ngot  %+v\nwant %+v", version, got, want)
		}
	}
	requireSyncs(t, p, partitions)
	requireTranslated(t, want.Offsets["east"], "-c", file)
	k.stop(t)
	requireTranslated(t, want.Offsets["east"], "--target", p.dst.Bootstrap()[0], "--link", "ferry")
	requireTranslatedBack(t, p, "-c", file)
}

// commitAlong has groups commit at several places of all partitions: at the start, at
// the end, and at each of some offsets, which may hold markers or aborted records.
func commitAlong(t testing.TB, c lab.Cluster, partitions map[string]int32) map[string]kadm.Offsets {
	t.Helper()
	all := make(map[string]kadm.Offsets)
	for topic := range partitions {
		for n, b := range boundsOf(t, c, topic) {
			at := map[string]int64{"start": b.Start, "end": b.End}
			for i := range int64(12) {
				at[fmt.Sprintf("along-%d", i)] = b.Start + (b.End-b.Start)/3 + i
			}
			for group, offset := range at {
				if all[group] == nil {
					all[group] = make(kadm.Offsets)
				}
				offsets := all[group]
				offsets.Add(kadm.Offset{Topic: topic, Partition: n, At: offset, LeaderEpoch: -1, Metadata: "by " + group})
			}
		}
	}
	adm := admin(t, c)
	for group, offsets := range all {
		if err := adm.CommitAllOffsets(within(t, patience), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// nextRecords are where each group goes on: at the copy of the first record that a
// consumer of the source would see next.
func nextRecords(t testing.TB, p pair, partitions map[string]int32, committed map[string]kadm.Offsets) map[string][]readers.Translated {
	t.Helper()
	out := make(map[string][]readers.Translated)
	for topic, count := range partitions {
		for n := range count {
			src, dst := visible(t, p.src, topic, n), visible(t, p.dst, "east."+topic, n)[foreignRecords:]
			if len(src) != len(dst) || len(src) == 0 {
				t.Fatalf("%s[%d]: %d records, %d copies", topic, n, len(src), len(dst))
			}
			for group, offsets := range committed {
				o, _ := offsets.Lookup(topic, n)
				want := readers.Translated{Topic: "east." + topic, Partition: n, Offset: dst[len(dst)-1].Offset + 1, Metadata: o.Metadata}
				if i := slices.IndexFunc(src, func(r *kgo.Record) bool { return r.Offset >= o.At }); i >= 0 {
					want.Offset = dst[i].Offset
				}
				out[group] = append(out[group], want)
			}
		}
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b readers.Translated) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return out
}

// requireSyncs: each offset sync is of a record and its copy.
func requireSyncs(t testing.TB, p pair, partitions map[string]int32) {
	t.Helper()
	seen := make(map[lab.Partition]bool)
	for _, r := range visible(t, p.dst, "mm2-offset-syncs.east.internal", 0) {
		y, err := mm2.DecodeSync(r.Key, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		seen[lab.Partition{Topic: y.Topic, Number: y.Partition}] = true
		src, dst := visible(t, p.src, y.Topic, y.Partition), visible(t, p.dst, "east."+y.Topic, y.Partition)[foreignRecords:]
		i := slices.IndexFunc(src, func(r *kgo.Record) bool { return r.Offset == y.Up })
		if i < 0 || dst[i].Offset != y.Down {
			t.Errorf("%+v is no record and its copy", y)
		}
	}
	if len(seen) != 3 {
		t.Errorf("syncs of %v, want all partitions of %v", seen, partitions)
	}
}
