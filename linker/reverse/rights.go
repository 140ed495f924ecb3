package reverse

import (
	"context"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/control"
	"klink/linker/remote"
)

// Needed are klink's rights on a cluster that is a source now, as it needs them
// once the link goes the other way; both lists are sorted and never null.
type Needed struct {
	// Missing are those that the brokers say are not there.
	Missing []string `json:"missing_rights"`
	// Unknown are those that they do not tell of: the operations on a cluster are
	// told to who may Describe it.
	Unknown []string `json:"unknown_rights"`
	// Markers tells whether transaction markers may be written, which fences and
	// most gaps need.
	Markers Answer `json:"markers"`
}

// Answer is yes, no or unknown.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// operations are the authorized operations of a principal on one resource, a bit
// for each (KIP-430).
type operations int32

// noOperations is what a broker answers that does not tell.
const noOperations operations = math.MinInt32

// allow tells whether an operation is among them. A list that is missing or empty
// says nothing: brokers leave it empty where the right to see it is missing.
func (o operations) allow(op kmsg.ACLOperation) Answer {
	switch {
	case o == noOperations || o == 0:
		return Unknown
	case o&(1<<op) != 0:
		return Yes
	default:
		return No
	}
}

// either is the better of two answers.
func either(a, b Answer) Answer {
	switch {
	case a == Yes || b == Yes:
		return Yes
	case a == Unknown || b == Unknown:
		return Unknown
	default:
		return No
	}
}

// markersRight is what WriteTxnMarkers needs (KafkaApis.handleWriteTxnMarkersRequest,
// either of the two from Kafka 3.8 on, ClusterAction alone before).
const markersRight = "Alter (or ClusterAction) on cluster"

// topicRights are those on a mirror topic.
var topicRights = []struct {
	op   kmsg.ACLOperation
	name string
}{
	{kmsg.ACLOperationRead, "Read"}, {kmsg.ACLOperationWrite, "Write"}, {kmsg.ACLOperationDelete, "Delete"},
	{kmsg.ACLOperationDescribeConfigs, "DescribeConfigs"}, {kmsg.ACLOperationAlterConfigs, "AlterConfigs"},
}

// Rights asks a source cluster for the rights that a link needs on it once it is
// the target: those on the named topics, on klink's control topic, and for
// markers. It writes nothing, so what brokers do not tell stays unknown. Promotion
// asks as well, so that the way home is not found barred when it is needed. The
// error is a *remote.Fault.
func Rights(ctx context.Context, source *kgo.Client, topics []string) (Needed, error) {
	s, err := see(ctx, source, append(slices.Clone(topics), control.TopicName))
	if err != nil {
		return Needed{Missing: []string{}, Unknown: []string{}, Markers: Unknown}, err
	}
	return rightsOf(s, topics, clusterOperations(ctx, source)), nil
}

// rightsOf compares what is needed with what is told. A topic that is not there
// needs rights on its name, of which nobody tells.
func rightsOf(s seen, topics []string, cluster operations) Needed {
	n := Needed{Missing: []string{}, Unknown: []string{},
		Markers: either(cluster.allow(kmsg.ACLOperationAlter), cluster.allow(kmsg.ACLOperationClusterAction))}
	for _, name := range topics {
		if t, there := s.topics[name]; there {
			for _, r := range topicRights {
				n.note(t.ops.allow(r.op), remote.Right(r.name, "topic", name))
			}
		}
	}
	if t, there := s.topics[control.TopicName]; there {
		n.note(t.ops.allow(kmsg.ACLOperationRead), remote.Right("Read", "topic", control.TopicName))
		n.note(t.ops.allow(kmsg.ACLOperationWrite), remote.Right("Write", "topic", control.TopicName))
	} else if cluster.allow(kmsg.ACLOperationCreate) != Yes {
		n.note(Unknown, remote.Right("Create", "topic", control.TopicName)+" (or on the cluster), and Read and Write on it")
	}
	n.note(n.Markers, markersRight)
	slices.Sort(n.Missing)
	slices.Sort(n.Unknown)
	return n
}

func (n *Needed) note(holds Answer, right string) {
	switch holds {
	case No:
		n.Missing = append(n.Missing, right)
	case Unknown:
		n.Unknown = append(n.Unknown, right)
	}
}

// clusterOperations returns the principal's operations on the cluster
// (DescribeCluster, KIP-700, Kafka 2.8); noOperations where it does not tell.
func clusterOperations(ctx context.Context, cl *kgo.Client) operations {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || resp.ErrorCode != 0 {
		return noOperations
	}
	return operations(resp.ClusterAuthorizedOperations)
}
