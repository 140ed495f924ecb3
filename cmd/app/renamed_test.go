package app

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"klink/linker/state"
)

// change edits the file of a klink that was stopped.
func (k running) change(t testing.TB, old, now string) {
	t.Helper()
	text, err := os.ReadFile(k.file)
	if err == nil && !strings.Contains(string(text), old) {
		t.Fatalf("no %q in %s", old, text)
	}
	if err == nil {
		err = os.WriteFile(k.file, []byte(strings.Replace(string(text), old, now, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A topic whose name on the target was changed is refused, and the way that the hint
// names leads on; what was mirrored before stays.
func TestWayOnUnderAnotherName(t *testing.T) {
	src, dst := pairOfClusters(t)
	k := mirrorWith(t, src, dst, "")
	k.await(t, "orders", state.Active)
	k.stop()
	k.change(t, "payments]}", "payments], rename: {map: {orders: second}}}")
	k = mirrorFile(t, k.file)
	k.await(t, "orders", state.TargetUnavailable)
	got := k.ask(t, "status", "orders")
	if !strings.Contains(got.out, "while no klink runs, take it off the record with klink remove, and have klink repair --recreate mirror it under the new name") {
		t.Errorf("%+v", got)
	}
	k.stop()
	if got := k.ask(t, "remove", "orders", "--yes"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	k = mirrorFile(t, k.file)
	k.await(t, "orders", state.Removed)
	if got := k.ask(t, "repair", "--recreate", "orders", "--yes"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	k.await(t, "orders", state.Active)
	for _, topic := range []string{"orders", "second"} {
		if n := recordsOf(t, dst, topic); n != 50 {
			t.Errorf("%s has %d records", topic, n)
		}
	}
	k.stop()
}

// recordsOf counts the offsets of a topic's partitions.
func recordsOf(t testing.TB, c *kfake.Cluster, topic string) (n int64) {
	t.Helper()
	for p := range int32(2) {
		if i := c.PartitionInfo(topic, p); i != nil {
			n += i.HighWatermark
		}
	}
	return n
}
