package commits

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCaptured reads logs of real brokers from their beginning: testdata/captured
// holds, per version, the partitions of __consumer_offsets as a Fetch gave them
// and in "offsets" what the coordinator itself answered to OffsetFetch in the end.
// They hold classic and KIP-848 members, an administrator's commits, deletions of
// offsets, groups and a topic, and transactions that were committed, aborted,
// overtaken, taken by a deletion and left open, by the protocols of before and
// since KIP-890.
func TestCaptured(t *testing.T) {
	dirs, err := filepath.Glob("testdata/captured/*")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("%d versions: %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(dir, "offsets"))
			if err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.batches"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no logs: %v", err)
			}
			offsets := make(map[string]string)
			for _, f := range files {
				for _, e := range readCaptured(t, f) {
					k := fmt.Sprintf("%s/%s/%d", e.Group, e.Topic, e.Partition)
					offsets[k] = fmt.Sprintf("%s=%d %q", k, e.Offset, e.Metadata)
					if e.Offset == Deleted {
						delete(offsets, k)
					}
				}
			}
			got := slices.Sorted(maps.Values(offsets))
			if d := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), got); d != "" {
				t.Errorf("not what the coordinator says (-want +got):\n%s", d)
			}
		})
	}
}

// readCaptured reads one file entry by entry, as if each came in an answer of its
// own, so that no event hides another.
func readCaptured(t *testing.T, file string) (all []Event) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l := newPartitionLog(0, ends{}, wanted{})
	for len(raw) > 0 {
		size := 12 + int(raw[8])<<24 + int(raw[9])<<16 + int(raw[10])<<8 + int(raw[11])
		gap, err := l.read(raw[:size], 0, 0)
		if gap || err != nil {
			t.Fatalf("%s at %d: gap %v, %v", file, l.next, gap, err)
		}
		all = append(all, l.take(0)...)
		raw = raw[size:]
	}
	if l.unknown > 0 {
		t.Errorf("%s: %d records not understood", file, l.unknown)
	}
	if !slices.IsSortedFunc(all, func(a, b Event) int { return int(a.Source.Offset - b.Source.Offset) }) {
		t.Errorf("%s: events out of order", file)
	}
	return all
}
