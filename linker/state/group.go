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

// GroupStanding gives a group's state and reason by those of its partitions.
func GroupStanding(partitions []GroupPartition) (state, reason string) {
	state = GroupSynced
	for _, p := range partitions {
		switch {
		case wholeGroup[p.Reason]:
			return GroupWaiting, p.Reason
		case p.Reason != "":
			state = GroupSyncing
		}
	}
	return state, ""
}
