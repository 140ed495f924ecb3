package linker

import (
	"context"
	"time"
)

const (
	// pruneEvery is how often the target's log start is looked at to shorten the map: the
	// map grows by a run at a time, and retention deletes whole segments.
	pruneEvery = 10 * time.Minute
	// pruneMargin are target offsets that are kept below the log start. A log may start
	// within a batch, of which a later scan sees the whole, and wants to know it; no batch
	// of a common limit holds as many records.
	pruneMargin = 1 << 20
)

// prune shortens the map by what the target's retention took. It goes by the start that
// was seen a look ago: a broker that dies within a minute of a deletion shows the deleted
// records again, and then copies must be known that were not to be seen before.
func (p *partition) prune(ctx context.Context) *stop {
	d := p.drift
	if time.Since(d.startAt) < pruneEvery {
		return nil
	}
	dst, s := p.dstBounds(ctx)
	if s != nil {
		return s
	}
	p.shown.sawTarget(dst.LogStart, dst.LogEnd, dst.SeenAt)
	taken := d.copies.prune(min(d.start, dst.LogStart) - pruneMargin)
	d.start, d.startAt = dst.LogStart, time.Now()
	if taken == 0 {
		return nil
	}
	p.log.Debug("what retention took is off the map", "runs", taken)
	if err := p.putMap(ctx); err != nil {
		return p.unmapped(err)
	}
	return nil
}
