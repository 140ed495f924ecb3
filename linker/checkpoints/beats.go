package checkpoints

import (
	"slices"

	"klink/translate/mm2"
)

// Heartbeats are the topics of heartbeats that are to be on the target.
type Heartbeats struct {
	// Beaten get a record each time; Upstream is the one of the source, which gets one
	// only while the source answers. Both tell of this flow, from source to target.
	Beaten, Upstream string
	// Named are the copies of those topics that the source has of clusters before it.
	// Clients read from their names which clusters these are, and how far away
	// (RemoteClusterUtils.upstreamClusters, replicationHops). They get no records:
	// whether those clusters are alive is not known here.
	Named []string
}

// HeartbeatsOf gives them for a flow and the topics that the source has, of which
// those that hold no heartbeats do not matter, and those that came from the target
// are left out. Nothing is written on the source: the topic heartbeats there, which
// MirrorMaker 2 would write and mirror, is taken as given.
func HeartbeatsOf(p mm2.Policy, sourceTopics []string) Heartbeats {
	h := Heartbeats{Beaten: mm2.HeartbeatsTopic, Upstream: p.RemoteHeartbeats()}
	for _, t := range sourceTopics {
		if remote := p.Remote(t); t != mm2.HeartbeatsTopic && p.Heartbeats(t) && !p.Cycle(t) && len(remote) <= mostTopicName {
			h.Named = append(h.Named, remote)
		}
	}
	slices.Sort(h.Named)
	return h
}

// mostTopicName is the most bytes of a topic's name (Topic.MAX_NAME_LENGTH).
const mostTopicName = 249
