package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"klink/cmd/config"
	"klink/comparator"
)

// compared is a comparison with something of everything.
func compared() comparator.Result {
	digest := strings.Repeat("0123456789abcdef", 4)
	equal := comparator.PartitionResult{Partition: 0, To: 1_000_000, RecordsCompared: 998_000, Digest: &digest, TargetDigest: &digest, Compacted: 12, Expired: 3}
	shown := &comparator.Shown{Offset: 7, TimestampMillis: ptr(int64(1_700_000_000_123)), Key: ptr("k7"), Headers: []comparator.ShownHeader{{Key: "h"}}, Batch: comparator.Origin{Base: 0, Last: 9, Codec: "lz4"}}
	differs := comparator.PartitionResult{Partition: 1, From: 5, To: 2_000, RecordsCompared: 1_900, Tally: comparator.Tally{
		Counts:   map[comparator.Kind]int64{comparator.Missing: 90, comparator.Shifted: 100},
		Findings: []comparator.Finding{{Kind: comparator.Missing, Offset: 7, Records: 1, Detail: "the target has no record here", Source: shown}, {Kind: comparator.Shifted, Offset: 9, Records: 100, ShiftedBy: -1, Detail: "100 records stand at their offset -1 on the target"}}},
		Keys: []comparator.KeyDifference{{Key: "k7", SourceOffset: ptr(int64(7))}}, KeysDiffering: ptr(int64(4))}
	return comparator.Result{AsOf: asOf, Differences: 196, Failed: 1, ACLs: []comparator.ACLResult{{Link: "east", Error: "target: not authorised to see access rules"}, {Link: "west", Differences: []comparator.ACLDifference{
		{SourceTopic: "orders", Kind: comparator.Missing, Principal: "User:a", Host: "*", Operation: "READ", Permission: "ALLOW"}}}}, Groups: []comparator.GroupResult{{Link: "east", Group: "billing", Equal: 2, Partitions: []comparator.GroupDifference{
		{SourceTopic: "orders", Partition: 1, SourceOffset: ptr(int64(9)), Kind: comparator.Missing, Detail: "nothing is committed on the target"}}}},
		Configs: []comparator.ConfigDifference{{Link: "east", SourceTopic: "orders", TargetTopic: "orders", Key: "retention.ms", Source: ptr("604800000"), Target: ptr("1"), Expected: "-1"}},
		Topics: []comparator.TopicResult{
			{Link: "east", SourceTopic: "orders", TargetTopic: "orders", Partitions: []comparator.PartitionResult{equal, differs}, Differences: []string{"the source has 3 partitions, the target has 2 partitions"}},
			{Link: "east", SourceTopic: "payments", TargetTopic: "x.payments", Partitions: []comparator.PartitionResult{}, Error: "source: TOPIC_AUTHORIZATION_FAILED"},
		}}
}

func comparing(r comparator.Result, asked *CompareRequest) Parts {
	return Parts{Compare: func(_ context.Context, _ *config.Config, req CompareRequest) (comparator.Result, error) {
		*asked = req
		if req.Only != nil {
			var kept []comparator.TopicResult
			for _, t := range r.Topics {
				if req.Only(t.SourceTopic, t.TargetTopic) {
					kept = append(kept, t)
				}
			}
			r.Topics = kept
		}
		return r, nil
	}}
}

func TestCompare(t *testing.T) {
	var asked CompareRequest
	file := configFile(t, "", "east")
	r := execute(t.Context(), comparing(compared(), &asked), "compare", "-c", file)
	if r.code != 3 || r.err != "klink: compare: source and target differ in 196 places\n" {
		t.Errorf("%d %q", r.code, r.err)
	}
	golden(t, "testdata/compare.golden", r.out)
	r = execute(t.Context(), comparing(compared(), &asked), "compare", "-c", file, "orders", "--last", "24h", "--keys", "--no-digest", "--acls")
	if r.code != 3 || asked.Last != 24*time.Hour || !asked.Keys || !asked.NoDigest || !asked.ACLs {
		t.Errorf("%d %+v", r.code, asked)
	}
	golden(t, "testdata/compare-topic.golden", r.out)
	golden(t, "testdata/help-compare.golden", execute(t.Context(), Parts{}, "compare", "--help").out)
}

