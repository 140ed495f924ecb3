package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"klink/cmd/config"
)

func newMetrics(t testing.TB) *Metrics {
	t.Helper()
	m, err := NewMetrics("v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func wantLine(t testing.TB, text, line string) {
	t.Helper()
	if !strings.Contains("\n"+text, "\n"+line) {
		t.Errorf("no line %q in\n%s", line, text)
	}
}

// The names that the exporter makes of ours, as doc.go says.
func TestNames(t *testing.T) {
	m := newMetrics(t)
	meter := m.Meter()
	attrs := metric.WithAttributes(attribute.String(KeyLink, "east"), attribute.String(KeyTopic, "orders"), attribute.Int(KeyPartition, 3))
	records, err := meter.Int64Counter("klink.records", metric.WithUnit("{record}"))
	if err != nil {
		t.Fatal(err)
	}
	records.Add(t.Context(), 5, attrs)
	size, err := meter.Int64Counter("klink.read", metric.WithUnit("By"))
	if err != nil {
		t.Fatal(err)
	}
	size.Add(t.Context(), 7, attrs)
	lag, err := meter.Float64Gauge("klink.lag", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	lag.Record(t.Context(), 1.5, attrs)
	took, err := meter.Float64Histogram("klink.fetch.duration", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	took.Record(t.Context(), 0.004, attrs)

	text := scrape(t, m)
	labels := `{link="east",partition="3",topic="orders"}`
	wantLine(t, text, "klink_records_total"+labels+" 5")
	wantLine(t, text, "klink_read_bytes_total"+labels+" 7")
	wantLine(t, text, "klink_lag_seconds"+labels+" 1.5")
	wantLine(t, text, `klink_fetch_duration_seconds_bucket{link="east",partition="3",topic="orders",le="0.005"} 1`)
	wantLine(t, text, `klink_build_info{go_version="`)
	wantLine(t, text, "klink_process_resident_memory_bytes ")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "klink_") {
			t.Errorf("a name that is not ours: %s", line)
		}
	}
}

// More series than the SDK's default limit stay apart (T1).
func TestManyPartitions(t *testing.T) {
	m := newMetrics(t)
	c, err := m.Meter().Int64Counter("klink.records")
	if err != nil {
		t.Fatal(err)
	}
	const partitions = 2500
	for p := range partitions {
		c.Add(t.Context(), 1, metric.WithAttributes(attribute.Int(KeyPartition, p)))
	}
	text := scrape(t, m)
	if got := strings.Count(text, "\nklink_records_total{"); got != partitions {
		t.Errorf("%d series, want %d", got, partitions)
	}
	if strings.Contains(text, "overflow") {
		t.Error("series were folded")
	}
}

// Two in one process share nothing (T2).
func TestTwoMetrics(t *testing.T) {
	a, b := newMetrics(t), newMetrics(t)
	c, err := a.Meter().Int64Counter("klink.only.in.a")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 1)
	if strings.Contains(scrape(t, b), "only_in_a") || !strings.Contains(scrape(t, a), "klink_only_in_a_total") {
		t.Error("metrics are shared")
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, config.Log{Level: config.LevelWarn, Format: config.FormatJSON})
	log.Info("not shown")
	log.Warn("shown", KeyLink, "east")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if line["msg"] != "shown" || line["link"] != "east" || line["level"] != "WARN" {
		t.Errorf("%v", line)
	}
	out.Reset()
	NewLogger(&out, config.Log{Level: config.LevelDebug, Format: config.FormatText}).Debug("here", KeyTopic, "orders")
	if !strings.Contains(out.String(), "level=DEBUG msg=here topic=orders") {
		t.Error(out.String())
	}
}
