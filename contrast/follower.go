package contrast

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// follower is a consumer group at the source, of one member that takes the
// partitions by itself and commits for the group: it comes exactly as far as it is
// to, whatever the machine does.
type follower struct {
	client *kgo.Client
	group  string
	// at is the offset up to which it has taken records, waiting what it was given
	// beyond.
	at      map[lab.Partition]int64
	waiting map[lab.Partition][]*kgo.Record
}

// follow starts a group at the beginning of partitions.
func follow(c Cluster, group string, partitions []lab.Partition) (*follower, error) {
	f := &follower{group: group, at: map[lab.Partition]int64{}, waiting: map[lab.Partition][]*kgo.Record{}}
	starts := map[string]map[int32]kgo.Offset{}
	for _, p := range partitions {
		f.at[p] = 0
		if starts[p.Topic] == nil {
			starts[p.Topic] = map[int32]kgo.Offset{}
		}
		starts[p.Topic][p.Number] = kgo.NewOffset().At(0)
	}
	var err error
	f.client, err = kgo.NewClient(append(slices.Clone(c.AdminOpts()), kgo.ConsumePartitions(starts),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(clientAge), kgo.DisableClientMetrics())...)
	if err != nil {
		return nil, fmt.Errorf("start group %s: %w", group, err)
	}
	return f, nil
}

func (f *follower) close() { f.client.Close() }

// moveTo reads every partition up to an offset, or goes back to it, and commits.
func (f *follower) moveTo(ctx context.Context, places map[lab.Partition]int64) error {
	for p, to := range places {
		if to < f.at[p] {
			f.goBack(p, to)
		}
	}
	for !f.taken(places) {
		fetches := f.client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("group %s: read: %w", f.group, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := lab.Partition{Topic: r.Topic, Number: r.Partition}
			f.waiting[p] = append(f.waiting[p], r)
		})
	}
	return f.commit(ctx, places)
}

func (f *follower) goBack(p lab.Partition, to int64) {
	f.at[p], f.waiting[p] = to, nil
	f.client.RemoveConsumePartitions(map[string][]int32{p.Topic: {p.Number}})
	f.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Number: kgo.NewOffset().At(to)}})
}

// taken takes what waits, and tells whether all places are reached. A record beyond
// one shows that nothing is left before it.
func (f *follower) taken(places map[lab.Partition]int64) bool {
	reached := true
	for p, to := range places {
		for len(f.waiting[p]) > 0 && f.waiting[p][0].Offset < to {
			f.at[p] = f.waiting[p][0].Offset + 1
			f.waiting[p] = f.waiting[p][1:]
		}
		if len(f.waiting[p]) > 0 {
			f.at[p] = max(f.at[p], to)
		}
		reached = reached && f.at[p] >= to
	}
	return reached
}

func (f *follower) commit(ctx context.Context, places map[lab.Partition]int64) error {
	var all kadm.Offsets
	for p, to := range places {
		all.Add(kadm.Offset{Topic: p.Topic, Partition: p.Number, At: to, LeaderEpoch: -1})
	}
	if err := kadm.NewClient(f.client).CommitAllOffsets(ctx, f.group, all); err != nil {
		return fmt.Errorf("group %s: commit: %w", f.group, err)
	}
	return nil
}
