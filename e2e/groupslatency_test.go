package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
)

// commitsOf reads a cluster's __consumer_offsets to where each key has come to its
// last offset, and gives per key which offsets were there from when on.
func commitsOf(t testing.TB, c lab.Cluster, last map[commitKey]int64) map[commitKey][]timedOffset {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.ConsumeTopics("__consumer_offsets"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	out := make(map[commitKey][]timedOffset)
	for missing, ctx := len(last), within(t, patience); missing > 0; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d keys never came to their last offset", missing, len(last))
		}
		fs.EachRecord(func(rec *kgo.Record) {
			k, o, ok := readCommit(rec)
			if want, wanted := last[k]; ok && wanted {
				out[k] = append(out[k], o)
				if o.offset == want {
					missing--
				}
			}
		})
	}
	return out
}

// commitKey is what a commit is about.
type commitKey struct {
	group     string
	partition int32
}

type timedOffset struct {
	offset int64
	at     time.Time
}

func readCommit(rec *kgo.Record) (commitKey, timedOffset, bool) {
	var k kmsg.OffsetCommitKey
	var v kmsg.OffsetCommitValue
	if len(rec.Key) < 2 || rec.Key[1] > 1 || k.ReadFrom(rec.Key) != nil || rec.Value == nil || v.ReadFrom(rec.Value) != nil {
		return commitKey{}, timedOffset{}, false
	}
	return commitKey{k.Group, k.Partition}, timedOffset{v.Offset, rec.Timestamp}, true
}

// groupPartitions is how many partitions each group of the load commits at once.
const groupPartitions = 10

// groupWarmUp is left out of the measure: brokers compile, and groups are listed.
const groupWarmUp = 2

// testGroupLatency commits with many groups, each once a second for all
// partitions, and takes the time between the source's coordinator having a commit
// and the target's, by the times of their records; both have one clock. The bound
// is one that a machine keeps on which much else runs; what is shown is that
// nothing waits for a poll, of which a half would take longer than half its
// interval.
func testGroupLatency(t *testing.T, r *groupRig) {
	const bound = 10 * time.Second
	n, seconds := SyncedGroups.N(), SyncedSeconds.N()
	before := r.pair.dst.Broker(1).Proxy().Count(int16(kmsg.OffsetCommit))
	last := commitSteadily(t, r, n, seconds)
	sent, came := commitsOf(t, r.pair.src, last), commitsOf(t, r.pair.dst, last)
	requests := r.pair.dst.Broker(1).Proxy().Count(int16(kmsg.OffsetCommit)) - before
	var all []time.Duration
	for k, commits := range sent {
		for _, c := range commits {
			// The mirror may have left out one that another followed at once.
			i := slices.IndexFunc(came[k], func(o timedOffset) bool { return o.offset >= c.offset })
			if c.offset > groupWarmUp {
				all = append(all, max(0, came[k][i].at.Sub(c.at)))
			}
		}
	}
	slices.Sort(all)
	quantile := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))] }
	t.Logf("%d groups, %d partition commits/s for %d s: p50 %v, p99 %v, longest %v, with %d requests to the target for %d to the source",
		n, n*groupPartitions, seconds, quantile(0.5), quantile(0.99), quantile(1), requests, n*seconds)
	if p99 := quantile(0.99); p99 > bound {
		t.Errorf("p99 is %v, want less than %v", p99, bound)
	}
	if quantile(1) > groupInterval/2 {
		t.Errorf("one took %v, as if it had waited for a poll", quantile(1))
	}
	// Gathered per group: a request of a group at the source is one at the target.
	if requests > n*seconds*11/10 {
		t.Errorf("%d requests to the target for %d to the source", requests, n*seconds)
	}
}

// commitSteadily lets n groups commit all partitions once a second, the groups
// spread over each second, and gives the last offset of each. The offsets count
// the seconds from 1 on.
func commitSteadily(t testing.TB, r *groupRig, n, seconds int) map[commitKey]int64 {
	t.Helper()
	begin := time.Now()
	last := make(map[commitKey]int64)
	var wg sync.WaitGroup
	for i := range n {
		group := fmt.Sprintf("steady-%03d", i)
		for p := range int32(groupPartitions) {
			last[commitKey{group, p}] = int64(seconds)
		}
		wg.Go(func() {
			for s := range seconds {
				<-time.After(time.Until(begin.Add(time.Duration(s)*time.Second + time.Duration(i)*time.Second/time.Duration(n))))
				offsets := make(kadm.Offsets)
				for p := range int32(groupPartitions) {
					offsets.Add(kadm.Offset{Topic: "many", Partition: p, At: int64(s + 1), LeaderEpoch: -1})
				}
				if err := r.src.CommitAllOffsets(within(t, patience), group, offsets); err != nil {
					t.Errorf("commit of %s: %v", group, err)
				}
			}
		})
	}
	wg.Wait()
	return last
}
