package main

import (
	"context"
	"fmt"
	"time"
)

// startPoll is finer than that of other runs, since seconds are measured.
const startPoll = 5 * time.Millisecond

// startup measures the time from the start of the process to the first record on
// the target, where the topic does not exist yet.
func (b *bench) startup(ctx context.Context, j job) (map[string]float64, error) {
	return b.during(j, func(m *mirror) (map[string]float64, error) {
		tick := time.NewTicker(startPoll)
		defer tick.Stop()
		for {
			records, err := b.pair.onTarget(ctx, j.workload)
			if err != nil {
				return nil, err
			}
			at := time.Since(m.started)
			if records > 0 {
				return map[string]float64{firstRecord: at.Seconds()}, nil
			}
			if at > firstRecordLimit {
				return nil, fmt.Errorf("%w for %s", errStalled, firstRecordLimit)
			}
			select {
			case <-tick.C:
			case <-m.Done():
				return nil, m.ended()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
}
