package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
)

// followWithin is how soon the target deletes what the source deleted.
const followWithin = slack * 5 * time.Second

// TestG1_LogStartFollows: what the source deletes, on request or by retention,
// is gone on the target within five seconds, also without traffic, and never
// more than that.
func TestG1_LogStartFollows(t *testing.T) {
	t.Parallel()
	// Retention is looked at often, and from the start on. Where a log starts is
	// written down once a minute, as by default.
	quick := map[string]string{"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
	p := startPair(t, lab.KafkaOptions{Props: quick}, lab.KafkaOptions{Props: quick})
	create(t, p.src, lab.TopicSpec{Name: "deleted", Partitions: 3, Configs: lab.KeepEverything()},
		lab.TopicSpec{Name: "retained", Configs: lab.KeepEverything()}, lab.TopicSpec{Name: "copied", Configs: lab.KeepEverything()})
	old := time.UnixMilli(1_000_000)
	load := lab.LoadOptions{Topics: []string{"deleted", "retained", "copied"}, Seed: 4, Total: 3_000, MaxBatch: 50, From: old, To: old}
	total := produce(t, p.src, load).Acked

	src, dst := p.src.Bootstrap()[0], p.dst.Bootstrap()[0]
	alone := openLink("alone", src, dst, "copied")
	alone["follow_start"] = false
	file := configFile(t, openLink("follow", src, dst, "deleted", "retained"), alone)
	k := startKlink(t, "-c", file)
	requireMirrored(t, p, total, load.Topics...)
	neverBeyond := p.watchStarts(t, load.Topics...)

	t.Run("on request", func(t *testing.T) { p.deleteOnRequest(t) })
	t.Run("by retention", func(t *testing.T) { p.deleteByRetention(t) })
	t.Run("under load", func(t *testing.T) { p.deleteUnderLoad(t) })
	t.Run("a trim comes undone", func(t *testing.T) { p.loseStarts(t) })

	k.stop(t)
	b := boundsOf(t, p.src, "deleted")
	deleteRecords(t, p.src, "deleted", map[int32]int64{2: b[2].End})
	k = startKlink(t, "-c", file)
	eventually(t, patience, "what was deleted meanwhile to go", func() bool { return boundsOf(t, p.dst, "deleted")[2].Start == b[2].End })
	neverBeyond()
	requireMirrored(t, p, 1, "deleted")
	k.requireSaidOnce(t)
	k.stop(t)
}

// deleteOnRequest: DeleteRecords is followed, where that is wanted.
func (p pair) deleteOnRequest(t *testing.T) {
	end := boundsOf(t, p.src, "deleted")
	deleteRecords(t, p.src, "copied", map[int32]int64{0: 5})
	p.deleteAndFollow(t, map[int32]int64{0: 5, 1: end[1].End})
	if b := boundsOf(t, p.dst, "deleted")[2]; b.Start != 0 {
		t.Errorf("an untouched partition starts at %d", b.Start)
	}
	if b := boundsOf(t, p.dst, "copied")[0]; b.Start != 0 {
		t.Errorf("without follow_start the target starts at %d", b.Start)
	}
}

// deleteAndFollow deletes on the source and requires the target to follow in
// time.
func (p pair) deleteAndFollow(t testing.TB, below map[int32]int64) {
	t.Helper()
	began := time.Now()
	deleteRecords(t, p.src, "deleted", below)
	eventually(t, followWithin, fmt.Sprintf("the target's starts to be %v", below), func() bool {
		b := boundsOf(t, p.dst, "deleted")
		for n, start := range below {
			if b[n].Start != start {
				return false
			}
		}
		return true
	})
	t.Logf("followed after %v", time.Since(began))
}

// deleteByRetention: the source's retention is followed; where it is copied, the
// target deletes by itself.
func (p pair) deleteByRetention(t *testing.T) {
	adm := admin(t, p.dst)
	for _, topic := range []string{"deleted", "retained", "copied"} {
		awaitConfigs(t, within(t, patience), adm, topic, map[string]string{"retention.ms": "-1"})
	}
	end := boundsOf(t, p.src, "retained")[0].End
	setConfig(t, p.src, "retained", "retention.ms", "1000")
	eventually(t, patience, "the source to delete what is old", func() bool { return boundsOf(t, p.src, "retained")[0].Start == end })
	eventually(t, followWithin, "the target to follow", func() bool { return boundsOf(t, p.dst, "retained")[0].Start == end })

	setConfig(t, p.src, "copied", "retention.ms", "1000")
	eventually(t, patience, "the target to delete by itself", func() bool { return boundsOf(t, p.dst, "copied")[0].Start > 0 })
	awaitConfigs(t, within(t, patience), adm, "copied", map[string]string{"retention.ms": "1000"})
	awaitConfigs(t, within(t, patience), adm, "retained", map[string]string{"retention.ms": "-1"})
}

// deleteUnderLoad deletes what is mirrored while more comes in.
func (p pair) deleteUnderLoad(t *testing.T) {
	running, err := lab.StartLoad(within(t, patience), p.src, lab.LoadOptions{Topics: []string{"deleted"}, Seed: 6, MaxBatch: 50, RecordsPerSecond: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mirrored := boundsOf(t, p.dst, "deleted")
		p.deleteAndFollow(t, map[int32]int64{0: mirrored[0].End, 1: mirrored[1].End})
	}
	running.Stop()
	requireMirrored(t, p, 1, "deleted")
}

// loseStarts: a broker that dies soon after a trim shows the deleted records
// again, and they are deleted again.
func (p pair) loseStarts(t *testing.T) {
	before := boundsOf(t, p.dst, "deleted")
	b := p.dst.Broker(1)
	if err := errors.Join(b.Kill(), b.Start(within(t, 2*patience))); err != nil {
		t.Fatal(err)
	}
	if after := boundsOf(t, p.dst, "deleted"); maps.Equal(after, before) {
		t.Log("the broker remembers where its logs start")
	}
	eventually(t, patience, "the starts to be put back", func() bool { return maps.Equal(boundsOf(t, p.dst, "deleted"), before) })
}

// boundsOf reads where the logs of a topic begin and end, by partition.
func boundsOf(t testing.TB, c lab.Cluster, topic string) map[int32]lab.Bounds {
	t.Helper()
	all, err := lab.ReadBounds(within(t, patience), c, lab.ReadUncommitted, topic)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[int32]lab.Bounds, len(all))
	for k, b := range all {
		out[k.Number] = b
	}
	return out
}

// deleteRecords moves the starts of a topic's partitions up.
func deleteRecords(t testing.TB, c lab.Cluster, topic string, below map[int32]int64) {
	t.Helper()
	os := make(kadm.Offsets)
	for n, at := range below {
		os.AddOffset(topic, n, at, -1)
	}
	rs, err := admin(t, c).DeleteRecords(within(t, patience), os)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// watchStarts compares the starts of both sides until the function is called,
// the target's first: a start that lies beyond the source's then was never
// allowed.
func (p pair) watchStarts(t testing.TB, topics ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	src, dst := admin(t, p.src), admin(t, p.dst)
	var wg sync.WaitGroup
	wg.Go(func() {
		looks := 0
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			d, derr := dst.ListStartOffsets(ctx, topics...)
			s, serr := src.ListStartOffsets(ctx, topics...)
			if errors.Join(derr, serr) != nil {
				continue // a broker is away
			}
			looks++
			d.Each(func(l kadm.ListedOffset) {
				if at, ok := s.Lookup(l.Topic, l.Partition); ok && errors.Join(l.Err, at.Err) == nil && l.Offset > at.Offset && l.Topic != "copied" {
					t.Errorf("%s/%d starts at %d on the target and at %d on the source", l.Topic, l.Partition, l.Offset, at.Offset)
				}
			})
		}
		t.Logf("compared %d times", looks)
	})
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}
