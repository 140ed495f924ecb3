package survey

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/control"
	"klink/linker/remote"
)

// operations are the authorized operations of a principal on one resource, as
// a bit for each (KIP-430).
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

const deleteOp = kmsg.ACLOperationDelete

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

// The sides of a link, as rights and reasons name them.
const (
	onSource = "source: "
	onTarget = "target: "
)

// Rights are those that a link needs and that are not seen to be there, as they
// are granted, with the side in front. All lists are sorted.
type Rights struct {
	// Missing are those that brokers say are not there.
	Missing []string `json:"missing_rights"`
	// Unknown are those that brokers do not tell of.
	Unknown []string `json:"unknown_rights"`
}

func (r *Rights) note(holds Answer, right string) {
	switch holds {
	case No:
		r.Missing = append(r.Missing, right)
	case Unknown:
		r.Unknown = append(r.Unknown, right)
	}
}

func (r *Rights) sort() {
	for _, list := range []*[]string{&r.Missing, &r.Unknown} {
		slices.Sort(*list)
		*list = append([]string{}, slices.Compact(*list)...)
	}
}

// rightsInput is what the rights of a link follow from.
type rightsInput struct {
	// src and dst hold the operations on topics that are there, by name.
	src, dst map[string]operations
	cluster  operations
	// control are those on the control topic, 0 where it is not there.
	control operations
	// group is the one that the workers join, "" for none, and onGroup are the
	// operations on it.
	group   string
	onGroup operations
	// lacking are rights that were missed on the way, with the side in front.
	lacking []string
	// create are target topics that are not there.
	create []string
	// trims: klink deletes records, to pad or to follow the source's log start.
	trims bool
	// grows are target topics that get partitions.
	grows []string
	// marks: gaps are to be filled with markers.
	marks bool
}

var names = map[kmsg.ACLOperation]string{
	kmsg.ACLOperationRead: "Read", kmsg.ACLOperationWrite: "Write", kmsg.ACLOperationCreate: "Create", kmsg.ACLOperationDelete: "Delete",
	kmsg.ACLOperationAlter: "Alter", kmsg.ACLOperationDescribe: "Describe", kmsg.ACLOperationDescribeConfigs: "DescribeConfigs",
	kmsg.ACLOperationAlterConfigs: "AlterConfigs",
}

// rightsOf compares what a link needs with what its principal may do.
func rightsOf(in rightsInput) Rights {
	r := Rights{Missing: slices.Clone(in.lacking)}
	onTopics := func(side string, all map[string]operations, ops ...kmsg.ACLOperation) {
		for topic, have := range all {
			for _, op := range ops {
				r.note(have.allow(op), side+remote.Right(names[op], "topic", topic))
			}
		}
	}
	onTopics(onSource, in.src, kmsg.ACLOperationRead, kmsg.ACLOperationDescribeConfigs)
	onTopics(onTarget, in.dst, kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs)
	if in.control != 0 {
		onTopics(onTarget, map[string]operations{control.TopicName: in.control}, kmsg.ACLOperationRead, kmsg.ACLOperationWrite)
	}
	if in.trims {
		onTopics(onTarget, in.dst, kmsg.ACLOperationDelete)
	}
	for _, topic := range in.grows {
		r.note(in.dst[topic].allow(kmsg.ACLOperationAlter), onTarget+remote.Right("Alter", "topic", topic))
	}
	for _, topic := range in.create {
		// It may be granted on names that do not exist yet, which nobody tells.
		if in.cluster.allow(kmsg.ACLOperationCreate) != Yes {
			r.note(Unknown, onTarget+remote.Right("Create", "topic", topic)+" (or on the cluster), and all that is needed on it")
		}
	}
	if in.group != "" {
		r.note(in.onGroup.allow(kmsg.ACLOperationRead), onTarget+remote.Right("Read", "group", in.group))
	}
	if in.marks {
		r.note(mayMark(in.cluster), onTarget+markersRight)
	}
	r.sort()
	return r
}

// mayMark tells whether transaction markers may be written.
func mayMark(cluster operations) Answer {
	return either(cluster.allow(kmsg.ACLOperationAlter), cluster.allow(kmsg.ACLOperationClusterAction))
}
