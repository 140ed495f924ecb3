package appender

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// markerMetrics holds the instruments about markers; as with metrics, one that
// cannot be made counts nowhere.
type markerMetrics struct {
	link     string
	requests metric.Int64Counter
	sent     metric.Int64Counter
	failures metric.Int64Counter
	seconds  metric.Float64Histogram
}

// markerSecondsBounds reach from one local marker to DefaultMarkerTimeout.
var markerSecondsBounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 35}

func newMarkerMetrics(m metric.Meter, link string) *markerMetrics {
	t := &markerMetrics{link: link}
	var errs [4]error
	t.requests, errs[0] = m.Int64Counter("klink.markers.requests", metric.WithDescription("Requests with markers sent to the target"))
	t.sent, errs[1] = m.Int64Counter("klink.markers.sent", metric.WithDescription("Markers sent to the target"))
	t.failures, errs[2] = m.Int64Counter("klink.markers.failures",
		metric.WithDescription("Partitions' parts of such requests that were not simply done, by class: a protocol error's name, cut, deadline, given_up, not_sent, no_answer"))
	t.seconds, errs[3] = m.Float64Histogram("klink.markers.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from sending markers to their answer"), metric.WithExplicitBucketBoundaries(markerSecondsBounds...))
	for _, err := range errs {
		if err != nil {
			return newMarkerMetrics(noop.NewMeterProvider().Meter(""), link)
		}
	}
	return t
}

func (t *markerMetrics) failed(ctx context.Context, class string) {
	t.failures.Add(ctx, 1, metric.WithAttributes(attribute.String("link", t.link), attribute.String("class", class)))
}

// brokerMarkerMetrics are the instruments with one broker's labels.
type brokerMarkerMetrics struct {
	*markerMetrics
	labels metric.MeasurementOption
}

func (t *markerMetrics) broker(id int32) *brokerMarkerMetrics {
	return &brokerMarkerMetrics{t, metric.WithAttributeSet(attribute.NewSet(
		attribute.String("link", t.link), attribute.String("broker", strconv.Itoa(int(id)))))}
}

func (t *brokerMarkerMetrics) sending(ctx context.Context, markers int) {
	t.requests.Add(ctx, 1, t.labels)
	t.sent.Add(ctx, int64(markers), t.labels)
}

func (t *brokerMarkerMetrics) settled(ctx context.Context, took time.Duration) {
	t.seconds.Record(ctx, took.Seconds(), t.labels)
}
