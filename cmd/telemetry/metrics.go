package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// latencyBounds are the buckets of every histogram in seconds: from a request
// to a broker in the same room up to one that waits for its timeout.
var latencyBounds = []float64{.0005, .001, .002, .003, .005, .008, .012, .02, .035, .06, .1, .15, .2, .25, .5, 1, 2.5, 5, 10, 30}

// Metrics is where instruments are made and read.
type Metrics struct {
	provider *sdkmetric.MeterProvider
	registry *prometheus.Registry
}

// NewMetrics returns a Metrics with the instruments of the process itself:
// klink_build_info, klink_go_* and klink_process_*.
func NewMetrics(version string) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registry),
		otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo(),
	)
	if err != nil {
		return nil, fmt.Errorf("make the Prometheus exporter: %w", err)
	}
	prefixed := prometheus.WrapRegistererWithPrefix("klink_", registry)
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := prefixed.Register(c); err != nil {
			return nil, fmt.Errorf("register the process's own metrics: %w", err)
		}
	}
	m := &Metrics{registry: registry, provider: sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(exporter),
		sdkmetric.WithCardinalityLimit(0), // T1
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: latencyBounds}},
		)),
	)}
	info, err := m.Meter().Int64Gauge("klink.build.info", metric.WithDescription("Always 1; the labels tell the version."))
	if err != nil {
		return nil, fmt.Errorf("make klink.build.info: %w", err)
	}
	info.Record(context.Background(), 1, metric.WithAttributes(attribute.String(KeyVersion, version), attribute.String(KeyGo, runtime.Version())))
	return m, nil
}

// Meter returns the meter that every package makes its instruments from.
func (m *Metrics) Meter() metric.Meter { return m.provider.Meter("klink") }

// Handler serves the metrics in the formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Close ends the provider; instruments do nothing afterwards.
func (m *Metrics) Close() error {
	if err := m.provider.Shutdown(context.Background()); err != nil {
		return fmt.Errorf("end the meter provider: %w", err)
	}
	return nil
}
