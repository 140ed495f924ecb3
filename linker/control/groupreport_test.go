package control

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// Status from the target alone shows groups as they were recorded.
// TestReportOfALinkThatNeverRan: it was put on record by klink reverse, and its age is
// that of this.
func TestReportOfALinkThatNeverRan(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	v := newView()
	v.links["home"] = LinkRecord{Link: "home", Mode: "mirror", AppliedAt: at}
	if r, ok := v.LinkReport("home"); !ok || !r.AsOf.Equal(at) || r.Links[0].State != state.Pending {
		t.Errorf("%+v, %t", r, ok)
	}
}

func TestLinkReportShowsGroups(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	v := newView()
	put := func(offset int64, k Key, val any) {
		t.Helper()
		key, err := k.encode()
		if err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(val)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.apply(offset, at, key, value); err != nil {
			t.Fatal(err)
		}
	}
	k, val := encodeLinkState(LinkStateRecord{Link: "l", Mode: "mirror", State: state.Active, AsOf: at.Add(10 * time.Second)})
	put(1, k, val)
	k, val = encodeTopic(TopicRecord{Link: "l", SourceTopic: "orders", TargetTopic: "dr.orders"}, nil)
	put(2, k, val)
	for i, e := range encodeGroup(GroupRecord{Link: "l", Group: "g", At: at, Accepted: 3, Offsets: []GroupOffset{
		{Topic: "dr.orders", Partition: 0, Previous: 1, Written: 5, SourceOffset: 5, At: at},
		{Topic: "dr.orders", Partition: 1, Previous: feed.Unknown, Written: feed.Unknown, SourceOffset: 7, At: at, Reason: "GROUP_ACTIVE"},
		{Topic: "gone", Partition: 1, Written: 7, SourceOffset: 7, At: at},
	}}, 0) {
		put(3+int64(i), e.key, e.value)
	}
	r, ok := v.LinkReport("l")
	if !ok {
		t.Fatal("nothing on record")
	}
	n, age := func(v int64) *int64 { return &v }, 10.0
	want := []state.Group{{Group: "g", State: state.GroupWaiting, Reason: "GROUP_ACTIVE", Partitions: []state.GroupPartition{
		{SourceTopic: "orders", Partition: 0, SourceOffset: n(5), TargetOffset: n(5), AgeSeconds: &age},
		{SourceTopic: "orders", Partition: 1, SourceOffset: n(7), AgeSeconds: &age, Reason: "GROUP_ACTIVE"}}}}
	if d := cmp.Diff(want, r.Links[0].Groups); d != "" {
		t.Error(d)
	}
	if g, _ := v.Group("l", "g"); g.Accepted != 3 {
		t.Errorf("%+v", g)
	}
}
