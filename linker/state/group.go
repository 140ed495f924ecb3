package state

// States of a Group.
const (
	// GroupSynced: every commit of the source is on the target.
	GroupSynced = "SYNCED"
	// GroupSyncing: some are behind, or differ by name.
	GroupSyncing = "SYNCING"
	// GroupWaiting: nothing may be written now, or ever.
	GroupWaiting = "WAITING"
)

// wholeGroup are the reasons that hold for all partitions of a group.
var wholeGroup = map[string]bool{"GROUP_ACTIVE": true, "GROUP_UNKNOWN": true, "GROUP_TYPE": true, "CONTROL_UNWRITABLE": true}

// Ordered reports whether the reason is that somebody wants the topic not to be mirrored,
// so that its offsets are not written, and those that are there stay.
func (p GroupPartition) Ordered() bool { return State(p.Reason).Ordered() }

// OnTarget reports whether the group has an offset on the target that came from the
// source. Of an ordered one it is the last that was carried over, or a later one of
// whoever works there since.
func (p GroupPartition) OnTarget() bool {
	return p.Reason == "" || p.Ordered() && p.TargetOffset != nil
}

// GroupStanding gives a group's state and reason by those of its partitions. Nothing is
// behind where all topics are ordered not to be mirrored.
func GroupStanding(partitions []GroupPartition) (state, reason string) {
	state = GroupSynced
	ordered := 0
	for _, p := range partitions {
		switch {
		case wholeGroup[p.Reason]:
			return GroupWaiting, p.Reason
		case p.Reason != "":
			state = GroupSyncing
		}
		if p.Ordered() {
			ordered++
		}
	}
	if ordered > 0 && ordered == len(partitions) {
		state = GroupWaiting
	}
	return state, ""
}
