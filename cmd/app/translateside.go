package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/groups"
	"klink/linker/remote"
	"klink/translate"
)

// groupOffsets are committed offsets by group.
type groupOffsets map[string]map[translate.Partition]translate.Commit

// names are the groups, sorted.
func (g groupOffsets) names() []string { return slices.Sorted(maps.Keys(g)) }

// committed is what a cluster told of groups.
type committed struct {
	offsets groupOffsets
	// failed are the groups of which it told nothing, and why.
	failed map[string]error
}

// committedAt asks a cluster for the offsets of all groups that are selected and
// have any. It needs Describe on them.
func committedAt(ctx context.Context, cl *kgo.Client, selected *groups.Filter) (committed, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	out := committed{groupOffsets{}, map[string]error{}}
	adm := kadm.NewClient(cl)
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return out, remote.Classify("list groups", remote.Right("Describe", "group", "*"), err)
	}
	names := slices.DeleteFunc(listed.Groups(), func(g string) bool { return !selected.Selects(g) })
	if len(names) == 0 {
		return out, nil
	}
	now := time.Now()
	for name, got := range adm.FetchManyOffsets(ctx, names...) {
		offsets, err := commitsOf(got, now)
		switch {
		case err != nil:
			out.failed[name] = remote.Classify("read offsets of group "+name, remote.Right("Describe", "group", name), err)
		case len(offsets) > 0:
			out.offsets[name] = offsets
		}
	}
	return out, nil
}

// commitsOf reads what was told of one group: all of it or an error.
func commitsOf(got kadm.FetchOffsetsResponse, now time.Time) (map[translate.Partition]translate.Commit, error) {
	if got.Err != nil && !errors.Is(got.Err, kerr.GroupIDNotFound) {
		return nil, got.Err
	}
	offsets := map[translate.Partition]translate.Commit{}
	var failed error
	got.Fetched.Each(func(o kadm.OffsetResponse) {
		switch {
		case o.Err != nil:
			failed = fmt.Errorf("%s/%d: %w", o.Topic, o.Partition, o.Err)
		case o.At >= 0:
			offsets[translate.Partition{Topic: o.Topic, Number: o.Partition}] = translate.Commit{Offset: o.At, Origin: translate.Committed, AsOf: now}
		}
	})
	return offsets, failed
}

// boundsAt asks a cluster for the bounds of partitions' logs; of those that are not
// told nothing is known.
func boundsAt(ctx context.Context, cl *kgo.Client, partitions []translate.Partition) map[translate.Partition]translate.Bounds {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	topics := make(map[string]struct{})
	for _, p := range partitions {
		topics[p.Topic] = struct{}{}
	}
	out := make(map[translate.Partition]translate.Bounds, len(partitions))
	if len(topics) == 0 {
		return out
	}
	names := slices.Sorted(maps.Keys(topics))
	adm := kadm.NewClient(cl)
	known, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return out
	}
	// What one of several brokers did not tell is left out below.
	starts, _ := adm.ListStartOffsets(ctx, names...)
	ends, _ := adm.ListEndOffsets(ctx, names...)
	for _, p := range partitions {
		out[p] = boundsOf(p, known, starts, ends)
	}
	return out
}

func boundsOf(p translate.Partition, known kadm.TopicDetails, starts, ends kadm.ListedOffsets) translate.Bounds {
	b := translate.NoBounds()
	t := known[p.Topic]
	if _, ok := t.Partitions[p.Number]; errors.Is(t.Err, kerr.UnknownTopicOrPartition) || t.Err == nil && !ok {
		b.Missing = true
		return b
	}
	if o, ok := starts.Lookup(p.Topic, p.Number); ok && o.Err == nil {
		b.Start = o.Offset
	}
	if o, ok := ends.Lookup(p.Topic, p.Number); ok && o.Err == nil {
		b.End = o.Offset
	}
	return b
}

// endedEarly tells of a read that its time was over.
func endedEarly(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }
