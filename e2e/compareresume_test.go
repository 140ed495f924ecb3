package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
	"klink/comparator"
)

const (
	resumedPartitions = 8
	resumedRecords    = 128
	resumedBytes      = 4 << 10
)

// compareResumed ends a comparison by SIGINT in the middle: the next one goes on from
// what is kept, reads less, and says what one in one go says.
func compareResumed(t *testing.T, p pair) {
	spec := lab.TopicSpec{Name: "r-plain", Partitions: resumedPartitions, Configs: lab.KeepEverything()}
	for _, c := range []lab.Cluster{p.src, p.dst} {
		create(t, c, spec)
		writeResumed(t, c, spec.Name)
	}
	l := openLink("resumed", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], spec.Name)
	whole, o := compare(t, "-c", configFile(t, l))
	if o.code != 0 || !whole.Equal {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.out, o.errOut)
	}
	l["limits"] = object{"bytes_per_second": "1MiB"} // 4 seconds for all
	kept := filepath.Join(t.TempDir(), "kept.json")
	args := []string{"-c", configFile(t, l), "--resume", kept}
	for wait := 1500 * time.Millisecond; !interrupted(t, wait, kept, args...); wait += time.Second {
		if wait > patience {
			t.Fatal("nothing was kept of a comparison")
		}
	}
	r, o := compare(t, args...)
	if o.code != 0 || !r.Equal || r.ResumedFrom == nil || r.Bytes >= whole.Bytes {
		t.Fatalf("exit code %d, %d of %d bytes read:\n%s%s", o.code, r.Bytes, whole.Bytes, o.out, o.errOut)
	}
	for i, part := range r.Topics[0].Partitions {
		if want := whole.Topics[0].Partitions[i]; *part.Digest != *want.Digest || part.RecordsCompared != want.RecordsCompared || part.From != want.From || part.To != want.To {
			t.Errorf("partition %d: %+v, in one go %+v", i, part, want)
		}
	}
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was kept is there after the end: %v", err)
	}
}

// interrupted starts a comparison, ends it a while later, and tells whether anything of
// it was kept.
func interrupted(t testing.TB, wait time.Duration, kept string, args ...string) bool {
	t.Helper()
	cmd := exec.CommandContext(within(t, patience), binary, append([]string{"compare"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(wait) // the moment is the test's input
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("the comparison had ended: %v", err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("a comparison that is ended: %v", err)
	}
	b, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	var left struct {
		Links map[string]comparator.Saved `json:"links"`
	}
	if err == nil {
		err = json.Unmarshal(b, &left)
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(left.Links["resumed"].Partitions) > 0
}

// writeResumed writes the same records to all partitions of a topic.
func writeResumed(t testing.TB, c lab.Cluster, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(append(c.AdminOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var recs []*kgo.Record
	for n := range int32(resumedPartitions) {
		dice := rand.New(rand.NewPCG(11, uint64(n)))
		for i := range resumedRecords {
			value := make([]byte, resumedBytes)
			for at := range value {
				value[at] = byte(dice.Uint32())
			}
			recs = append(recs, &kgo.Record{Topic: topic, Partition: n, Value: value, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))})
		}
	}
	if err := cl.ProduceSync(context.WithoutCancel(within(t, patience)), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
