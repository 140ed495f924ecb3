package labtest

import (
	"context"
	"testing"
	"time"

	"klink/cmd/lab"
)

// waitTime bounds the waits and comparisons of one test.
const waitTime = 3 * time.Minute

// RequireEqual fails the test unless both sides hold the same records at the
// same offsets and end alike, and at least atLeast records were read. It compares
// what is there now: see AwaitMirrored.
func RequireEqual(tb testing.TB, src, dst lab.Cluster, atLeast int64, topics ...string) lab.Comparison {
	tb.Helper()
	c := Compare(tb, src, dst, lab.CompareOptions{Topics: topics})
	if !c.Equal() || !c.SameEnds() {
		tb.Fatalf("source and target differ: %s", c)
	}
	// A comparison of nothing proves nothing.
	if c.Records() < max(1, atLeast) {
		tb.Fatalf("only %d records were compared, want at least %d", c.Records(), max(1, atLeast))
	}
	return c
}

// Compare is lab.CompareClusters, and fails the test if either side cannot be
// read.
func Compare(tb testing.TB, src, dst lab.Cluster, o lab.CompareOptions) lab.Comparison {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), waitTime)
	defer cancel()
	c, err := lab.CompareClusters(ctx, src, dst, o)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// AwaitMirrored waits until the target's logs end no earlier than the source's.
func AwaitMirrored(tb testing.TB, src, dst lab.Cluster, topics ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), waitTime)
	defer cancel()
	if err := lab.AwaitMirrored(ctx, src, dst, lab.CompareOptions{Topics: topics}); err != nil {
		tb.Fatal(err)
	}
}

// CreateTopics makes topics.
func CreateTopics(tb testing.TB, c lab.Cluster, specs ...lab.TopicSpec) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), waitTime)
	defer cancel()
	if err := lab.CreateTopics(ctx, c, specs...); err != nil {
		tb.Fatal(err)
	}
}

// StartLoad starts a load that ends with the test.
func StartLoad(tb testing.TB, c lab.Cluster, o lab.LoadOptions) *lab.Load {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), waitTime)
	defer cancel()
	l, err := lab.StartLoad(ctx, c, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Stop() })
	return l
}

// Produce runs a load to its Total and fails the test if any record failed.
func Produce(tb testing.TB, c lab.Cluster, o lab.LoadOptions) lab.LoadReport {
	tb.Helper()
	l := StartLoad(tb, c, o)
	ctx, cancel := context.WithTimeout(tb.Context(), waitTime)
	defer cancel()
	report, err := l.Wait(ctx)
	if err != nil || report.Failed > 0 {
		tb.Fatalf("load: %v; %d records failed, the first: %v", err, report.Failed, report.Err)
	}
	return report
}
