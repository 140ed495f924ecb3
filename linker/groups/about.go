package groups

// About says what a verdict means and, where there is something to do, what.
type About struct{ Explanation, Hint string }

var about = map[Verdict]About{
	Pending: {"not looked at yet, or the target topic is being prepared", ""},
	Unmapped: {"where the records of this partition lie on the target is not known yet, or nothing was copied",
		"klink goes on by itself"},
	Clamped: {"the mirror has not reached the offset; what it has is committed, and raised as it goes on",
		"an offset beyond the source's own end is never reached: see kafka-consumer-groups --describe there"},
	BelowStart: {"committed, but the target does not retain the record", "the group will reset by auto.offset.reset, as it would on the source if that does not retain it either"},
	TargetOwned: {"the target has an offset that klink did not write: somebody worked there under this name, and is not thrown back",
		"if the source's offset is to replace it: klink repair --accept --group NAME"},
	GroupActive:  {"the group has members on the target; nothing is written while it has", ""},
	GroupUnknown: {"the target did not tell whether the group has members, or its offsets", "klink goes on by itself once its coordinator answers"},
	GroupType:    {"the target has a group of this name that cannot hold a consumer's offsets, such as a share group", "rename one of the two"},
	NotCarried:   {"share groups and streams groups are not carried over: the former keep no offsets, the latter more than offsets", "take it out with groups.exclude; after a switch it begins by its own reset policy"},
	TargetUnknown: {"the target partition is not there yet, or its leader does not answer",
		"klink goes on by itself"},
	NotAligned:        {"the target's log does not hold the source's records at their offsets, or not for sure, so the offset could mean another record", "see the partition's own reason"},
	SourceDeleted:     {"the source has the offset no more; its copy is left to expire on the target", ""},
	NoPermission:      {"a right is missing: Describe on the group on both sides, Read on group and topic on the target", "grant it to klink's principal; klink goes on by itself"},
	Failed:            {"the commit, or asking for the offset, failed", "klink tries again by itself; see the log for the cluster's answer"},
	MetadataDropped:   {"committed without the consumer's metadata, which is larger than the target's offset.metadata.max.bytes", "raise offset.metadata.max.bytes on the target's brokers"},
	ControlUnwritable: {"klink's control topic on the target cannot be read or written, or the lease to write is not held", "check the rights on __klink and the target's health; klink goes on by itself"},
	FilterUnmatched:   {"this pattern of groups.include matches no group of the source", "check its spelling, and that klink may Describe the groups: brokers leave out what it may not see"},
	TopicPaused:       {"the topic is paused", "klink resume"},
	TopicPending:      {"the topic is being promoted", ""},
	TopicStopped:      {"the topic was promoted or failed over; its groups' offsets are never written again", ""},
	TopicRemoved:      {"the topic was taken out of the link", ""},
}

// About returns the fixed text of a verdict; empty for Synced.
func (v Verdict) About() About { return about[v] }
