package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"klink/cmd/config"
	"klink/linker/plan"
	"klink/linker/survey"
)

func plannedLinks() survey.PlanResult {
	known := func(n int32, start, end, gaps int64) survey.PartitionPlan {
		data := (end - start) * 100
		return survey.PartitionPlan{Partition: n, Verdict: survey.Raw, Reasons: []string{}, SourceStart: &start, SourceEnd: &end, TargetEnd: new(int64), PadOffsets: new(int64),
			GapOffsets: &gaps, DataBytes: &data, PadBytes: new(int64), GapBytes: new(int64), EstimatedSeconds: ptr(float64(data) / 1e6)}
	}
	padded := known(1, 5_000_000, 95_000_000, 123_456)
	padded.Verdict, padded.PadOffsets, padded.GapEstimated = survey.PadFirst, ptr(int64(5_000_000)), true
	unread := survey.PartitionPlan{Partition: 1, Verdict: survey.Refuse, Reasons: []string{}}
	return survey.PlanResult{AsOf: asOf,
		Topics: []survey.TopicPlan{
			{Link: "east", SourceTopic: "orders", TargetTopic: "orders", Verdict: survey.PadFirst, Reasons: []string{"the mirror begins at offset 5000000", "gaps: transaction markers"}, Partitions: []survey.PartitionPlan{known(0, 0, 10, 0), padded}},
			{Link: "east", SourceTopic: "payments", TargetTopic: "x.payments", Verdict: survey.Refuse, Reasons: []string{"source: payments/1: unreachable at offset -1"}, Partitions: []survey.PartitionPlan{known(0, 0, 1000, 0), unread}},
			{Link: "east", SourceTopic: "absent", TargetTopic: "absent", Verdict: survey.Refuse, Reasons: []string{"source: the source has no topic of this name"}, Partitions: []survey.PartitionPlan{}},
		},
		Rights: survey.Rights{Missing: []string{"target: Write on topic orders"}, Unknown: []string{"target: Alter (or ClusterAction) on the cluster"}},
		Configs: []survey.ConfigDifference{
			{Link: "east", SourceTopic: "orders", TargetTopic: "orders", Key: "retention.ms", Source: ptr("604800000"), Planned: ptr("-1"), Why: "as it must be"},
			{Link: "east", SourceTopic: "payments", TargetTopic: "x.payments", Key: "retention.ms", Source: ptr("604800000"), Planned: ptr("-1"), Why: "as it must be"},
		},
		Rates: []survey.LinkPace{{Link: "east", Pace: survey.Assumed(), ExpectedMarkers: ptr(800.0)}},
		Notes: []string{`the pattern "none-*" selects nothing`},
	}
}

// planning returns parts whose plan gives r, as far as it was asked for.
func planning(r survey.PlanResult, err error) Parts {
	return Parts{Plan: func(_ context.Context, _ *config.Config, req PlanRequest) (survey.PlanResult, error) {
		var kept []survey.TopicPlan
		for _, t := range r.Topics {
			if req.Only == nil || req.Only(t.SourceTopic, t.TargetTopic) {
				kept = append(kept, t)
			}
		}
		r.Topics = kept
		return r, err
	}}
}

func TestPlanCommand(t *testing.T) {
	file := configFile(t, "", "east")
	r := execute(t.Context(), planning(plannedLinks(), nil), "plan", "-c", file)
	if r.code != 0 || r.err != "" {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/plan.golden", r.out)
	golden(t, "testdata/plan-topic.golden", execute(t.Context(), planning(plannedLinks(), nil), "plan", "-c", file, "orders", "x.*").out)
	golden(t, "testdata/help-plan.golden", execute(t.Context(), Parts{}, "plan", "--help").out)

	r = execute(t.Context(), planning(plannedLinks(), nil), "plan", "-c", file, "-o", "json")
	var got struct {
		Command string `json:"_command"`
		Topics  []struct {
			Verdict    string
			Partitions []map[string]any
		}
		MissingRights []string `json:"missing_rights"`
		Configs       []map[string]any
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Command != "plan" || len(got.Topics) != 3 || len(got.MissingRights) != 1 || len(got.Configs) != 2 {
		t.Fatalf("%v: %+v", err, r)
	}
	p := got.Topics[0].Partitions[1]
	for key, want := range map[string]any{"partition": 1.0, "verdict": "pad", "source_start": 5e6, "source_end": 95e6, "pad_offsets": 5e6, "gap_offsets": 123456.0, "gap_estimated": true, "pad_bytes": 0.0, "estimated_seconds": 9000.0} {
		if p[key] != want {
			t.Errorf("%s is %v, want %v", key, p[key], want)
		}
	}
	if unread := got.Topics[1].Partitions[1]; unread["source_end"] != nil || unread["estimated_seconds"] != nil {
		t.Errorf("%+v", unread)
	}
}

func TestPlanFails(t *testing.T) {
	file := configFile(t, "", "east")
	if r := execute(t.Context(), planning(plannedLinks(), nil), "plan", "-c", file, "ordres"); r.code != 1 || r.err != "klink: plan: no topic \"ordres\" is selected by topics.include (did you mean orders?)\n" || r.out != "" {
		t.Errorf("%+v", r)
	}
	if r := execute(t.Context(), planning(survey.PlanResult{}, errors.New("source: no answer")), "plan", "-c", file); r.code != 1 || r.err != "klink: plan: source: no answer\n" {
		t.Errorf("%+v", r)
	}
	if r := execute(t.Context(), planning(plannedLinks(), nil), "plan", "--target", "t:9092"); r.code != 2 || !strings.Contains(r.err, "source") {
		t.Errorf("%+v", r)
	}
}

// A plan judges by the same settings as the mirror.
func TestPlanOptions(t *testing.T) {
	l := config.DefaultLink()
	if o := planOptions(l); o.Policy.Gaps != plan.FillMarkers || o.Policy.Overrun != plan.HaltOverrun || o.Policy.PadLimit != l.PadLimit || !o.FollowStart || o.Topics.CopyRetention || o.Otherwise != survey.OtherwiseHalt {
		t.Errorf("%+v", o)
	}
	l.GapFill, l.OnRetentionOverrun, l.OnUnmirrorable, l.FollowStart = config.GapFillRecords, config.OverrunPad, config.UnmirrorableCheckpoint, false
	if o := planOptions(l); o.Policy.Gaps != plan.FillRecords || o.Policy.Overrun != plan.PadOverrun || o.FollowStart || !o.Topics.CopyRetention || o.Otherwise != survey.OtherwiseCheckpoint {
		t.Errorf("%+v", o)
	}
}
