package switchover

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/remote"
)

// NewSourceEnds asks a cluster for its ends (ListOffsets latest, read_committed
// and then read_uncommitted, and Metadata for the topics' ids). It needs Describe
// on the topics.
func NewSourceEnds(src *kgo.Client) SourceEnds { return sourceEnds{kadm.NewClient(src)} }

type sourceEnds struct{ cl *kadm.Client }

// SourceEnds implements the port. The error is a *remote.Fault: the cluster did
// not answer at all.
func (s sourceEnds) SourceEnds(ctx context.Context, ps []feed.Partition) (map[feed.Partition]SourceEnd, error) {
	names := make(map[string]bool)
	for _, p := range ps {
		names[p.Topic] = true
	}
	topics := slices.Sorted(maps.Keys(names))
	stable, err := s.cl.ListCommittedOffsets(ctx, topics...)
	if err != nil && len(stable) == 0 {
		return nil, remote.Classify("list stable ends on the source", remote.Right("Describe", "topic", "*"), err)
	}
	ends, err := s.cl.ListEndOffsets(ctx, topics...)
	if err != nil && len(ends) == 0 {
		return nil, remote.Classify("list ends on the source", remote.Right("Describe", "topic", "*"), err)
	}
	// Last: an id that is right now was right for the answers before.
	known, err := s.cl.ListTopics(ctx, topics...)
	if err != nil {
		return nil, remote.Classify("look at topics of the source", remote.Right("Describe", "topic", "*"), err)
	}
	out := make(map[feed.Partition]SourceEnd, len(ps))
	for _, p := range ps {
		out[p] = sourceEnd(p, stable, ends, known)
	}
	return out, nil
}

func sourceEnd(p feed.Partition, stable, ends kadm.ListedOffsets, known kadm.TopicDetails) SourceEnd {
	lso, ok := stable.Lookup(p.Topic, p.Partition)
	end, also := ends.Lookup(p.Topic, p.Partition)
	topic := known[p.Topic]
	err := lso.Err
	switch {
	case topic.Err != nil:
		err = topic.Err
	case !ok || !also:
		err = fmt.Errorf("the source does not tell the end of %s/%d", p.Topic, p.Partition)
	case err == nil:
		err = end.Err
	}
	if err != nil {
		return SourceEnd{Stable: feed.Unknown, End: feed.Unknown, Err: err}
	}
	return SourceEnd{ID: feed.TopicID(topic.ID), Stable: lso.Offset, End: end.Offset}
}
