package appender

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("klink")
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, edit: func(o *Options) { o.Meter = meter }})
		defer r.stop()
		p := r.target("a", 0)
		bytes := int64(2 * len(dataBatch(5, testPID, 0, 0)))
		wantOutcome(t, r.append(p, 0, 5, 0), Appended, "")
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut})
		if res := r.append(p, 5, 5, 5); res.Outcome != Unknown {
			t.Fatalf("%+v", res)
		}

		var got metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		byName := make(map[string]metricdata.Aggregation)
		for _, m := range got.ScopeMetrics[0].Metrics {
			byName[m.Name] = m.Data
		}
		for name, want := range map[string]int64{"klink.produce.requests": 2, "klink.produce.batches": 2,
			"klink.produce.bytes": bytes, "klink.produce.in_flight": 0, "klink.produce.failures": 1} {
			sum, ok := byName[name].(metricdata.Sum[int64])
			if !ok || len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != want {
				t.Errorf("%s: %+v, want %d", name, byName[name], want)
				continue
			}
			if v, _ := sum.DataPoints[0].Attributes.Value("link"); v.AsString() != "test" {
				t.Errorf("%s: link %q", name, v.AsString())
			}
		}
		failures := byName["klink.produce.failures"].(metricdata.Sum[int64])
		if v, _ := failures.DataPoints[0].Attributes.Value(attribute.Key("class")); v.AsString() != "REQUEST_TIMED_OUT" {
			t.Errorf("class %q", v.AsString())
		}
		if h, ok := byName["klink.produce.duration"].(metricdata.Histogram[float64]); !ok || h.DataPoints[0].Count != 2 {
			t.Errorf("latency: %+v", byName["klink.produce.duration"])
		}
	})
}

func TestMarkerMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("klink")
		r := newRig(t, rigOptions{topics: map[string]int32{"a": 1}, edit: func(o *Options) { o.Meter = meter }})
		defer r.stop()
		p := r.target("a", 0)
		wantMarkers(t, r.mark(p, 0, 5), MarkersDone, "")
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.WriteTxnMarkers}, Err: kerr.RequestTimedOut, Topic: "a", Partitions: []int32{0}})
		if res := r.mark(p, 5, 1); res.Outcome != MarkersUnknown {
			t.Fatalf("%+v", res)
		}
		var got metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		for _, m := range got.ScopeMetrics[0].Metrics {
			want, ok := map[string]int64{"klink.markers.requests": 2, "klink.markers.sent": 6, "klink.markers.failures": 1}[m.Name]
			if !ok {
				continue
			}
			if sum, ok := m.Data.(metricdata.Sum[int64]); !ok || len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != want {
				t.Errorf("%s: %+v, want %d", m.Name, m.Data, want)
			}
		}
	})
}
