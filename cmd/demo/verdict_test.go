package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/cmd/lab/strict"
	"klink/linker/state"
)

// good is evidence of a story that went well: one partition, mirrored up to 90
// of 100, read up to 95, committed at 80, carried over at 75.
func good() evidence {
	p := lab.Partition{Topic: "orders"}
	report := func(s state.State) state.Report {
		return state.Report{Links: []state.Link{{Topics: []state.Topic{{SourceTopic: "orders", State: s, Partitions: []state.Partition{{State: s}}}}}}}
	}
	digest := lab.Digest{To: 90, Records: 90, Hex: "ab"}
	return evidence{
		topics: []topic{{"orders", 1, "lz4", 100}},
		comparison: lab.Comparison{Partitions: []lab.PartitionComparison{{Src: p, Dst: p, SrcBounds: lab.Bounds{End: 100}, DstBounds: lab.Bounds{End: 90},
			SrcDigest: digest, DstDigest: digest}}},
		group:   map[lab.Partition]delivered{p: {source: ranges(0, 95), target: ranges(75, 90)}},
		commits: map[lab.Partition]commits{p: {80, 75}},
		atDeath: report(state.Active), atEnd: report(state.SourceUnavailable),
		live: 20 * time.Second, switched: ptr(300 * time.Millisecond), noticed: ptr(1500 * time.Millisecond),
	}
}

func TestVerdictOfAGoodStory(t *testing.T) {
	want := Result{
		Equal: true, Findings: []string{}, LiveSeconds: 20, SwitchSeconds: ptr(.3), NoticedSeconds: ptr(1.5),
		Topics: []Topic{{
			Topic: "orders", Codec: "lz4", State: state.Active, Records: 90, Compared: 90, Equal: 90, EqualShare: ptr(1.0), NeverMirrored: 10, ReadTwice: 15,
			Partitions: []Partition{{SourceEnd: 100, TargetEnd: 90, Compared: 90, Equal: 90, SourceDigest: "ab", TargetDigest: "ab",
				SourceCommit: ptr(int64(80)), TargetCommit: ptr(int64(75)), ResumedAt: ptr(int64(75)), ReadTwice: 15}},
		}},
	}
	if diff := cmp.Diff(want, judge(good())); diff != "" {
		t.Error(diff)
	}
}

func TestVerdictFindings(t *testing.T) {
	p := lab.Partition{Topic: "orders"}
	first := func(e *evidence) *lab.PartitionComparison { return &e.comparison.Partitions[0] }
	for _, c := range []struct {
		name   string
		change func(*evidence)
		want   string // the only finding holds this
	}{
		{"a record differs", func(e *evidence) {
			first(e).DstDigest.Hex = "cd"
			first(e).First = &lab.Difference{Offset: 17, Src: &kgo.Record{Offset: 17}, Dst: &kgo.Record{Offset: 17, Value: []byte("x")}}
		}, "orders[0] differs at offset 17"},
		{"only the digests differ", func(e *evidence) { first(e).DstDigest.Hex = "cd" }, "orders[0]: the digests differ: source ab, target cd"},
		{"more than the source has", func(e *evidence) { first(e).SrcBounds.End = 89 }, "orders[0]: the target has 1 record beyond the source's end at 89"},
		{"an offset without a record", func(e *evidence) { first(e).SrcDigest.Records, first(e).DstDigest.Records = 88, 88 }, "orders[0]: the target has 2 offsets without a record"},
		{"nothing was compared", func(e *evidence) { e.comparison.Partitions = nil }, "orders: no record was compared"},
		{"the group misses some", func(e *evidence) { e.group[p] = delivered{source: ranges(0, 70), target: ranges(75, 90)} }, "orders[0]: the group was not given 5 records of the target's"},
		{"no commit came over", func(e *evidence) { e.commits[p] = commits{80, -1} }, "orders[0]: the group had committed offset 80 at the source and has no commit at the target"},
		{"a commit ran ahead", func(e *evidence) {
			e.commits[p] = commits{74, 75}
		}, "orders[0]: the group's commit at the target, 75, is beyond the one at the source, 74"},
		{"went on elsewhere", func(e *evidence) { e.group[p] = delivered{source: ranges(0, 95), target: ranges(0, 90)} }, "orders[0]: the group went on at offset 0, its commit at the target was 75"},
		{"the switch never came", func(e *evidence) { e.switched = nil }, "the group was given no record at the target"},
		{"not ACTIVE at death", func(e *evidence) { e.atDeath.Links[0].Topics[0].State = state.CatchingUp }, "orders was CATCHING_UP, not ACTIVE, when the source died"},
		{"klink had found nothing", func(e *evidence) { e.atDeath.Links = nil }, "orders was PENDING, not ACTIVE"},
		{"halted", func(e *evidence) {
			e.atEnd.Links[0].Topics[0].Partitions[0] = state.Partition{Partition: 0, State: state.Halted, Reason: "FOREIGN_WRITE", Detail: "at 90"}
		}, "klink halted orders[0] as FOREIGN_WRITE: at 90"},
		{"an impossible batch", func(e *evidence) {
			e.violations = []*strict.Violation{{Topic: "orders", Rule: strict.Checksum, Code: 2, Detail: "1 for 2"}}
		}, "a real broker would not take this batch of klink's: orders[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := good()
			c.change(&e)
			r := judge(e)
			if r.Equal || len(r.Findings) != 1 || !strings.Contains(r.Findings[0], c.want) {
				t.Errorf("equal %v, %q; want only %q", r.Equal, r.Findings, c.want)
			}
		})
	}
}

// What is equal ends at the first difference.
func TestShareOfEqualOffsets(t *testing.T) {
	e := good()
	c := &e.comparison.Partitions[0]
	c.DstDigest.Hex, c.First = "cd", &lab.Difference{Offset: 89, Src: &kgo.Record{Offset: 89}}
	r := judge(e)
	if r.Topics[0].Equal != 89 {
		t.Errorf("%d records are equal, want 89", r.Topics[0].Equal)
	}
	for _, s := range []struct {
		equal, all int64
		want       string
	}{{90, 90, "100 %"}, {89, 90, "98.88 %"}, {999_999, 1_000_000, "99.99 %"}, {0, 5, "0.00 %"}, {0, 0, "?"}} {
		if got := share(s.equal, s.all); got != s.want {
			t.Errorf("%d of %d: %q, want %q", s.equal, s.all, got, s.want)
		}
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	if err := judge(good()).Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" TOPIC   CODEC  PARTS  RECORDS  OFFSETS   COMPARED     NEVER   READ  LOST \n",
		" orders  lz4        1       90    100 %         90        10     15     0 \n",
		"The switch took 300ms,", "after 1.5s.", "never mirrored: 10 records ", "read twice: 15 records ", "lost: 0 records ", "EQUAL: all 90 records",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	e := good()
	e.switched, e.noticed = nil, nil
	out.Reset()
	if err := judge(e).Print(&out); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !strings.Contains(s, "NOT EQUAL:\n  the group was given no record at the target\n") || strings.Contains(s, "The switch took") {
		t.Error(s)
	}
}
