package appender

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// classNotSent is the failure class of batches that never left.
const classNotSent = "not_sent"

// secondsBounds reach from a local append to the slow lane's deadline.
var secondsBounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20}

// metrics holds the package's instruments. An instrument that cannot be made
// counts nowhere: the data path does not depend on it.
type metrics struct {
	link     string
	requests metric.Int64Counter
	batches  metric.Int64Counter
	bytes    metric.Int64Counter
	failures metric.Int64Counter
	inFlight metric.Int64UpDownCounter
	throttle metric.Float64Counter
	seconds  metric.Float64Histogram

	mu      sync.Mutex // guards below
	classes map[string]metric.MeasurementOption
}

func newMetrics(m metric.Meter, link string) *metrics {
	t := &metrics{link: link, classes: make(map[string]metric.MeasurementOption)}
	var errs [7]error
	t.requests, errs[0] = m.Int64Counter("klink.produce.requests", metric.WithDescription("Produce requests sent to the target"))
	t.batches, errs[1] = m.Int64Counter("klink.produce.batches", metric.WithDescription("Record batches sent to the target"))
	t.bytes, errs[2] = m.Int64Counter("klink.produce.bytes", metric.WithUnit("By"), metric.WithDescription("Bytes of record batches sent to the target"))
	t.failures, errs[3] = m.Int64Counter("klink.produce.failures",
		metric.WithDescription("Batches that were not simply appended, by class: a protocol error's name, cut, deadline, not_sent, misplaced, duplicate"))
	t.inFlight, errs[4] = m.Int64UpDownCounter("klink.produce.in_flight", metric.WithUnit("By"), metric.WithDescription("Bytes of batches sent and not answered yet"))
	t.throttle, errs[5] = m.Float64Counter("klink.produce.throttle", metric.WithUnit("s"), metric.WithDescription("Time the target's quotas kept produce connections quiet"))
	t.seconds, errs[6] = m.Float64Histogram("klink.produce.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from sending a produce request to its answer"), metric.WithExplicitBucketBoundaries(secondsBounds...))
	for _, err := range errs {
		if err != nil {
			return newMetrics(noop.NewMeterProvider().Meter(""), link)
		}
	}
	return t
}

// failed counts one batch that was not simply appended.
func (t *metrics) failed(ctx context.Context, class string) {
	t.mu.Lock()
	o := t.classes[class]
	if o == nil {
		o = metric.WithAttributeSet(attribute.NewSet(attribute.String("link", t.link), attribute.String("class", class)))
		t.classes[class] = o
	}
	t.mu.Unlock()
	t.failures.Add(ctx, 1, o)
}

// brokerMetrics are the instruments with one broker's labels.
type brokerMetrics struct {
	*metrics
	adds    []metric.AddOption
	records []metric.RecordOption
}

func (t *metrics) broker(id int32) *brokerMetrics {
	labels := metric.WithAttributeSet(attribute.NewSet(
		attribute.String("link", t.link), attribute.String("broker", strconv.Itoa(int(id)))))
	return &brokerMetrics{t, []metric.AddOption{labels}, []metric.RecordOption{labels}}
}

func (t *brokerMetrics) sending(ctx context.Context, batches, bytes int) {
	t.requests.Add(ctx, 1, t.adds...)
	t.batches.Add(ctx, int64(batches), t.adds...)
	t.bytes.Add(ctx, int64(bytes), t.adds...)
	t.inFlight.Add(ctx, int64(bytes), t.adds...)
}

func (t *brokerMetrics) settled(ctx context.Context, bytes int, took time.Duration) {
	t.inFlight.Add(ctx, -int64(bytes), t.adds...)
	t.seconds.Record(ctx, took.Seconds(), t.records...)
}

func (t *brokerMetrics) throttled(ctx context.Context, d time.Duration) {
	if d > 0 {
		t.throttle.Add(ctx, d.Seconds(), t.adds...)
	}
}
