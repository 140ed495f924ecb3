package comparator

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestContrastGroup(t *testing.T) {
	at := func(n int32) PartitionName { return PartitionName{"t", n} }
	before := committed{at(0): {offset: 5}, at(1): {offset: 5}, at(2): {offset: 5}, at(4): {offset: 5, metadata: "a"}, at(6): {offset: 0}}
	after := committed{at(0): {offset: 5}, at(1): {offset: 9}, at(2): {offset: 5}, at(4): {offset: 5, metadata: "a"}, at(5): {offset: 1}, at(6): {offset: 0}}
	dst := committed{at(0): {offset: 5}, at(1): {offset: 9}, at(3): {offset: 1}, at(4): {offset: 5}, at(6): {offset: 2}}
	equal, got := contrastGroup(before, dst, after, nil)
	kinds := map[int32]Kind{}
	for _, d := range got {
		kinds[d.Partition] = d.Kind
	}
	// 5 was committed between the looks, and 1 went on between them.
	if d := cmp.Diff(map[int32]Kind{2: Missing, 3: Extra, 4: Changed, 6: Changed}, kinds); d != "" || equal != 2 {
		t.Fatalf("%d equal; (-want +got)\n%s", equal, d)
	}
}

// A cluster that does not know a group has told of it: it has no offsets there. Any
// other error leaves it unknown.
func TestUnknownGroupHasNoOffsets(t *testing.T) {
	g := &groupLook{names: [2]map[string]string{{"t": "t"}, {"copy-of-t": "t"}}}
	if f := g.told(Source, kadm.FetchOffsetsResponse{Group: "east-klink", Err: kerr.GroupIDNotFound}); f.err != nil || len(f.offsets) != 0 {
		t.Errorf("an unknown group: %+v", f)
	}
	if f := g.told(Target, kadm.FetchOffsetsResponse{Group: "g", Err: kerr.GroupAuthorizationFailed}); !errors.Is(f.err, kerr.GroupAuthorizationFailed) {
		t.Errorf("a group that may not be described: %+v", f)
	}
	known := kadm.FetchOffsetsResponse{Group: "g", Fetched: kadm.OffsetResponses{
		"copy-of-t": {0: {Offset: kadm.Offset{Topic: "copy-of-t", At: 5, Metadata: "m"}}},
		"other":     {0: {Offset: kadm.Offset{Topic: "other", At: 9}}}}}
	f := g.told(Target, known)
	if d := cmp.Diff(committed{{"t", 0}: {offset: 5, metadata: "m"}}, f.offsets, cmp.AllowUnexported(commit{})); d != "" || f.err != nil {
		t.Errorf("%v; (-want +got)\n%s", f.err, d)
	}
}

func TestDifferencesOfSettings(t *testing.T) {
	src := Settings{"retention.ms": {Value: "100", Explicit: true}, "cleanup.policy": {Value: "compact,delete"}, "segment.ms": {Value: "7"}}
	dst := Settings{"retention.ms": {Value: "-1"}, "cleanup.policy": {Value: "delete, compact"}, "segment.ms": {Value: "8"}, "max.message.bytes": {Value: "1"}}
	expected := map[string]string{"retention.ms": "-1", "cleanup.policy": "compact,delete", "segment.ms": "7", "max.message.bytes": "2"}
	var keys []string
	for _, d := range differences(src, dst, expected) {
		keys = append(keys, d.Key)
	}
	if d := cmp.Diff([]string{"max.message.bytes", "segment.ms"}, keys); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	// After a promotion the source's own value is in force.
	dst["retention.ms"] = Setting{Value: "100"}
	if got := differences(src, dst, map[string]string{"retention.ms": "-1"}); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}
