package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
	"klink/linker/topics"
)

// ring is clusters of which each is mirrored to the next, and the last to the
// first, in checkpoint mode with the default policy.
type ring struct {
	clusters []*lab.Embedded
	names    []string
	files    []string // of the klink from each cluster to the next
}

// TestCheckpointMode_NothingGoesRound lets several klinks mirror everything around
// a ring, of topics that are called the same on all clusters: each topic comes to
// every other cluster once, and ends there.
func TestCheckpointMode_NothingGoesRound(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprintf("%d clusters", len(names)), func(t *testing.T) {
			t.Parallel()
			r := startRing(t, names)
			r.write(t, "orders")
			r.awaitCopies(t, "orders")
			// What is new comes round after klink has met the copies of what was there.
			r.write(t, "later")
			r.awaitCopies(t, "later")
			r.requireNothingElse(t, "orders", "later")
			for i := range names {
				r.requireTold(t, i, "orders", "later")
			}
		})
	}
}

func startRing(t *testing.T, names []string) *ring {
	t.Helper()
	r := &ring{names: names}
	for _, name := range names {
		r.clusters = append(r.clusters, labtest.StartEmbedded(t, lab.EmbeddedOptions{Opts: []kfake.Opt{kfake.ClusterID("ring-" + name)}}))
	}
	for i := range names {
		next := (i + 1) % len(names)
		l := openLink(names[i]+"-"+names[next], r.clusters[i].Bootstrap()[0], r.clusters[next].Bootstrap()[0], "*")
		l["mode"], l["checkpoint"] = "checkpoint", object{"source_alias": names[i], "target_alias": names[next]}
		r.files = append(r.files, configFile(t, l))
		k := startKlink(t, "-c", r.files[i])
		t.Cleanup(func() { k.stop(t) })
	}
	return r
}

// ringRecords are in each partition of a topic, on the cluster where it is made.
const ringRecords, ringPartitions = 40, 2

// write makes a topic on every cluster.
func (r *ring) write(t *testing.T, topic string) {
	t.Helper()
	for i, c := range r.clusters {
		create(t, c, lab.TopicSpec{Name: topic, Partitions: ringPartitions})
		writeRing(t, c, topic, uint64(i))
	}
}

func writeRing(t *testing.T, c lab.Cluster, topic string, seed uint64) {
	t.Helper()
	produce(t, c, lab.LoadOptions{Topics: []string{topic}, Seed: seed, MinBatch: ringRecords, MaxBatch: ringRecords, Total: ringRecords * ringPartitions})
}

// copied is what a cluster's topic is called on the cluster that many steps on.
func (r *ring) copied(cluster, steps int, topic string) string {
	for s := range steps {
		topic = r.names[(cluster+s)%len(r.names)] + "." + topic
	}
	return topic
}

// awaitCopies waits until every other cluster has what each cluster wrote to a
// topic.
func (r *ring) awaitCopies(t *testing.T, topic string) {
	t.Helper()
	n := len(r.clusters)
	for i, origin := range r.clusters {
		for steps := 1; steps < n; steps++ {
			at := r.clusters[(i+steps)%n]
			awaitSame(t, origin, topic, at, r.copied(i, steps, topic))
		}
	}
}

// awaitSame waits until a copy, whose topic may not be there yet, has as much as its
// origin, and compares.
func awaitSame(t *testing.T, origin lab.Cluster, topic string, at lab.Cluster, copied string) {
	t.Helper()
	eventually(t, patience, copied+" to be copied", func() bool {
		known, err := admin(t, at).ListTopics(within(t, patience), copied)
		return err == nil && known[copied].Err == nil && ringEnds(t, at, copied) >= ringEnds(t, origin, topic)
	})
	c, err := lab.CompareClusters(within(t, patience), origin, at, lab.CompareOptions{Topics: []string{topic}, Rename: map[string]string{topic: copied}})
	if err != nil || !c.Equal() || !c.SameEnds() || c.Records() < ringRecords {
		t.Fatalf("%s: %v, %s", copied, err, c)
	}
}

func ringEnds(t *testing.T, c lab.Cluster, topic string) (sum int64) {
	t.Helper()
	for _, b := range boundsOf(t, c, topic) {
		sum += b.End
	}
	return sum
}

// requireNothingElse: no cluster has a topic but these, their copies, and klink's
// and MirrorMaker 2's own.
func (r *ring) requireNothingElse(t *testing.T, written ...string) {
	t.Helper()
	n := len(r.clusters)
	for i, c := range r.clusters {
		want := map[string]bool{}
		for _, topic := range written {
			for steps := range n {
				want[r.copied((i-steps+n)%n, steps, topic)] = true
			}
		}
		known, err := admin(t, c).ListTopics(within(t, patience))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(known.Names(), func(name string) bool {
			return strings.HasPrefix(name, "__") || strings.HasSuffix(name, ".internal") || strings.HasSuffix(name, "heartbeats")
		})
		if names := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
			t.Errorf("cluster %s has the topics %v, want %v", r.names[i], got, names)
		}
	}
}

// requireTold: klink names each copy that it leaves out, and says why.
func (r *ring) requireTold(t *testing.T, i int, written ...string) {
	t.Helper()
	o := command(t, "plan", "-c", r.files[i], "-o", "json")
	for _, topic := range written {
		back := r.copied((i+1)%len(r.names), len(r.names)-1, topic)
		if note := fmt.Sprintf("%s is not mirrored: %s", back, topics.Cycle); o.code != 0 || !strings.Contains(o.out, note) {
			t.Errorf("plan from cluster %s exits with %d and does not say %q:\n%s%s", r.names[i], o.code, note, o.out, o.errOut)
		}
	}
}
