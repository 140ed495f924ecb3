package reverse

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/control"
)

func bits(ops ...kmsg.ACLOperation) operations {
	o := operations(1 << 30)
	for _, op := range ops {
		o |= 1 << op
	}
	return o
}

func TestRightsOf(t *testing.T) {
	all := bits(kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs)
	for name, c := range map[string]struct {
		topic, control, cluster operations
		missing, unknown        []string
		markers                 Answer
	}{
		"all":               {all, all, bits(kmsg.ACLOperationAlter), []string{}, []string{}, Yes},
		"by cluster action": {all, all, bits(kmsg.ACLOperationClusterAction), []string{}, []string{}, Yes},
		"a reader": {bits(kmsg.ACLOperationRead, kmsg.ACLOperationDescribeConfigs), all, bits(kmsg.ACLOperationDescribe),
			[]string{markersRight, "AlterConfigs on topic t", "Delete on topic t", "Write on topic t"}, []string{}, No},
		"nobody tells": {noOperations, 0, noOperations, []string{}, []string{markersRight, "AlterConfigs on topic t",
			"Create on topic __klink (or on the cluster), and Read and Write on it", "Delete on topic t", "DescribeConfigs on topic t", "Read on topic t", "Write on topic t"}, Unknown},
		"no control topic, and one may be made": {all, 0, bits(kmsg.ACLOperationAlter, kmsg.ACLOperationCreate), []string{}, []string{}, Yes},
		"a control topic of others":             {all, bits(kmsg.ACLOperationRead), bits(kmsg.ACLOperationAlter), []string{"Write on topic __klink"}, []string{}, Yes},
	} {
		t.Run(name, func(t *testing.T) {
			s := seen{topics: map[string]seenTopic{"t": {ops: c.topic}}}
			if c.control != 0 {
				s.topics[control.TopicName] = seenTopic{ops: c.control}
			}
			n := rightsOf(s, []string{"t", "gone"}, c.cluster)
			if !slices.Equal(n.Missing, c.missing) || !slices.Equal(n.Unknown, c.unknown) || n.Markers != c.markers || n.Missing == nil || n.Unknown == nil {
				t.Errorf("%q, %q, %s", n.Missing, n.Unknown, n.Markers)
			}
		})
	}
}

// TestRights asks an embedded cluster, which tells of no operations.
func TestRights(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "A")
	c.create(t, "t", 1)
	n, err := Rights(t.Context(), c.admin, []string{"t"})
	must(t, err)
	if len(n.Missing)+len(n.Unknown) == 0 && n.Markers != Yes {
		t.Errorf("%+v", n)
	}
}

// TestFenceNeedsMarkers: where the first step of the way home would be a marker that
// may not be written, it is not begun.
func TestFenceNeedsMarkers(t *testing.T) {
	for _, c := range []struct {
		old, promoted string
		markers       Answer
		want          Verdict
	}{
		{"abc", "abc.x", No, NoPermission}, {"abc", "abc.x", Unknown, InPlace}, {"abc", "abc.x", Yes, InPlace},
		{"abc.", "abc.x", No, InPlace}, // there is something invisible already
		{"abcd", "abc.x", No, HasTail},
	} {
		p := lookedPartition{facts: facts(t, script(c.old), script(c.promoted), Cut{3, 3}, 100)}
		l := looked{partitions: []lookedPartition{p}}
		l.old.partitions, l.promoted.partitions = 1, 1
		l.settle(c.markers)
		if l.verdict != c.want || (l.detail == "") != (c.want == InPlace) {
			t.Errorf("%s, %s, markers %s: %s (%s), want %s", c.old, c.promoted, c.markers, l.verdict, l.detail, c.want)
		}
	}
}
