package survey

import (
	"context"
	"errors"
	"time"

	"klink/fetcher/batch"
	"klink/linker/appender"
)

// Rates are what one partition of a target takes, one request after the other;
// null is not measured. More partitions together are at least as fast.
type Rates struct {
	// AppendBytes per second, of batches of 512 KiB that are not compressed.
	AppendBytes *float64 `json:"append_bytes_per_second"`
	// Markers per second, one in each request, as a mirror writes them: with a look
	// at the topic's id before each.
	Markers *float64 `json:"markers_per_second"`
	// MarkersBulk per second, many in each request.
	MarkersBulk *float64 `json:"markers_bulk_per_second"`
	// PadOffsets per second, of the batches that klink pads with.
	PadOffsets *float64 `json:"pad_offsets_per_second"`
}

// Bounds of what is written for a rate (S4).
const (
	mostAppendBytes = 64 << 20
	mostMarkers     = 20_000
	bulkMarkers     = 500
	mostPadOffsets  = 10_000_000
)

var errOffsets = errors.New("another number of offsets was taken than was sent")

// measure repeats once until the time is over or enough was done, and returns
// what it did per second; nil where nothing could be done.
func (p *prober) measure(ctx context.Context, most int64, once func(context.Context) (int64, error)) *float64 {
	begin := time.Now()
	var done int64
	for done < most && time.Since(begin) < p.o.MeasureFor && ctx.Err() == nil {
		n, err := once(ctx)
		if err != nil {
			break // what was done so far counts; what the error means shows in the facts
		}
		done += n
	}
	took := time.Since(begin).Seconds()
	if done == 0 || took <= 0 {
		return nil
	}
	rate := float64(done) / took
	return &rate
}

func (p *prober) measureAppends(ctx context.Context) {
	b := noiseBatch(appendBytes, time.Now())
	n := int32(appendBytes / noiseRecord)
	p.rates.AppendBytes = p.measure(ctx, mostAppendBytes, func(ctx context.Context) (int64, error) {
		return int64(len(b)), p.repeat(ctx, b, n)
	})
}

func (p *prober) measurePads(ctx context.Context) {
	b, err := batch.Pad(batch.MaxPadCount, batch.DefaultPadOptions())
	if err != nil {
		return
	}
	p.rates.PadOffsets = p.measure(ctx, mostPadOffsets, func(ctx context.Context) (int64, error) {
		return batch.MaxPadCount, p.repeat(ctx, b, batch.MaxPadCount)
	})
}

func (p *prober) repeat(ctx context.Context, b []byte, n int32) error {
	if r, _ := p.append(ctx, p.bulk, b, n); r.Outcome != appender.Appended {
		return r.Err
	}
	return nil
}

// measureMarkers writes them as a mirror does, with all that it looks at before
// each request.
func (p *prober) measureMarkers(ctx context.Context) {
	p.rates.Markers = p.measure(ctx, mostMarkers, func(ctx context.Context) (int64, error) { return 1, p.writeRun(ctx, 1) })
	p.syncEnd(ctx)
	p.rates.MarkersBulk = p.measure(ctx, mostMarkers, func(ctx context.Context) (int64, error) {
		err := p.writeRun(ctx, bulkMarkers)
		if err != nil {
			return 0, err
		}
		before := p.next
		if p.next, err = p.end(ctx); err == nil && p.next-before != bulkMarkers {
			err = errOffsets
		}
		return bulkMarkers, err
	})
}

// writeRun writes n markers in one request.
func (p *prober) writeRun(ctx context.Context, n int) error {
	r := p.o.Target.WriteMarkers(ctx, p.s.target, appender.Markers{CoordinatorEpochs: p.bulk.take(n), LeaderEpoch: appender.AnyLeader,
		Identity: batch.Identity{ProducerID: p.bulk.pid, ProducerEpoch: p.bulk.epoch}})
	return r.Err
}

// syncEnd takes the log end over after markers that were not counted one by one.
func (p *prober) syncEnd(ctx context.Context) {
	if end, err := p.end(ctx); err == nil {
		p.next = end
	}
}
