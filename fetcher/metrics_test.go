package fetcher

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	inWorld(t, setup{topics: map[string]int32{"orders": 1}, change: func(o *Options) { o.Meter = meter }}, func(w *world) {
		if err := w.budget.Instrument(meter); err != nil {
			t.Fatal(err)
		}
		b := testBatch(10, 100)
		w.produce("orders", 0, b)
		st := w.f.Open(w.start("orders", 0))
		e, _ := w.event(st)
		got := collect(t, reader)
		if got["klink.fetch.budget.held"] != float64(len(b)) || got["klink.fetch.bytes"] != float64(len(b)) {
			t.Errorf("got %v for %d bytes", got, len(b))
		}
		e.Chunk.Release()
		w.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Err: kerr.TopicAuthorizationFailed})
		w.fault(st)
		w.c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			resp := r.(*kmsg.FetchRequest).ResponseKind().(*kmsg.FetchResponse)
			resp.ThrottleMillis = 1500
			return resp, nil, true
		})
		time.Sleep(3 * time.Second)
		got = collect(t, reader)
		if got["klink.fetch.faults"] != 1 || got["klink.fetch.throttle"] != 1.5 || got["klink.fetch.requests"] < 3 ||
			got["klink.fetch.duration"] != 1 || got["klink.fetch.budget.held"] != 0 || got["klink.fetch.budget.limit"] != DefaultBudget {
			t.Errorf("got %v", got)
		}
	})
}

// collect returns each instrument's sum; of a histogram, its count.
func collect(t testing.TB, r sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	labelled := func(name string, set attribute.Set) {
		if link, ok := set.Value("link"); !ok || link.AsString() != "test" {
			t.Errorf("%s has labels %v", name, set)
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					labelled(m.Name, p.Attributes)
					got[m.Name] += float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					labelled(m.Name, p.Attributes)
					got[m.Name] += p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					labelled(m.Name, p.Attributes)
					got[m.Name] += float64(p.Count)
				}
			case metricdata.Gauge[int64]:
				got[m.Name] += float64(d.DataPoints[0].Value)
			}
		}
	}
	return got
}
