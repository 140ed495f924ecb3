package app

import (
	"strings"

	"klink/cmd/config"
)

// remoteNames is a replication policy of MirrorMaker 2 for one link: its
// DefaultReplicationPolicy, or with identity its IdentityReplicationPolicy. It
// implements topics.Policy.
type remoteNames struct {
	source, target, separator string
	identity                  bool
}

func newRemoteNames(l config.Link) remoteNames {
	source, target := l.Aliases()
	return remoteNames{source: source, target: target, separator: l.Checkpoint.Separator,
		identity: l.Checkpoint.ReplicationPolicy == config.PolicyIdentity}
}

// heartbeatsName is MirrorMaker 2's name of the topic of heartbeats.
const heartbeatsName = "heartbeats"

// Remote implements topics.Policy.
func (n remoteNames) Remote(topic string) string {
	if n.identity && !strings.HasSuffix(topic, heartbeatsName) {
		return topic
	}
	return n.source + n.separator + topic
}

// Internal implements topics.Policy, as from Kafka 4.0 on (KIP-1074).
func (n remoteNames) Internal(topic string) bool {
	end := n.separator + "internal"
	return strings.HasPrefix(topic, "mm2") && strings.HasSuffix(topic, end) || strings.HasSuffix(topic, n.separator+"checkpoints"+end)
}

// Heartbeats implements topics.Policy: the name without the aliases before it.
func (n remoteNames) Heartbeats(topic string) bool {
	for {
		_, upstream, ok := n.split(topic)
		if !ok {
			return topic == heartbeatsName
		}
		topic = upstream
	}
}

// Cycle implements topics.Policy. The identity policy keeps no trace of where a
// topic came from, so that there it is never known.
func (n remoteNames) Cycle(topic string) bool {
	if n.identity {
		return false
	}
	for {
		alias, upstream, ok := n.split(topic)
		switch {
		case !ok:
			return false
		case alias == n.target || alias == n.source: // the latter from Kafka 4.4 on (KAFKA-9914)
			return true
		}
		topic = upstream
	}
}

// split takes the alias off a remote topic's name. What ends behind the separator
// has none, as Java's String.split drops empty parts at the end.
func (n remoteNames) split(topic string) (alias, upstream string, ok bool) {
	alias, upstream, ok = strings.Cut(topic, n.separator)
	if rest := strings.ReplaceAll(upstream, n.separator, ""); rest == "" {
		return "", topic, false
	}
	return alias, upstream, ok
}
