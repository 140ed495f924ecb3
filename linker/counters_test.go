package linker

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// TestTally: batches are told to the instruments some at a time, the last one under
// way and those of a position that is given up at once, and none twice.
func TestTally(t *testing.T) {
	read := metric.NewManualReader()
	c, err := newCounters(metric.NewMeterProvider(metric.WithReader(read)).Meter(""), "l", func() state.Link { return state.Link{} })
	if err != nil {
		t.Fatal(err)
	}
	var (
		tally tally
		at    = feed.Partition{Topic: "t"}
		f     = flight{base: 10, end: 13, bytes: 100}
	)
	told := func(what string, batches int64) {
		t.Helper()
		for name, each := range map[string]int64{"klink.mirrored.batches": 1, "klink.mirrored.records": 3, "klink.mirrored.bytes": 100} {
			if got := sumOf(t, read, name); got != batches*each {
				t.Errorf("%s: %s is %d, want %d", what, name, got, batches*each)
			}
		}
	}
	for range tallyMost - 1 {
		c.appended(at, &tally, f, false, time.Millisecond)
	}
	told("a few of many", 0)
	c.appended(at, &tally, f, false, time.Millisecond)
	told("many", tallyMost)
	c.appended(at, &tally, f, true, time.Millisecond)
	told("the last under way", tallyMost+1)
	c.appended(at, &tally, f, false, time.Millisecond)
	c.tell(at, &tally)
	c.tell(at, &tally)
	told("given up", tallyMost+2)
}

// sumOf reads one counter; 0 where nothing was counted.
func sumOf(t testing.TB, read *metric.ManualReader, name string) (sum int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := read.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if points, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == name {
				for _, p := range points.DataPoints {
					sum += p.Value
				}
			}
		}
	}
	return sum
}
