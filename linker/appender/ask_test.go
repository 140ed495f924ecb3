package appender

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"klink/fetcher/leaders"
)

// TestTargetsAreGroupedAndFound: each target is in the run of its topic, and found by
// what an answer names; nothing else is.
func TestTargetsAreGroupedAndFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var about []routed
		want := map[string]map[int32]routed{}
		for n := range rng.IntN(40) {
			topic, partition := fmt.Sprint("t", rng.IntN(4)), int32(rng.IntN(30))
			if want[topic] == nil {
				want[topic] = map[int32]routed{}
			}
			if _, twice := want[topic][partition]; twice {
				continue
			}
			r := routed{Target{Topic: topic, Partition: partition}, leaders.Leader{Broker: int32(n), Epoch: int32(n)}}
			about = append(about, r)
			want[topic][partition] = r
		}
		before := fmt.Sprint(about)
		got := byTopic(about)
		if fmt.Sprint(about) != before || len(got) != len(want) {
			t.Fatalf("%d topics of %d, or the list changed", len(got), len(want))
		}
		for topic, ps := range want {
			if len(got[topic]) != len(ps) {
				t.Errorf("%s has %d of %d", topic, len(got[topic]), len(ps))
			}
			for p := range int32(31) {
				r, ok := got.find(topic, p)
				if w, there := ps[p]; ok != there || r != w {
					t.Errorf("%s/%d: %+v, %v", topic, p, r, ok)
				}
			}
		}
		if _, ok := got.find("none", 0); ok {
			t.Error("found what is not there")
		}
	}
}
