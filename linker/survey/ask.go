package survey

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
)

// topicsPerRequest bounds the size of requests that name topics.
const topicsPerRequest = 500

// seenTopic is a topic as its cluster tells of it.
type seenTopic struct {
	id         feed.TopicID
	partitions int32
	ops        operations
	// err is why it cannot be seen; one that is not there is not in the answer.
	err error
}

// seeTopics asks for topics by name, with the principal's operations on them
// (Metadata v8, KIP-430). The error is a *remote.Fault.
func seeTopics(ctx context.Context, cl *kgo.Client, names []string) (map[string]seenTopic, error) {
	out := make(map[string]seenTopic, len(names))
	for chunk := range slices.Chunk(names, topicsPerRequest) {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
		for _, n := range chunk {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(n)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return nil, remote.Classify("look at topics", "", err)
		}
		for _, t := range resp.Topics {
			err := kerr.ErrorForCode(t.ErrorCode)
			if t.Topic == nil || errors.Is(err, kerr.UnknownTopicOrPartition) {
				continue
			}
			out[*t.Topic] = seenTopic{id: t.TopicID, partitions: int32(len(t.Partitions)), ops: operations(t.AuthorizedOperations),
				err: remote.Classify("look at topic "+*t.Topic, remote.Right("Describe", "topic", *t.Topic), err)}
		}
	}
	return out, nil
}

// seeCluster returns the principal's operations on the cluster (DescribeCluster,
// KIP-700, Kafka 2.8); noOperations where it does not tell.
func seeCluster(ctx context.Context, cl *kgo.Client) operations {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || resp.ErrorCode != 0 {
		return noOperations
	}
	return operations(resp.ClusterAuthorizedOperations)
}

// describeGroupsV5 hides v6, which knows no operations on a group that is not there
// yet (KIP-1043); v5 tells them of one that is dead.
type describeGroupsV5 struct{ *kmsg.DescribeGroupsRequest }

// MaxVersion is the newest version that describes a group before its first member.
func (describeGroupsV5) MaxVersion() int16 { return 5 }

// seeGroup returns the principal's operations on a group (DescribeGroups v3,
// KIP-430); noOperations where its coordinator does not tell. It makes no group.
func seeGroup(ctx context.Context, cl *kgo.Client, group string) operations {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKey, find.CoordinatorKeys = 0, group, []string{group}
	found, err := find.RequestWith(ctx, cl)
	if err != nil {
		return noOperations
	}
	node := found.NodeID
	for _, c := range found.Coordinators {
		if c.Key == group && c.ErrorCode == 0 {
			node = c.NodeID
		}
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	kresp, err := cl.Broker(int(node)).Request(ctx, describeGroupsV5{req})
	resp, ok := kresp.(*kmsg.DescribeGroupsResponse)
	if err != nil || !ok || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
		return noOperations
	}
	return operations(resp.Groups[0].AuthorizedOperations)
}

// seeSettings reads what topics are set to; those that may not be read are not
// in the answer.
func seeSettings(ctx context.Context, cl *kgo.Client, names []string) (map[string]topics.Settings, error) {
	out := make(map[string]topics.Settings, len(names))
	for chunk := range slices.Chunk(names, topicsPerRequest) {
		all, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, chunk...)
		if remote.ReasonOf(err) == state.Unreachable && err != nil {
			return nil, remote.Classify("describe configs", "", err)
		}
		for _, r := range all {
			if r.Err != nil {
				continue
			}
			s := make(topics.Settings, len(r.Configs))
			for _, c := range r.Configs {
				if c.Value != nil {
					s[c.Key] = topics.Setting{Value: *c.Value, Explicit: c.Source == kmsg.ConfigSourceDynamicTopicConfig}
				}
			}
			out[r.Name] = s
		}
	}
	return out, nil
}

// knownKeys are the topic configs that a cluster's brokers have; nil where no
// topic of it tells.
func knownKeys(all map[string]topics.Settings) map[string]bool {
	for _, s := range all {
		if len(s) > 0 {
			known := make(map[string]bool, len(s))
			for k := range s {
				known[k] = true
			}
			return known
		}
	}
	return nil
}
