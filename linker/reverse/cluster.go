package reverse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/remote"
)

const (
	// topicsPerRequest bounds the size of requests that name topics.
	topicsPerRequest = 500
	// deleteTimeoutMillis bounds how long the controller may wait for a deletion;
	// deleteWait how long this side waits until no broker knows the topic.
	deleteTimeoutMillis = 15_000
	deleteWait          = 30 * time.Second
	deleteLook          = 100 * time.Millisecond
)

func comparePartitions(a, b feed.Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// seenTopic is a topic as its cluster tells of it.
type seenTopic struct {
	id         feed.TopicID
	partitions int32
	// epochs are the leaders' epochs by partition, -1 where they are not told.
	epochs map[int32]int32
	ops    operations
}

// seen is a cluster's answer about some topics; one that is not there is not in
// topics.
type seen struct {
	cluster string
	topics  map[string]seenTopic
}

// see asks a cluster who it is and for topics by name, with the principal's
// operations on them (Metadata v8, KIP-430). The error is a *remote.Fault.
func see(ctx context.Context, cl *kgo.Client, names []string) (seen, error) {
	out := seen{topics: make(map[string]seenTopic, len(names))}
	for begin := 0; begin == 0 || begin < len(names); begin += topicsPerRequest {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
		req.Topics = []kmsg.MetadataRequestTopic{} // none, not all
		for _, n := range names[begin:min(len(names), begin+topicsPerRequest)] {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(n)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return out, remote.Classify("look at topics", "", err)
		}
		if resp.ClusterID != nil {
			out.cluster = *resp.ClusterID
		}
		for _, t := range resp.Topics {
			err := kerr.ErrorForCode(t.ErrorCode)
			if t.Topic == nil || errors.Is(err, kerr.UnknownTopicOrPartition) {
				continue
			}
			if err != nil && !errors.Is(err, kerr.LeaderNotAvailable) {
				return out, remote.Classify("look at topic "+*t.Topic, remote.Right("Describe", "topic", *t.Topic), err)
			}
			x := seenTopic{id: t.TopicID, partitions: int32(len(t.Partitions)), epochs: make(map[int32]int32), ops: operations(t.AuthorizedOperations)}
			for _, p := range t.Partitions {
				x.epochs[p.Partition] = p.LeaderEpoch
			}
			out.topics[*t.Topic] = x
		}
	}
	return out, nil
}

// deleteTopic deletes a topic if it is still the one with the id (H5), and returns
// once the cluster knows it no more. By id where brokers take ids (DeleteTopics v6,
// KIP-516), else right after a look.
func deleteTopic(ctx context.Context, cl *kgo.Client, name string, id feed.TopicID) error {
	s, err := see(ctx, cl, []string{name})
	if err != nil {
		return err
	}
	have, there := s.topics[name]
	switch {
	case !there:
		return nil
	case have.id != id:
		return fmt.Errorf("topic %q has id %s now, not %s: it is left alone", name, have.id, id)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = deleteTimeoutMillis, []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	if id.IsZero() {
		t.Topic = kmsg.StringPtr(name)
	} else {
		t.TopicID = id
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Topics) != 1 {
		err = errors.New("the answer does not hold the topic")
	}
	if err == nil {
		a := resp.Topics[0]
		err = remote.WithMessage(kerr.ErrorForCode(a.ErrorCode), a.ErrorMessage)
	}
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID) {
		return remote.Classify("delete topic "+name, remote.Right("Delete", "topic", name), err)
	}
	return awaitGone(ctx, cl, name, id)
}

// awaitGone waits until the topic of that id is not told of any more: what is made
// under its name before could be taken for it.
func awaitGone(ctx context.Context, cl *kgo.Client, name string, id feed.TopicID) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWait)
	defer cancel()
	for {
		s, err := see(ctx, cl, []string{name})
		if t, there := s.topics[name]; err == nil && (!there || t.id != id) {
			return nil
		}
		timer := time.NewTimer(deleteLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return remote.Classify("wait for topic "+name+" to be gone", "", cmp.Or(err, ctx.Err()))
		}
	}
}

// groupOffsets reads the committed offsets of the selected groups on the named
// topics. Groups without any are left out.
func groupOffsets(ctx context.Context, cl *kgo.Client, selected func(string) bool, topics map[string]bool) (map[string]committed, error) {
	adm := kadm.NewClient(cl)
	listed, err := adm.ListGroups(ctx)
	if err != nil && len(listed) == 0 {
		return nil, remote.Classify("list groups of the old source", remote.Right("Describe", "group", "*"), err)
	}
	var names []string
	for _, g := range listed.Sorted() {
		if selected(g.Group) && (g.GroupType == "" || g.GroupType == "classic" || g.GroupType == "consumer") {
			names = append(names, g.Group)
		}
	}
	out := make(map[string]committed)
	for _, f := range adm.FetchManyOffsets(ctx, names...) {
		if f.Err != nil {
			return nil, remote.Classify("read the offsets of group "+f.Group+" on the old source", remote.Right("Describe", "group", f.Group), f.Err)
		}
		c := make(committed)
		f.Fetched.Each(func(o kadm.OffsetResponse) {
			if o.Err == nil && o.At >= 0 && topics[o.Topic] {
				c[feed.Partition{Topic: o.Topic, Partition: o.Partition}] = o.At
			}
		})
		if len(c) > 0 {
			out[f.Group] = c
		}
	}
	return out, nil
}

// groupList is for results.
func groupList(all map[string]committed) []Group {
	out := make([]Group, 0, len(all))
	for name, c := range all {
		out = append(out, Group{Group: name, Partitions: len(c)})
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.Group, b.Group) })
	return out
}
