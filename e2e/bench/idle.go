package main

import (
	"context"
	"fmt"
	"time"

	"klink/cmd/lab"
)

// idle measures what a mirror costs that has mirrored everything.
func (b *bench) idle(ctx context.Context, j job, held loaded) (map[string]float64, error) {
	if err := lab.CreateTopics(ctx, b.pair.dst, j.workload.spec()); err != nil {
		return nil, err
	}
	return b.during(j, func(m *mirror) (map[string]float64, error) {
		if err := b.awaitAll(ctx, m, j.workload, held.offsets); err != nil {
			return nil, err
		}
		warm := idleWarm
		if isMM2(j.system) {
			warm = mm2LatencyWarm
		}
		if err := pause(ctx, m, warm.seconds(b.opts.long)); err != nil {
			return nil, err
		}
		return b.coresDuring(ctx, m, idleMeasured.seconds(b.opts.long))
	})
}

// awaitAll waits until the target holds all.
func (b *bench) awaitAll(ctx context.Context, m *mirror, w workload, want int64) error {
	begun := time.Now()
	for {
		records, err := b.pair.onTarget(ctx, w)
		if err != nil || records >= want {
			return err
		}
		if time.Since(begun) > firstRecordLimit+stallLimit {
			return fmt.Errorf("%w: %d of %d offsets are there", errStalled, records, want)
		}
		if err := pause(ctx, m, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// coresDuring measures processor time for so long, in cores.
func (b *bench) coresDuring(ctx context.Context, m *mirror, length time.Duration) (map[string]float64, error) {
	begun := time.Now()
	before, err := measureUsage(m, b.pair)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, m, length); err != nil {
		return nil, err
	}
	after, err := measureUsage(m, b.pair)
	if err != nil {
		return nil, err
	}
	used, took := after.minus(before), time.Since(begun).Seconds()
	return map[string]float64{
		mirrorCores:     ratio(used.mirror.Seconds(), took),
		brokersCores:    ratio((used.src + used.dst).Seconds(), took),
		othersCores:     ratio(used.others().Seconds(), took),
		measuredSeconds: took,
	}, nil
}
