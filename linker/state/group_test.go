package state

import "testing"

func TestGroupStanding(t *testing.T) {
	at := int64(3)
	offset := func(reason string) GroupPartition { return GroupPartition{Reason: reason, TargetOffset: &at} }
	for name, c := range map[string]struct {
		of            []GroupPartition
		state, reason string
		onTarget      int
	}{
		"none":                      {nil, GroupSynced, "", 0},
		"all there":                 {[]GroupPartition{offset(""), offset("")}, GroupSynced, "", 2},
		"one behind":                {[]GroupPartition{offset(""), offset("CLAMPED")}, GroupSyncing, "", 1},
		"members on the target":     {[]GroupPartition{offset(""), offset("GROUP_ACTIVE")}, GroupWaiting, "GROUP_ACTIVE", 1},
		"all topics promoted":       {[]GroupPartition{offset("STOPPED"), offset("STOPPED")}, GroupWaiting, "", 2},
		"promoted before it came":   {[]GroupPartition{{Reason: "STOPPED"}}, GroupWaiting, "", 0},
		"one topic paused":          {[]GroupPartition{offset(""), offset("PAUSED")}, GroupSyncing, "", 2},
		"promoted, and one behind":  {[]GroupPartition{offset("STOPPED"), offset("CLAMPED")}, GroupSyncing, "", 1},
		"various orders":            {[]GroupPartition{offset("PAUSED"), offset("REMOVED")}, GroupWaiting, "", 2},
		"the source cannot be read": {[]GroupPartition{offset("FAILED")}, GroupSyncing, "", 0},
	} {
		n := 0
		for _, p := range c.of {
			if p.OnTarget() {
				n++
			}
		}
		if s, r := GroupStanding(c.of); s != c.state || r != c.reason || n != c.onTarget {
			t.Errorf("%s: %s, %q, %d on the target", name, s, r, n)
		}
	}
}
