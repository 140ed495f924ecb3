package fetcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"klink/fetcher/feed"
)

// metrics are the instruments of one link's fetcher. Labels: link, broker and
// kind, all bounded; per-partition figures are the linker's.
type metrics struct {
	link     attribute.KeyValue
	requests metric.Int64Counter
	bytes    metric.Int64Counter
	seconds  metric.Float64Histogram
	throttle metric.Float64Counter
	faults   metric.Int64Counter
	recalled metric.Int64Counter
}

func newMetrics(m metric.Meter, link string) (*metrics, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	var errs [6]error
	x := &metrics{link: attribute.String("link", link)}
	x.requests, errs[0] = m.Int64Counter("klink.fetch.requests",
		metric.WithDescription("Fetch requests answered or failed."))
	x.bytes, errs[1] = m.Int64Counter("klink.fetch.bytes", metric.WithUnit("By"),
		metric.WithDescription("Record bytes in Fetch answers, cut tails included."))
	x.seconds, errs[2] = m.Float64Histogram("klink.fetch.duration", metric.WithUnit("s"),
		metric.WithDescription("From sending a Fetch that brought records to its answer."))
	x.throttle, errs[3] = m.Float64Counter("klink.fetch.throttle", metric.WithUnit("s"),
		metric.WithDescription("Pauses the source asked for by quota."))
	x.faults, errs[4] = m.Int64Counter("klink.fetch.faults",
		metric.WithDescription("Faults told to readers of partitions, by kind."))
	x.recalled, errs[5] = m.Int64Counter("klink.fetch.recalled", metric.WithUnit("By"),
		metric.WithDescription("Bytes dropped unreceived because memory was short; they are read again."))
	if err := errors.Join(errs[:]...); err != nil {
		return x, fmt.Errorf("make fetch instruments: %w", err)
	}
	return x, nil
}

func (x *metrics) broker(id int32) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(x.link, attribute.Int64("broker", int64(id))))
}

// answer counts one Fetch. Long polls that bring nothing measure our own
// patience and are left out of the latency.
func (x *metrics) answer(ctx context.Context, at metric.MeasurementOption, records int, took, throttle time.Duration) {
	x.requests.Add(ctx, 1, at)
	if records > 0 {
		x.bytes.Add(ctx, int64(records), at)
		x.seconds.Record(ctx, took.Seconds(), at)
	}
	if throttle > 0 {
		x.throttle.Add(ctx, throttle.Seconds(), at)
	}
}

func (x *metrics) fault(k feed.Kind) {
	x.faults.Add(context.Background(), 1, metric.WithAttributes(x.link, attribute.String("kind", k.String())))
}

func (x *metrics) recall(bytes int) {
	x.recalled.Add(context.Background(), int64(bytes), metric.WithAttributes(x.link))
}
