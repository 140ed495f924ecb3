package comparator

import (
	"strings"
	"testing"
	"time"
)

// The page says what the result says, escapes what records hold, and fetches
// nothing from anywhere.
func TestPage(t *testing.T) {
	value, offset := "<script>x</script>", int64(7)
	r := Result{AsOf: time.Unix(1_700_000_000, 0), Topics: []TopicResult{{SourceTopic: "orders", TargetTopic: "x.orders", Differences: []string{"the source has 2 partitions, the target has 1 partitions"},
		Partitions: []PartitionResult{{Partition: 3, From: 0, To: 1_000_000, RecordsCompared: 999_999, SourceStart: new(int64), SourceEnd: ptr(1_000_000), TargetStart: new(int64), TargetEnd: ptr(900_000),
			Tally: Tally{Counts: map[Kind]int64{Changed: 1, End: 1}, Findings: []Finding{{Kind: Changed, Offset: 500_000, Records: 1, Detail: "value differs", Source: &Shown{Offset: 500_000, Value: &value}}}},
			Keys:  []KeyDifference{{Key: "k1", SourceOffset: &offset}}}}}},
		Groups:  []GroupResult{{Group: "billing", Equal: 3, Partitions: []GroupDifference{{SourceTopic: "orders", Kind: Missing, Detail: "nothing is committed on the target"}}}},
		Configs: []ConfigDifference{{TargetTopic: "x.orders", Key: "retention.ms", Expected: "-1"}}}
	r.Topics[0].Partitions = append(r.Topics[0].Partitions, PartitionResult{Partition: 4, Mode: Checkpoint, From: 100, To: 200, Foreign: new(int64(0)), Duplicates: new(int64(77)),
		SourceStart: new(int64), SourceEnd: ptr(200), TargetStart: ptr(5_000), TargetEnd: ptr(9_000)})
	r.sum()
	var b strings.Builder
	if err := WritePage(&b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"5 differences", "orders &rarr; x.orders", "partition 3", "0 to 1,000,000", `class="mark" x="500"`, `x="0" y="34" width="900"`, "partition 4, in checkpoint mode", `x="500" y="34" width="500"`, "<th>duplicates</th>", "<td>77</td>", "value differs", "&lt;script&gt;", "k1", "billing", "retention.ms", "null"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	for _, never := range []string{"<script", "http:", "https:", "src="} {
		if strings.Contains(page, never) {
			t.Errorf("%q is on the page", never)
		}
	}
}

func ptr(n int64) *int64 { return &n }
