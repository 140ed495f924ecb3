package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func auditFixtures(t testing.TB) []stored {
	t.Helper()
	return fixturesOf(t, "testdata/v1-audit.tsv")
}

var (
	wantPass  = state.AuditPass{Began: wantAt, Ended: wantAt.Add(time.Minute), From: 5, To: 100, Records: 90, First: []state.AuditFinding{}}
	wantWrong = state.AuditPass{Began: wantAt.Add(time.Hour), Ended: wantAt.Add(time.Hour + time.Minute), From: 5, To: 200, Records: 190, Findings: 3,
		First: []state.AuditFinding{{Kind: "changed", Offset: 7, Detail: "the records differ: value of 5 bytes differs from byte 2 on"}, {Kind: "missing", Offset: 9}}}
	wantDigest = state.AuditPass{Began: wantAt, Ended: wantAt.Add(time.Minute), From: 5, To: 100, Records: 90, First: []state.AuditFinding{},
		Digest: new("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")}
	wantAuditTie = TopicRecord{Link: "east-west", SourceTopic: "orders", SourceID: seqID(0), TargetTopic: "dr.orders", TargetID: seqID(16), Partitions: 12}
	wantAudits   = []AuditRecord{
		{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 0, TargetID: seqID(16), Audit: state.Audit{Last: &wantPass, Clean: &wantPass}},
		{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 3, TargetID: seqID(16), Audit: state.Audit{Last: &wantWrong, Clean: &wantPass}},
		{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 4, TargetID: seqID(16), Audit: state.Audit{Last: &wantWrong}},
		{Link: "east-west", Topic: "orders", SourceID: seqID(0), Partition: 5, TargetID: seqID(16), Audit: state.Audit{Last: &wantDigest, Clean: &wantDigest}},
	}
)

func auditTie(t testing.TB) stored {
	t.Helper()
	var b batch
	b.add(encodeTopic(wantAuditTie, nil))
	return storedOf(t, b)[0]
}

// Audits that were written by version 1 decode for ever, and are written so.
func TestVersion1OfAudits(t *testing.T) {
	v := viewOf(t, append([]stored{auditTie(t)}, auditFixtures(t)...)...)
	if d := cmp.Diff(wantAudits, v.Audits("east-west")); d != "" || v.Problems().Malformed != 0 {
		t.Errorf("(-want +got):\n%s%+v", d, v.Problems())
	}
	var b batch
	for _, r := range wantAudits {
		b.add(encodeAudit(r))
	}
	if d := cmp.Diff(auditFixtures(t), storedOf(t, b), cmp.AllowUnexported(stored{})); d != "" {
		t.Errorf("(-stored +written):\n%s", d)
	}
}

// An audit is one of the topics that are on record now, and of no others.
func TestAuditBelongsToItsTopics(t *testing.T) {
	all := append([]stored{auditTie(t)}, auditFixtures(t)...)
	if r, ok := viewOf(t, all...).Audit("east-west", "orders", 3); !ok || r.Last.Findings != 3 {
		t.Errorf("%+v %t", r, ok)
	}
	for name, other := range map[string]TopicRecord{
		"a source made anew": {Link: "east-west", SourceTopic: "orders", SourceID: seqID(9), TargetTopic: "dr.orders", TargetID: seqID(16)},
		"a target made anew": {Link: "east-west", SourceTopic: "orders", SourceID: seqID(0), TargetTopic: "dr.orders", TargetID: seqID(9)},
	} {
		var b batch
		b.add(encodeTopic(other, nil))
		v := viewOf(t, append(all, storedOf(t, b)...)...)
		if _, ok := v.Audit("east-west", "orders", 3); ok || len(v.Audits("east-west")) != 0 {
			t.Errorf("%s has the audit of the one before", name)
		}
	}
	gone := stored{key: auditFixtures(t)[1].key}
	if v := viewOf(t, append(all, gone)...); len(v.Audits("east-west")) != 3 {
		t.Errorf("%+v", v.Audits("east-west"))
	}
}

func TestMalformedAudits(t *testing.T) {
	const key = `{"kind":"audit","link":"l","topic":"t"}`
	for name, value := range map[string]string{
		"the wrong way round": `{"version":1,"last":{"from":8,"to":7}}`,
		"before the log":      `{"version":1,"clean":{"from":-1,"to":7}}`,
		"no count":            `{"version":1,"last":{"findings":-1}}`,
		"a bad id":            `{"version":1,"target_id":"77"}`,
	} {
		if v := viewOf(t, stored{key, value}); v.Problems().Malformed != 1 {
			t.Errorf("%s is taken for an audit", name)
		}
	}
}

// Where no klink runs the report has the audits that are on record.
func TestReportShowsAudits(t *testing.T) {
	var b batch
	keys, values := encodeState(StateRecord{Link: "east-west", AsOf: wantAt.Add(2 * time.Hour), Topic: state.Topic{SourceTopic: "orders", TargetTopic: "dr.orders", State: state.Active,
		Partitions: []state.Partition{{Partition: 0, State: state.Active, Flags: []string{state.Differs}}, {Partition: 1, State: state.Active}, {Partition: 3, State: state.Active}}}})
	for i := range keys {
		b.add(keys[i], values[i])
	}
	all := append(append([]stored{auditTie(t)}, auditFixtures(t)...), storedOf(t, b)...)
	rep, ok := viewOf(t, all...).LinkReport("east-west")
	if !ok {
		t.Fatal("no report")
	}
	ps := rep.Links[0].Topics[0].Partitions
	if p := ps[0]; len(p.Flags) != 0 || p.Audit == nil || *p.Audit.CleanAgeSeconds != 7200 || p.Audit.Last.To != 100 {
		t.Errorf("clean: %+v", p)
	}
	if p := ps[1]; p.Audit != nil {
		t.Errorf("never compared: %+v", p)
	}
	if p := ps[2]; len(p.Flags) != 1 || p.Flags[0] != state.Differs || *p.Audit.CleanAgeSeconds != 7200 || p.Audit.Last.Findings != 3 {
		t.Errorf("with findings: %+v", p)
	}
}
