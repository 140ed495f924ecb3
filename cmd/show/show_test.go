package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/state"
)

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		result any
		want   string
	}{
		{struct{}{}, "{\n  \"_command\": \"x\",\n  \"_version\": 1\n}\n"},
		{map[string]any{"n": nil}, "{\n  \"_command\": \"x\",\n  \"_version\": 1,\n  \"n\": null\n}\n"},
	} {
		var out bytes.Buffer
		if err := JSON(&out, "x", c.result); err != nil || out.String() != c.want {
			t.Errorf("%v: %s", err, &out)
		}
	}
	if err := JSON(&bytes.Buffer{}, "x", []int{1}); err == nil {
		t.Error("a list is no result")
	}
}

// A report without anything in it has arrays all the same, and unknown numbers
// are null (J1).
func TestCompleteReport(t *testing.T) {
	given := state.Report{AsOf: time.Unix(0, 0).UTC(), Links: []state.Link{{
		Topics: []state.Topic{{Partitions: []state.Partition{{}}}},
		Groups: []state.Group{{}},
	}}}
	var out bytes.Buffer
	if err := JSON(&out, "status", Complete(given)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"flags": []`, `"partitions": []`, `"lag_records": null`, `"source_end": null`, `"as_of": "1970-01-01T00:00:00Z"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
	if given.Links[0].Topics[0].Partitions[0].Flags != nil {
		t.Error("the given report was changed")
	}
	out.Reset()
	if err := JSON(&out, "status", Complete(state.Report{})); err != nil || !strings.Contains(out.String(), `"links": []`) {
		t.Errorf("%v: %s", err, &out)
	}
}

func partition(n int32, s state.State, lag int64, seconds float64) state.Partition {
	return state.Partition{Partition: n, State: s, LagRecords: &lag, LagSeconds: &seconds}
}

func TestRows(t *testing.T) {
	halted := state.Partition{Partition: 3, State: state.Halted, Reason: "DIVERGED", Detail: "at 7", Hint: "look"}
	halted2 := halted
	halted2.Partition, halted2.Detail = 5, "at 9"
	r := state.Report{Links: []state.Link{{Name: "east", Topics: []state.Topic{
		{SourceTopic: "a", TargetTopic: "eu.a", Partitions: []state.Partition{
			partition(0, state.Active, 0, 0), partition(1, state.Active, 2, 0.5), partition(2, state.Active, 3, 0.25), halted, partition(4, state.Active, 0, 0), halted2}},
		{SourceTopic: "b", TargetTopic: "b", State: state.Pending, Reason: "TOPIC_MISSING", Hint: "klink waits for it"},
	}}}}
	records, seconds := int64(5), 0.5
	want := []Row{
		{Link: "east", Topic: "a", Target: "eu.a", Partitions: "0-2,4", State: state.Active, LagRecords: &records, LagSeconds: &seconds},
		{Link: "east", Topic: "a", Target: "eu.a", Partitions: "3,5", State: state.Halted, Reason: "DIVERGED", Detail: "at 7", Others: 1, Hint: "look"},
		{Link: "east", Topic: "b", Target: "b", State: state.Pending, Reason: "TOPIC_MISSING", Hint: "klink waits for it"},
	}
	if diff := cmp.Diff(want, Rows(r, true)); diff != "" {
		t.Error(diff)
	}
	if got := Rows(r, false); len(got) != 7 || got[1].Partitions != "1" || Records(got[1].LagRecords) != "2" {
		t.Errorf("%+v", got)
	}
}

// What is said of a partition without a reason sets it apart from the others.
func TestRowsOfRemarks(t *testing.T) {
	a, b, c := partition(0, state.Active, 0, 0), partition(1, state.Active, 0, 0), partition(2, state.Active, 0, 0)
	b.Detail = "offsets 5 to 6 wait for the transaction of producer 7"
	r := state.Report{Links: []state.Link{{Topics: []state.Topic{{SourceTopic: "a", Partitions: []state.Partition{a, b, c}}}}}}
	rows := Rows(r, true)
	if len(rows) != 2 || rows[0].Partitions != "0,2" || rows[0].Detail != "" || rows[1].Partitions != "1" || rows[1].Detail != b.Detail {
		t.Errorf("%+v", rows)
	}
}

// One unknown lag makes the sum unknown (J2).
func TestRowsUnknownLag(t *testing.T) {
	r := state.Report{Links: []state.Link{{Topics: []state.Topic{{Partitions: []state.Partition{
		partition(0, state.Active, 5, 1), {Partition: 1, State: state.Active}}}}}}}
	row := Rows(r, true)[0]
	if Records(row.LagRecords) != "?" || Seconds(row.LagSeconds) != "?" {
		t.Errorf("%+v", row)
	}
}

// What an order says of all partitions is said once, and not as that of the first.
func TestOneDetailOfManyPartitions(t *testing.T) {
	const paused, behind = "paused by ada (command 7)", "12 records behind"
	ps := []state.Partition{{Partition: 0, State: state.Paused, Detail: paused}, {Partition: 1, State: state.Paused, Detail: paused}}
	topic := state.Topic{SourceTopic: "orders", Partitions: ps}
	all := state.Report{Links: []state.Link{{Topics: []state.Topic{topic}}}}
	if r := Rows(all, true); len(r) != 1 || r[0].Detail != paused || r[0].Others != 0 {
		t.Errorf("%+v", r)
	}
	ps[1].Detail = behind
	if r := Rows(all, true); len(r) != 1 || r[0].Detail != paused || r[0].Others != 1 {
		t.Errorf("%+v", r)
	}
}
