package app

import (
	"strings"
	"testing"

	"klink/linker/state"
)

func carriedGroups() []state.Group {
	n, age := func(v int64) *int64 { return &v }, func(v float64) *float64 { return &v }
	return []state.Group{
		{Group: "billing", State: state.GroupSyncing, Partitions: []state.GroupPartition{
			{SourceTopic: "orders", Partition: 0, SourceOffset: n(120), TargetOffset: n(120), AgeSeconds: age(0.4)},
			{SourceTopic: "orders", Partition: 1, SourceOffset: n(90), TargetOffset: n(70), Reason: "TARGET_OWNED"},
			{SourceTopic: "payments.eu", Partition: 0, SourceOffset: n(5), TargetOffset: n(5), AgeSeconds: age(2)}}},
		{Group: "desk #1", State: state.GroupWaiting, Reason: "NOT_CARRIED", Partitions: []state.GroupPartition{}},
	}
}

func TestStatusShowsGroups(t *testing.T) {
	r := testReport("east")
	r.Links[0].Groups = carriedGroups()
	folded, single := groupsSection(r, false), groupsSection(r, true)
	golden(t, "testdata/status-groups.golden", strings.TrimPrefix(folded+single, "\n"))
	r.Links[0].Topics = r.Links[0].Topics[:1]
	if s := groupsSection(r, true); strings.Contains(s, "payments") || !strings.Contains(s, "orders") {
		t.Error(s)
	}
	r.Links[0].Groups = nil
	if s := groupsSection(r, false); s != "" {
		t.Errorf("%q", s)
	}
}
