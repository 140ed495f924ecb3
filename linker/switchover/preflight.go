package switchover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/control"
	"klink/linker/remote"
	"klink/linker/state"
)

// Warning is a right that a failover or a promotion needs on the target and that
// is not seen to be there.
type Warning = state.Warning

// PreflightOptions say what will be needed.
type PreflightOptions struct {
	// Client asks the target; it stays the caller's.
	Client *kgo.Client
	// Topics are the link's target topics.
	Topics []string
	// Groups are the groups that are carried over.
	Groups []string
}

// Preflight asks the target whether the rights are there that are needed at the
// very moment of a failover: Alter or ClusterAction on the cluster for fences,
// AlterConfigs on the target topics, Write on the control topic, Read on the
// groups (DescribeCluster, KIP-700; Metadata v8 and DescribeGroups v3, KIP-430).
// What the target does not tell is a warning with Known false, once per kind. It
// returns nil where the target does not answer: that is no matter of rights.
func Preflight(ctx context.Context, o PreflightOptions) []Warning {
	var w warnings
	cluster, err := clusterRights(ctx, o.Client)
	if err != nil {
		return nil
	}
	w.note(either(cluster.allow(kmsg.ACLOperationAlter), cluster.allow(kmsg.ACLOperationClusterAction)), rightMarkers,
		"a failover cannot fence: a klink that is cut off is stopped by the end of its lease alone")
	topics, err := topicRights(ctx, o.Client, append(slices.Clone(o.Topics), control.TopicName))
	if err != nil {
		return w.out
	}
	for _, t := range slices.Sorted(slices.Values(o.Topics)) {
		if have, ok := topics[t]; ok {
			w.note(have.allow(kmsg.ACLOperationAlterConfigs), remote.Right("AlterConfigs", "topic", t),
				"the source's settings cannot come into force: retention stays off")
		}
	}
	if have, ok := topics[control.TopicName]; ok {
		w.note(have.allow(kmsg.ACLOperationWrite), remote.Right("Write", "topic", control.TopicName),
			"a stop cannot be put on record")
	}
	for g, have := range groupRights(ctx, o.Client, o.Groups) {
		w.note(have.allow(kmsg.ACLOperationRead), remote.Right("Read", "group", g), "its offsets cannot be carried over")
	}
	slices.SortFunc(w.out, func(a, b Warning) int { return cmp.Compare(a.Right, b.Right) })
	return w.out
}

const rightMarkers = "Alter (or ClusterAction) on the cluster"

// answer is whether a right is there.
type answer int8

const (
	untold answer = iota
	no
	yes
)

func either(a, b answer) answer { return max(a, b) }

// rights are the operations that a principal may do on a resource, a bit each.
type rights int32

// noRights is what a broker answers that does not tell.
const noRights rights = math.MinInt32

// allow reads a list of rights. An empty one says nothing: brokers leave it empty
// where the right to see it is missing.
func (r rights) allow(op kmsg.ACLOperation) answer {
	switch {
	case r == noRights || r == 0:
		return untold
	case r&(1<<op) != 0:
		return yes
	default:
		return no
	}
}

type warnings struct {
	out  []Warning
	told map[string]bool // details of which it was said that nobody tells
}

func (w *warnings) note(a answer, right, detail string) {
	switch {
	case a == no:
		w.out = append(w.out, Warning{Right: right, Known: true, Detail: detail, Hint: fmt.Sprintf("grant %s to klink's principal on the target", right)})
	case a == untold && !w.told[detail]:
		if w.told == nil {
			w.told = make(map[string]bool)
		}
		w.told[detail] = true
		w.out = append(w.out, Warning{Right: right, Detail: "it cannot be told whether this right is there; without it " + detail,
			Hint: fmt.Sprintf("grant %s to klink's principal on the target, and Describe, so that it can be seen", right)})
	}
}

func clusterRights(ctx context.Context, cl *kgo.Client) (rights, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	switch {
	case err != nil:
		return noRights, err
	case resp.ErrorCode != 0:
		return noRights, nil
	}
	return rights(resp.ClusterAuthorizedOperations), nil
}

// rightsPerRequest bounds the size of requests that name topics or groups.
const rightsPerRequest = 500

// topicRights leaves out topics that are not there.
func topicRights(ctx context.Context, cl *kgo.Client, names []string) (map[string]rights, error) {
	out := make(map[string]rights, len(names))
	for chunk := range slices.Chunk(names, rightsPerRequest) {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
		for _, n := range chunk {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(n)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return nil, err
		}
		for _, t := range resp.Topics {
			switch err := kerr.ErrorForCode(t.ErrorCode); {
			case t.Topic == nil, errors.Is(err, kerr.UnknownTopicOrPartition):
			case err != nil:
				out[*t.Topic] = noRights
			default:
				out[*t.Topic] = rights(t.AuthorizedOperations)
			}
		}
	}
	return out, nil
}

// groupRights leaves out groups of which nothing is told: a group that is not
// there yet tells its rights all the same.
func groupRights(ctx context.Context, cl *kgo.Client, names []string) map[string]rights {
	out := make(map[string]rights, len(names))
	for chunk := range slices.Chunk(names, rightsPerRequest) {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.IncludeAuthorizedOperations, req.Groups = true, chunk
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return out
		}
		for _, g := range resp.Groups {
			switch err := kerr.ErrorForCode(g.ErrorCode); {
			case errors.Is(err, kerr.GroupAuthorizationFailed):
				out[g.Group] = 1 << kmsg.ACLOperationDescribe // Read implies what is refused here
			case err == nil && rights(g.AuthorizedOperations) != noRights && g.AuthorizedOperations != 0:
				out[g.Group] = rights(g.AuthorizedOperations)
			}
		}
	}
	return out
}
