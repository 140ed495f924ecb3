package mm2

// CheckpointsTopic is the topic of checkpoints, on the target (checkpointsTopic).
func (p Policy) CheckpointsTopic() string {
	return p.Source + p.inside() + "checkpoints" + p.inside() + "internal"
}

// OffsetSyncsOnTarget is the topic of offset syncs where it lies on the target
// (offset-syncs.topic.location=target, KIP-716). It is named after the source.
func (p Policy) OffsetSyncsOnTarget() string { return p.offsetSyncs(p.Source) }

// OffsetSyncsOnSource is the topic of offset syncs where it lies on the source,
// MirrorMaker 2's default. It is named after the target.
func (p Policy) OffsetSyncsOnSource() string { return p.offsetSyncs(p.Target) }

func (p Policy) offsetSyncs(alias string) string {
	return "mm2-offset-syncs" + p.inside() + alias + p.inside() + "internal"
}

// RemoteHeartbeats is the source's heartbeats as mirrored to the target.
func (p Policy) RemoteHeartbeats() string { return p.Remote(HeartbeatsTopic) }

// ConnectOffsetsTopic is where a dedicated MirrorMaker 2 keeps its position, on
// the target; its separator is fixed (MirrorMakerConfig). On a plain Connect
// cluster it is that of the worker's offset.storage.topic.
func (p Policy) ConnectOffsetsTopic() string { return "mm2-offsets." + p.Source + ".internal" }
