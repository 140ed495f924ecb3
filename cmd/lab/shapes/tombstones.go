package shapes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"klink/cmd/lab"
)

// Keyed writes a compacted topic of twelve keys, whose cleaner drops tombstones
// after retention. It needs BrokerProps.
func Keyed(ctx context.Context, c lab.Cluster, p Place, retention time.Duration) error {
	err := p.create(ctx, c, map[string]string{
		"cleanup.policy":            "compact",
		"min.cleanable.dirty.ratio": "0.01",
		"segment.ms":                fmt.Sprint(segmentAge.Milliseconds() / 2),
		"delete.retention.ms":       strconv.FormatInt(retention.Milliseconds(), 10),
	})
	if err != nil {
		return err
	}
	w := &cleaned{cluster: c, place: p, rng: p.rng(), now: baseTime.Add(72 * time.Hour)}
	for _, partition := range p.partitions() {
		if err := w.round(ctx, partition, noneBits, keyRange("key", 0, 11), valued); err != nil {
			return err
		}
		if err := w.feed(ctx, partition); err != nil {
			return err
		}
	}
	return nil
}

// Forget deletes half the keys of a topic that Keyed has written, and waits until
// the cleaner has dropped their tombstones: whoever did not read them meanwhile
// never learns that the keys are gone.
func Forget(ctx context.Context, c lab.Cluster, p Place) error {
	w := &cleaned{cluster: c, place: p, rng: p.rng(), now: baseTime.Add(96 * time.Hour)}
	for _, partition := range p.partitions() {
		before, err := Take(ctx, c, partition)
		if err != nil {
			return err
		}
		if err := w.round(ctx, partition, noneBits, keyRange("key", 0, 5), nil); err != nil {
			return err
		}
		tombstones := before.Bounds.End
		one := p
		one.Partitions = partition.Number + 1
		gone := func(now Census) bool { return now.Gone >= before.Gone+6 && now.Bounds.End > tombstones+6 }
		if err := one.awaitFed(ctx, c, "dropped its tombstones", gone, w.feed); err != nil {
			return err
		}
	}
	return nil
}
