package topics

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTraits(t *testing.T) {
	week, day := 7*24*time.Hour, 24*time.Hour
	for name, c := range map[string]struct {
		have Settings
		want Traits
	}{
		"not visible":  {nil, Traits{}},
		"nothing told": {Settings{}, Traits{Known: true, Deletes: true, TombstonesFor: day, Retention: week, RetentionBytes: -1}},
		"all told": {explicit(keyCleanup, "compact", keyTombstones, "1000", keyRetainMs, "-1", keyRetainSize, "4096", keyTimestamps, "LogAppendTime"),
			Traits{Known: true, Compacts: true, TombstonesFor: time.Second, Retention: -1, RetentionBytes: 4096, AppendTime: true}},
		"both":          {inherited(Settings{}, keyCleanup, "delete, compact", keyRetainMs, "0"), Traits{Known: true, Compacts: true, Deletes: true, TombstonesFor: day, RetentionBytes: -1}},
		"neither":       {explicit(keyCleanup, ""), Traits{Known: true, TombstonesFor: day, Retention: week, RetentionBytes: -1}},
		"as good as no": {explicit(keyRetainMs, unlimited, keyTombstones, unlimited), Traits{Known: true, Deletes: true, TombstonesFor: math.MaxInt64, Retention: math.MaxInt64, RetentionBytes: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, c.have.Traits()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOnRecord(t *testing.T) {
	have := inherited(explicit(keyCleanup, "compact", "segment.ms", "5", keyCompress, "zstd"), keyRetainMs, "9", keyTombstones, "8", "preallocate", "false")
	want := inherited(explicit(keyCleanup, "compact", keyCompress, "zstd"), keyRetainMs, "9", keyTombstones, "8")
	if d := cmp.Diff(want, have.OnRecord()); d != "" {
		t.Error(d)
	}
	if Settings(nil).OnRecord() != nil {
		t.Error("what was not seen is something")
	}
}
