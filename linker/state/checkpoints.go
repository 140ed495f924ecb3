package state

// Checkpoints is how a link keeps MirrorMaker 2's topics on the target, as far as the
// reporting process knows; or, where no process was asked, what the topics tell.
type Checkpoints struct {
	// Topic is the topic of checkpoints on the target.
	Topic string `json:"topic"`
	// Writing: this process writes the topics. Else another one does, or none has to.
	Writing bool `json:"writing"`
	// FromTopics: no process was asked. WrittenAt is the time of the newest checkpoint,
	// BeatAt that of the newest heartbeat of the source; how many checkpoints there are
	// and when groups were looked at is not known then.
	FromTopics bool `json:"from_topics"`
	// Checkpoints is how many there are, one for each group and partition; nil where
	// it is not known here.
	Checkpoints *int64 `json:"checkpoints"`
	// Written counts those that this process wrote.
	Written int64 `json:"written"`
	// LookedAt is when all groups were last looked at and what was new of them
	// written, WrittenAt when something last was, BeatAt when a heartbeat was.
	LookedAt  Seen `json:"looked_at"`
	WrittenAt Seen `json:"written_at"`
	BeatAt    Seen `json:"heartbeat_at"`
	// Waiting are offsets of groups for which no checkpoint can be written now.
	Waiting []CheckpointsWaiting `json:"waiting"`
	// Troubles are what stands in the way of whole topics.
	Troubles []CheckpointsTrouble `json:"troubles"`
}

// CheckpointsWaiting is a number of offsets of groups and what they wait for.
type CheckpointsWaiting struct {
	Reason  string `json:"reason"`
	Offsets int64  `json:"offsets"`
}

// CheckpointsTrouble is what stands in the way of one topic.
type CheckpointsTrouble struct {
	Topic  string `json:"topic"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}
