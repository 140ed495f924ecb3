package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"klink/cmd/lab"
	"klink/cmd/lab/labtest"
	"klink/linker/state"
)

// TestNothingGoesBackUnderItsName closes a ring of links whose topics are called the same
// everywhere, so that no name tells where records came from: the last link is refused
// the topic by the ids of the clusters, and nothing comes back.
func TestNothingGoesBackUnderItsName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  string
		names []string
	}{
		{"mirror", []string{"a", "b"}},
		{"checkpoint", []string{"a", "b"}},
		{"checkpoint", []string{"a", "b", "c"}},
	} {
		t.Run(fmt.Sprintf("%s, %d clusters", c.mode, len(c.names)), func(t *testing.T) {
			t.Parallel()
			closeRing(t, c.mode, c.names)
		})
	}
}

func closeRing(t *testing.T, mode string, names []string) {
	t.Helper()
	var all []*lab.Embedded
	for _, name := range names {
		all = append(all, labtest.StartEmbedded(t, lab.EmbeddedOptions{Opts: []kfake.Opt{kfake.ClusterID("loop-" + name)}}))
	}
	create(t, all[0], lab.TopicSpec{Name: "orders", Partitions: 1})
	write := func(seed uint64) {
		t.Helper()
		produce(t, all[0], lab.LoadOptions{Topics: []string{"orders"}, Seed: seed, MinBatch: ringRecords, MaxBatch: ringRecords, Total: ringRecords})
	}
	write(1)
	last := len(names) - 1
	links := make([]*klink, len(names))
	for i := range names {
		next := (i + 1) % len(names)
		l := openLink(names[i]+"-"+names[next], all[i].Bootstrap()[0], all[next].Bootstrap()[0], "*")
		if l["mode"] = mode; mode == "checkpoint" {
			l["checkpoint"] = object{"replication_policy": "identity", "source_alias": names[i], "target_alias": names[next]}
		}
		links[i] = startKlink(t, "-c", configFile(t, l))
		if i != last {
			awaitSame(t, all[0], "orders", all[next], "orders")
		}
	}
	links[last].await(t, "the topic to be refused", func(l state.Link) bool {
		o := topicOf(l, "orders")
		return o.Reason == string(state.TopicRefused) && strings.Contains(o.Detail, "is a mirror of the target's")
	})
	write(2)
	for i := range last {
		awaitSame(t, all[0], "orders", all[i+1], "orders")
	}
	if end := boundsOf(t, all[0], "orders")[0].End; end != 2*ringRecords {
		t.Errorf("the first cluster's topic ends at %d, %d records were written", end, 2*ringRecords)
	}
	if o := topicOf(links[0].await(t, "the first link to be well", func(l state.Link) bool { return topicOf(l, "orders").State == state.Active }), "orders"); o.Reason != "" {
		t.Errorf("%+v", o)
	}
	for _, k := range links {
		k.stop(t)
	}
}