// In checkpoint mode what lies among the copies is shown.
func TestCompareInCheckpointMode(t *testing.T) {
	var asked CompareRequest
	r := compared()
	r.Topics[0].Mode = comparator.Checkpoint
	for i := range r.Topics[0].Partitions {
		p := &r.Topics[0].Partitions[i]
		p.Mode, p.Foreign, p.Duplicates = comparator.Checkpoint, new(int64(1_200)), new(int64(i))
	}
	r.Topics[1].Mode = comparator.Mirror
	out := execute(t.Context(), comparing(r, &asked), "compare", "-c", configFile(t, "", "east"), "*")
	golden(t, "testdata/compare-checkpoint.golden", out.out)
}

func TestCompareExitCodes(t *testing.T) {
	var asked CompareRequest
	file := configFile(t, "", "east")
	same := compared()
	same.Topics, same.Groups, same.Configs, same.Differences, same.Failed, same.Equal = same.Topics[:1], nil, nil, 0, 0, true
	if r := execute(t.Context(), comparing(same, &asked), "compare", "-c", file); r.code != 0 || r.err != "" {
		t.Errorf("equal: %+v", r)
	}
	same.Failed, same.Equal = 1, false
	if r := execute(t.Context(), comparing(same, &asked), "compare", "-c", file); r.code != 1 || !strings.Contains(r.err, "1 item could not be compared") {
		t.Errorf("failed: %+v", r)
	}
	for _, args := range [][]string{{"--last", "-1h"}, {"--last", "soon"}, {"-o", "yaml"}} {
		if r := execute(t.Context(), comparing(same, &asked), append([]string{"compare", "-c", file}, args...)...); r.code != 2 {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := execute(t.Context(), comparing(same, &asked), "compare", "-c", file, "nosuch"); r.code != 1 || !strings.Contains(r.err, `no topic "nosuch"`) {
		t.Errorf("unknown topic: %+v", r)
	}
}

// The report is the result once for programs and once for people.
func TestCompareReport(t *testing.T) {
	var asked CompareRequest
	dir := filepath.Join(t.TempDir(), "made", "here")
	r := execute(t.Context(), comparing(compared(), &asked), "compare", "-c", configFile(t, "", "east"), "--report", dir, "-o", "json")
	if r.code != 3 {
		t.Fatalf("%+v", r)
	}
	written, err := os.ReadFile(filepath.Join(dir, "compare.json"))
	if err != nil || string(written) != r.out {
		t.Errorf("%v: the file is not what was printed:\n%s", err, written)
	}
	var got struct {
		Command string `json:"_command"`
		Equal   bool   `json:"equal"`
		Topics  []struct {
			Partitions []struct {
				Digest   *string `json:"digest"`
				Findings []struct {
					Kind   string `json:"kind"`
					Offset int64  `json:"offset"`
				} `json:"findings"`
			} `json:"partitions"`
		} `json:"topics"`
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Command != "compare" || got.Equal || got.Topics[0].Partitions[1].Findings[0].Offset != 7 {
		t.Errorf("%v %+v", err, got)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "compare.html")); err != nil || !strings.Contains(string(page), "196 differences") {
		t.Errorf("%v", err)
	}
}

func TestCompareProgressLine(t *testing.T) {
	for want, p := range map[string]comparator.Progress{
		"[........................]   0%  0/1 partition  0 B":                       {AllPartitions: 1},
		"[############............]  50%  3/8 partitions  3.0 GiB  1m0s left":       {Done: 500, Total: 1000, Partitions: 3, AllPartitions: 8, Bytes: 3 << 30, Elapsed: time.Minute},
		"[########################] 100%  1000/1,000 partitions  3.0 GiB  <1s left": {Done: 5, Total: 5, Partitions: 1000, AllPartitions: 1000, Bytes: 3 << 30, Elapsed: time.Minute},
	} {
		if got := progressLine(p); got != want || len(got) > 80 {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
