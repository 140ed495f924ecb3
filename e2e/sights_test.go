package e2e

import (
	"testing"
	"time"

	"klink/cmd/lab"
	"klink/linker/control"
	"klink/linker/state"
)

// unseenSinceTheKill: nothing happens at the source, and klink dies by kill -9. What
// forecast and status then call unseen is counted from when klink last looked, and not
// from when anything last changed.
func unseenSinceTheKill(t *testing.T, p pair) {
	n := fill(t, p.src, 61, 500, lab.TopicSpec{Name: "idle", Partitions: 3})
	file := configFile(t, openLink("idle-link", p.src.Bootstrap()[0], p.dst.Bootstrap()[0], "idle"))
	k := startKlink(t, "-c", file)
	requireMirrored(t, p, n, "idle")
	k.awaitTopic(t, "idle", state.Active, "")
	quiet := time.Now()
	cl := controlClient(t, p.dst)
	seen := func() time.Time {
		v, err := control.Read(within(t, patience), cl)
		if err != nil {
			t.Fatal(err)
		}
		return oldest(v.States("idle-link"))
	}
	var last time.Time
	waitFor(t, "the idle source to be seen again, by the record", func() bool {
		time.Sleep(200 * time.Millisecond) // each look reads the whole record
		last = seen()
		return last.After(quiet.Add(6 * time.Second))
	})
	k.kill(t)
	killed := time.Now()

	r := switchover(t, 0, "forecast", "-c", file)
	if r.RecordsLost == nil || *r.RecordsLost != 0 || r.UnseenSeconds == nil || *r.UnseenSeconds > time.Since(last).Seconds() {
		t.Errorf("seen at %s, killed at %s, as of %s: %+v", last, killed, r.AsOf, r)
	}
	for _, part := range r.topic("idle").Partitions {
		if at := part.SourceEndAsOf; at.Before(last) || at.After(killed) {
			t.Errorf("partition %d as of %s, seen at %s and killed at %s", part.Partition, at, last, killed)
		}
	}
	t.Logf("unseen for %.1f s, %s after the kill and %s after the last change", *r.UnseenSeconds, r.AsOf.Sub(killed), r.AsOf.Sub(quiet))
	shown, _ := statusOf(t, "-c", file, "--http", "127.0.0.1:1")
	if shown.AsOf.Before(last) || shown.AsOf.After(killed) {
		t.Errorf("status as of %s, seen at %s and killed at %s", shown.AsOf, last, killed)
	}
}

// oldest is when the partition was seen that was not seen for longest.
func oldest(states []control.StateRecord) (at time.Time) {
	for _, s := range states {
		for _, p := range s.Topic.Partitions {
			if at.IsZero() || p.AsOf.Before(at) {
				at = p.AsOf.Time
			}
		}
	}
	return at
}
