package topics

// Policy names remote topics and knows those that are never mirrored in
// checkpoint mode, as a replication policy of MirrorMaker 2 does for one source
// and one target.
type Policy interface {
	// Remote is a source topic's name on the target.
	Remote(topic string) string
	// Internal tells MirrorMaker 2's own topics, such as checkpoints and offset
	// syncs of any flow, Heartbeats those of its heartbeats.
	Internal(topic string) bool
	Heartbeats(topic string) bool
	// Cycle tells that a topic came from the target, directly or through others.
	Cycle(topic string) bool
}

// The reasons for not mirroring a topic in checkpoint mode, whatever selects it.
const (
	Internal   Skip = "it is MirrorMaker 2's own topic, or would be called like one on the target"
	Heartbeats Skip = "it holds heartbeats, which klink writes by itself"
	Cycle      Skip = "its name says that it came from the target: mirrored back it would go round for ever"
)

// passOver tells whether a policy leaves a topic out: an empty Skip says no. A
// topic whose mirror would be taken for an internal one is left out too: it would
// be written to as such.
func passOver(p Policy, name string) Skip {
	if p == nil {
		return ""
	}
	remote := p.Remote(name)
	switch {
	case p.Heartbeats(name), p.Heartbeats(remote):
		return Heartbeats
	case p.Internal(name), p.Internal(remote):
		return Internal
	case p.Cycle(name):
		return Cycle
	}
	return ""
}
