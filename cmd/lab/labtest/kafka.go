package labtest

import (
	"context"
	"testing"
	"time"

	"klink/cmd/lab"
)

// startTime bounds a start, with the first install of a version on a busy
// machine.
const startTime = 3 * time.Minute

// logBytes is how much of each broker's log a failed test shows.
const logBytes = 6000

// StartKafka starts a real cluster that ends with the test. With -short, which
// make check uses under the race detector, the test is skipped.
func StartKafka(tb testing.TB, opts lab.KafkaOptions) *lab.Kafka {
	tb.Helper()
	if testing.Short() {
		tb.Skip("no real cluster in -short; make test runs this")
	}
	ctx, cancel := context.WithTimeout(tb.Context(), startTime)
	defer cancel()
	k, err := lab.StartKafka(ctx, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for _, b := range k.Brokers() {
				tb.Logf("end of the log of broker %d at %s:\n%s", b.ID(), b.Addr(), b.LogTail(logBytes))
			}
		}
		if err := k.Close(); err != nil {
			tb.Errorf("close the cluster: %v", err)
		}
	})
	return k
}
