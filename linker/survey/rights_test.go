package survey

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/topics"
)

var asOf = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func ops(all ...kmsg.ACLOperation) (o operations) {
	for _, op := range all {
		o |= 1 << op
	}
	return o
}

const (
	read, write, alter, describe = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe
	getConfigs, setConfigs       = kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs
)

func TestRights(t *testing.T) {
	source := map[string]operations{"orders": ops(read, describe, getConfigs)}
	allOnTopic := ops(read, write, describe, getConfigs, setConfigs, deleteOp, alter)
	for name, c := range map[string]struct {
		in               rightsInput
		missing, unknown []string
	}{
		"all there":             {rightsInput{src: source, dst: map[string]operations{"orders": allOnTopic}, control: allOnTopic, cluster: ops(alter, describe), trims: true, marks: true, grows: []string{"orders"}}, nil, nil},
		"ClusterAction will do": {rightsInput{cluster: ops(kmsg.ACLOperationClusterAction, describe), marks: true}, nil, nil},
		"no markers":            {rightsInput{cluster: ops(describe), marks: true}, []string{"target: " + markersRight}, nil},
		"markers not wanted":    {rightsInput{cluster: ops(describe)}, nil, nil},
		// A broker that may not show the cluster's operations answers with none.
		"not listed is not known": {rightsInput{marks: true}, nil, []string{"target: " + markersRight}},
		"nothing told":            {rightsInput{cluster: noOperations, marks: true}, nil, []string{"target: " + markersRight}},
		"read the source":         {rightsInput{src: map[string]operations{"orders": ops(describe)}}, []string{"source: DescribeConfigs on topic orders", "source: Read on topic orders"}, nil},
		"write the target":        {rightsInput{dst: map[string]operations{"orders": ops(read, describe, getConfigs)}}, []string{"target: AlterConfigs on topic orders", "target: Write on topic orders"}, nil},
		"trim":                    {rightsInput{dst: map[string]operations{"orders": allOnTopic &^ ops(deleteOp)}, trims: true}, []string{"target: Delete on topic orders"}, nil},
		"grow":                    {rightsInput{dst: map[string]operations{"orders": allOnTopic &^ ops(alter)}, grows: []string{"orders"}}, []string{"target: Alter on topic orders"}, nil},
		"the control topic":       {rightsInput{control: ops(read, describe)}, []string{"target: Write on topic __klink"}, nil},
		"create, by the cluster":  {rightsInput{cluster: ops(kmsg.ACLOperationCreate, describe), create: []string{"orders"}}, nil, nil},
		"create, who knows":       {rightsInput{cluster: ops(describe), create: []string{"orders"}}, nil, []string{"target: Create on topic orders (or on the cluster), and all that is needed on it"}},
		"join the group":          {rightsInput{group: "l-klink", onGroup: ops(describe)}, []string{"target: Read on group l-klink"}, nil},
		"the group, who knows":    {rightsInput{group: "l-klink", onGroup: noOperations}, nil, []string{"target: Read on group l-klink"}},
		"the group, allowed":      {rightsInput{group: "l-klink", onGroup: ops(read, describe)}, nil, nil},
		"missed on the way":       {rightsInput{lacking: []string{"b", "a", "b"}}, []string{"a", "b"}, nil},
	} {
		r := rightsOf(c.in)
		if !slices.Equal(r.Missing, c.missing) || !slices.Equal(r.Unknown, c.unknown) || r.Missing == nil || r.Unknown == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestDifferences(t *testing.T) {
	source := topics.Settings{"cleanup.policy": {Value: "delete"}, "retention.ms": {Value: "1000", Explicit: true}, "compression.type": {Value: "lz4", Explicit: true},
		"segment.ms": {Value: "7", Explicit: true}, "remote.storage.enable": {Value: "true", Explicit: true}, "max.message.bytes": {Value: "1048588"}}
	overrides := map[string]string{"segment.bytes": "9"}
	want := topics.PlanConfigs(topics.ConfigInput{Source: source, Overrides: overrides, Replicas: 1})
	find := func(all []ConfigDifference, key string) (string, bool) {
		show := func(s *string) string {
			if s == nil {
				return "-"
			}
			return *s
		}
		i := slices.IndexFunc(all, func(d ConfigDifference) bool { return d.Key == key })
		if i < 0 {
			return "", false
		}
		return show(all[i].Source) + " " + show(all[i].Target) + " " + show(all[i].Planned) + ": " + all[i].Why, true
	}
	fresh := differences(source, want, nil, overrides)
	have := topics.Settings{"cleanup.policy": {Value: "delete"}, "retention.ms": {Value: "-1"}, "compression.type": {Value: "gzip"}, "segment.ms": {Value: "8"}, "segment.bytes": {Value: "9"}}
	existing := differences(source, want, have, overrides)
	for name, c := range map[string]struct {
		in        []ConfigDifference
		key, want string
	}{
		"fresh, forced":         {fresh, "compression.type", "lz4 - producer: " + whySet},
		"fresh, retention":      {fresh, "retention.ms", "1000 - -1: " + whyPromoted},
		"fresh, the same":       {fresh, "segment.ms", ""},
		"fresh, not copied":     {fresh, "remote.storage.enable", "true - -: tiered storage is the target cluster's own matter"},
		"existing, forced":      {existing, "compression.type", "lz4 gzip producer: " + whySet},
		"existing, as it is":    {existing, "retention.ms", ""},
		"existing, other value": {existing, "segment.ms", "7 8 8: " + whyKept},
		"existing, wanted":      {existing, "segment.bytes", ""},
	} {
		if got, ok := find(c.in, c.key); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
