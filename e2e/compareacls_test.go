package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
	"klink/comparator"
)

// accessRules: klink compare --acls names the right that it lacks, and then each rule
// that is in force on one side alone, however it is put.
func accessRules(t *testing.T, s *secured) {
	const topic = "ruled"
	both := []*lab.Kafka{s.src, s.dst}
	for _, k := range both {
		create(t, k, lab.TopicSpec{Name: topic, Configs: lab.KeepEverything()})
		grant(t, k, right{"Describe", topic}, right{"Read", topic}, right{"DescribeConfigs", topic})
	}
	rule := func(k *lab.Kafka, b *kadm.ACLBuilder) {
		t.Helper()
		made, err := admin(t, k).CreateACLs(within(t, patience), b)
		if err != nil || made[0].Err != nil {
			t.Fatal(err, made)
		}
	}
	of := func(name string) *kadm.ACLBuilder { return kadm.NewACLs().Topics(name).Operations(kadm.OpRead) }
	rule(s.src, of("rul").ResourcePatternType(kadm.ACLPatternPrefixed).Allow("User:both").AllowHosts("*"))
	rule(s.dst, of(topic).Allow("User:both").AllowHosts("*"))
	rule(s.src, of(topic).Allow("User:source").AllowHosts("*"))
	rule(s.dst, of(topic).Deny("User:target").DenyHosts("10.0.0.7"))
	args := []string{"--acls", "-c", configFile(t, object{"name": "ruled", "topics": object{"include": []string{topic}},
		"source": secureSide(s.src, password(lab.ScramSHA512, s.secretFile(t, s.src.Password(principal)))),
		"target": secureSide(s.dst, password(lab.Plain, s.secretFile(t, s.dst.Password(principal))))})}

	r, o := compare(t, args...)
	if o.code != 1 || len(r.ACLs) != 1 || !strings.Contains(r.ACLs[0].Error, "not authorised") {
		t.Errorf("without the right: exit code %d, %+v", o.code, r.ACLs)
	}
	for _, k := range both {
		rule(k, kadm.NewACLs().Clusters().Operations(kadm.OpDescribe).Allow("User:"+principal).AllowHosts("*"))
	}
	r, o = compare(t, args...)
	want := []comparator.ACLDifference{
		{SourceTopic: topic, TargetTopic: topic, Kind: comparator.Missing, Principal: "User:source", Host: "*", Operation: "READ", Permission: "ALLOW"},
		{SourceTopic: topic, TargetTopic: topic, Kind: comparator.Extra, Principal: "User:target", Host: "10.0.0.7", Operation: "READ", Permission: "DENY"}}
	// User:both, and klink's own three.
	if o.code != 3 || len(r.ACLs) != 1 || !slices.Equal(r.ACLs[0].Differences, want) || r.ACLs[0].Equal != 4 {
		t.Errorf("exit code %d, %+v\n%s", o.code, r.ACLs, o.errOut)
	}
}
