package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// leaderPoll is how often an election is asked for again.
const leaderPoll = 50 * time.Millisecond

// Leader is the partition's leader and replicas; the leader is -1 while there
// is none.
func Leader(ctx context.Context, c Cluster, p Partition) (leader int32, replicas []int32, err error) {
	client, err := adminClient(c)
	if err != nil {
		return -1, nil, err
	}
	defer client.Close()
	return leaderOf(ctx, kadm.NewClient(client), p)
}

func leaderOf(ctx context.Context, admin *kadm.Client, p Partition) (int32, []int32, error) {
	metadata, err := admin.Metadata(ctx, p.Topic)
	if err != nil {
		return -1, nil, fmt.Errorf("leader of %s: %w", p, err)
	}
	d, ok := metadata.Topics[p.Topic].Partitions[p.Number]
	if err := metadata.Topics[p.Topic].Err; err != nil {
		return -1, nil, fmt.Errorf("leader of %s: %w", p, err)
	}
	if !ok {
		return -1, nil, fmt.Errorf("leader of %s: %w", p, kerr.UnknownTopicOrPartition)
	}
	return d.Leader, d.Replicas, nil
}

// MoveLeader makes one of a partition's replicas its leader in order, as an
// operator does: first among the replicas, then elected as the preferred one. It
// returns when the metadata say so.
func MoveLeader(ctx context.Context, c Cluster, p Partition, to int32) error {
	client, err := adminClient(c)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	_, replicas, err := leaderOf(ctx, admin, p)
	if err != nil {
		return err
	}
	if !slices.Contains(replicas, to) {
		return fmt.Errorf("move the leader of %s: broker %d is none of its replicas %v", p, to, replicas)
	}
	order := append([]int32{to}, slices.DeleteFunc(slices.Clone(replicas), func(r int32) bool { return r == to })...)
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign(p.Topic, p.Number, order)
	altered, err := admin.AlterPartitionAssignments(ctx, req)
	if err == nil {
		err = altered.Error()
	}
	if err != nil {
		return fmt.Errorf("move the leader of %s: %w", p, err)
	}
	return elect(ctx, admin, p, kadm.ElectPreferredReplica, func(leader int32) bool { return leader == to })
}

// ElectUnclean gives a partition that has no leader, because nobody in sync is
// alive, any replica that is: with data lost, where that one is behind.
func ElectUnclean(ctx context.Context, c Cluster, p Partition) error {
	client, err := adminClient(c)
	if err != nil {
		return err
	}
	defer client.Close()
	return elect(ctx, kadm.NewClient(client), p, kadm.ElectLiveReplica, func(leader int32) bool { return leader >= 0 })
}

// elect asks for an election until the leader is as wanted. Answers that the
// candidate is not ready yet are part of that.
func elect(ctx context.Context, admin *kadm.Client, p Partition, how kadm.ElectLeadersHow, wanted func(leader int32) bool) error {
	tick := time.NewTicker(leaderPoll)
	defer tick.Stop()
	var set kadm.TopicsSet
	set.Add(p.Topic, p.Number)
	for {
		results, err := admin.ElectLeaders(ctx, how, set)
		if err == nil {
			err = results[p.Topic][p.Number].Err
		}
		leader, _, lerr := leaderOf(ctx, admin, p)
		if lerr == nil && wanted(leader) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("elect a leader of %s: %w", p, errors.Join(ctx.Err(), err, lerr))
		}
	}
}
