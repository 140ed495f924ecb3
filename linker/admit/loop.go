package admit

import (
	"fmt"

	"klink/linker/control"
	"klink/linker/state"
)

// removeHint is what ends a loop.
const removeHint = "records would go round for ever: take the topic out of one of the two links (topics.exclude), and off the record with klink remove"

// Loop is all that decides whether a topic would be mirrored back to where it came
// from.
type Loop struct {
	// Inflow is the mirror that ends in the source topic, by the source's own record.
	Inflow control.Inflow
	// TargetCluster is the id of this link's target, Target the topic's name there.
	TargetCluster, Target string
	// Drifts: copies lie at other offsets than their records.
	Drifts bool
	// Begun: this link has a target topic on record.
	Begun bool
}

// ByLoop says why a topic would be mirrored back to where its records came from; nil
// where it would not. A mirror in the other direction that was stopped is no loop, as
// after a failover: but copies that drift would be copied once more into the topic they
// came from. Of two links of which one has begun the other waits.
func ByLoop(c Loop) *Refusal {
	i := c.Inflow
	switch {
	case c.TargetCluster == "" || !i.Clusters.Holds(c.TargetCluster):
		return nil
	case i.Stopped && (!c.Drifts || i.SourceTopic != c.Target):
		return nil
	case c.Begun && !i.Begun:
		return nil
	}
	by := fmt.Sprintf("link %s mirrors it from topic %s of cluster %s", i.Link, i.SourceTopic, i.Clusters.All()[0])
	if i.Clusters.All()[0] != c.TargetCluster {
		by += fmt.Sprintf(", where it came from this link's target cluster %s", c.TargetCluster)
	}
	if i.Stopped {
		return &Refusal{Reason: state.TopicRefused, Detail: "the source topic holds what came from the target's topic: " + by + ", until it was stopped",
			Hint: "copies would be copied once more: use replication_policy default, which gives them another name, or take the old mirror off the record with klink remove, and have klink repair --recreate make the target topic anew"}
	}
	return &Refusal{Reason: state.TopicRefused, Detail: "the source topic is a mirror of the target's: " + by, Hint: removeHint}
}
