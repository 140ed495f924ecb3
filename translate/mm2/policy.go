package mm2

import "strings"

// SeparatorDefault is replication.policy.separator where it is not set.
const SeparatorDefault = "."

// HeartbeatsTopic is the name of the topic of heartbeats in the cluster they are
// written to.
const HeartbeatsTopic = "heartbeats"

// Policy names topics as one of MirrorMaker 2's replication policies does for a
// flow from one cluster to another.
type Policy struct {
	// Source and Target are the aliases of the clusters.
	Source, Target string
	// Identity leaves names as they are (IdentityReplicationPolicy); else the source
	// alias is put before them (DefaultReplicationPolicy).
	Identity bool
	// Separator stands between alias and topic; "" for SeparatorDefault.
	Separator string
	// DotsInside keeps the default separator in the names of MirrorMaker 2's own
	// topics whatever Separator is
	// (replication.policy.internal.topic.separator.enabled=false, KIP-949).
	DotsInside bool
}

func (p Policy) separator() string {
	if p.Separator == "" {
		return SeparatorDefault
	}
	return p.Separator
}

// inside is the separator in the names of MirrorMaker 2's own topics.
func (p Policy) inside() string {
	if p.DotsInside {
		return SeparatorDefault
	}
	return p.separator()
}

// byDefault tells whether DefaultReplicationPolicy's rules hold for the name:
// IdentityReplicationPolicy uses them for whatever ends with heartbeats.
func (p Policy) byDefault(topic string) bool {
	return !p.Identity || strings.HasSuffix(topic, HeartbeatsTopic)
}

// Remote is the target's name of a source topic (formatRemoteTopic).
func (p Policy) Remote(topic string) string {
	if !p.byDefault(topic) {
		return topic
	}
	return p.Source + p.separator() + topic
}

// Downstream is the name under which a source topic's offsets are kept in
// checkpoints: the original's for what was copied from the target, else the remote
// one's (MirrorCheckpointTask.renameTopicPartition).
func (p Policy) Downstream(topic string) string {
	if alias, ok := p.TopicSource(topic); ok && alias == p.Target {
		return p.Original(topic)
	}
	return p.Remote(topic)
}

// TopicSource is the alias of the cluster that a topic was copied from, and
// whether it has one (topicSource). With Identity it is the source's for all
// names, as nothing can be told from them.
func (p Policy) TopicSource(topic string) (string, bool) {
	if !p.byDefault(topic) {
		return p.Source, p.Source != ""
	}
	alias, _, ok := p.split(topic)
	return alias, ok
}

// Upstream is the name of a topic in the cluster that it was copied from, and
// whether it was (upstreamTopic).
func (p Policy) Upstream(topic string) (string, bool) {
	if !p.byDefault(topic) {
		return topic, true
	}
	_, upstream, ok := p.split(topic)
	return upstream, ok
}

// Original is a topic's name in the cluster that it came from at first
// (originalTopic).
func (p Policy) Original(topic string) string {
	for {
		upstream, ok := p.Upstream(topic)
		if !ok || upstream == topic {
			return topic
		}
		topic = upstream
	}
}

// split takes the alias off a name. What ends behind the separator has none, as
// Java's String.split drops empty parts at the end.
func (p Policy) split(topic string) (alias, upstream string, ok bool) {
	alias, upstream, ok = strings.Cut(topic, p.separator())
	if !ok || strings.ReplaceAll(upstream, p.separator(), "") == "" {
		return "", "", false
	}
	return alias, upstream, true
}

// Heartbeats tells whether a topic holds heartbeats (isHeartbeatsTopic).
func (p Policy) Heartbeats(topic string) bool { return p.Original(topic) == HeartbeatsTopic }

// Checkpoints tells whether a topic holds checkpoints (isCheckpointsTopic).
func (p Policy) Checkpoints(topic string) bool {
	return strings.HasSuffix(topic, p.inside()+"checkpoints"+p.inside()+"internal")
}

// Own tells whether a topic is one of MirrorMaker 2's own (isMM2InternalTopic, as
// from Kafka 4.0 on: KIP-1074; before, all that end with .internal were).
func (p Policy) Own(topic string) bool {
	return strings.HasPrefix(topic, "mm2") && strings.HasSuffix(topic, p.inside()+"internal") || p.Checkpoints(topic)
}

// Internal tells whether a topic is never mirrored (isInternalTopic, as from Kafka
// 4.0 on).
func (p Policy) Internal(topic string) bool {
	return p.Own(topic) || strings.HasPrefix(topic, "__") || strings.HasPrefix(topic, ".")
}

// Cycle tells whether a source topic came from the target, or from the source
// itself (MirrorSourceConnector.isCycle, as from Kafka 4.4 on: KAFKA-9914; before,
// the target alone counted). So a topic that bears the source's alias by
// chance is taken for a copy. With Identity no topic is known to be one, but those
// of heartbeats.
func (p Policy) Cycle(topic string) bool {
	for {
		alias, ok := p.TopicSource(topic)
		switch {
		case !ok:
			return false
		case alias == p.Target || alias == p.Source && !p.Identity:
			return true
		}
		upstream, ok := p.Upstream(topic)
		if !ok || upstream == topic {
			return false
		}
		topic = upstream
	}
}
