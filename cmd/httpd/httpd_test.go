package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"klink/linker/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// healthy is a report with nothing to complain about.
func healthy() state.Report {
	return state.Report{AsOf: now, Links: []state.Link{{
		Name: "east", Mode: "mirror", State: state.Active,
		Topics: []state.Topic{{SourceTopic: "orders", TargetTopic: "orders", State: state.Active, Partitions: []state.Partition{
			{Partition: 0, State: state.Active, LagRecords: ptr(int64(0)), LagSeconds: ptr(0.0), TargetEnd: ptr(int64(5)), AsOf: state.Seen{Time: now}},
			{Partition: 1, State: state.Halted, Reason: "DIVERGED", Detail: "at offset 7", Hint: "compare both logs", AsOf: state.Seen{Time: now}},
		}}},
	}}}
}

func handler(report state.Report) http.Handler {
	return Handler(Options{Version: "v1", Report: func() state.Report { return report },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "klink_x 1\n") })})
}

func get(t testing.TB, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestStatus(t *testing.T) {
	code, body := get(t, handler(healthy()), "/v1/status")
	var got struct {
		Command string    `json:"_command"`
		Version int       `json:"_version"`
		AsOf    time.Time `json:"as_of"`
		Links   []struct {
			Topics []struct{ Partitions []map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 {
		t.Fatalf("%d, %v: %s", code, err, body)
	}
	p := got.Links[0].Topics[0].Partitions[1]
	if got.Command != "status" || got.Version != 1 || !got.AsOf.Equal(now) || p["lag_records"] != nil || p["reason"] != "DIVERGED" {
		t.Error(body)
	}
}

// A halted partition is seen well; readiness is about what klink cannot see (W2).
func TestReady(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.Report)
		want   string
	}{
		{"all seen", func(*state.Report) {}, ""},
		{"no link", func(r *state.Report) { r.Links = nil }, "no link has started yet"},
		{"link pending", func(r *state.Report) { r.Links[0].State = state.Pending }, "link east: has not read its state yet"},
		{"link failed", func(r *state.Report) {
			l := &r.Links[0]
			l.State, l.Reason, l.Detail = state.Failed, "AUTHENTICATION", "s:9092: the login is refused"
		}, "link east: FAILED (AUTHENTICATION: s:9092: the login is refused)"},
		{"link paused", func(r *state.Report) {
			r.Links[0].State = state.Paused
			topic := &r.Links[0].Topics[0]
			topic.Partitions, topic.State = nil, state.Paused
		}, ""},
		{"source away", func(r *state.Report) {
			p := &r.Links[0].Topics[0].Partitions[0]
			p.State, p.Reason = state.SourceUnavailable, "UNREACHABLE"
		}, "link east: orders/0: SOURCE_UNAVAILABLE (UNREACHABLE)"},
		{"not looked at", func(r *state.Report) {
			p := &r.Links[0].Topics[0].Partitions[0]
			p.State, p.TargetEnd = state.Pending, nil
		}, "link east: orders/0: not looked at yet"},
		{"not even its partitions", func(r *state.Report) {
			topic := &r.Links[0].Topics[0]
			topic.Partitions, topic.State, topic.Reason, topic.Detail = nil, state.SourceUnavailable, "NO_PERMISSION", "missing right"
		}, "link east: orders: SOURCE_UNAVAILABLE (NO_PERMISSION: missing right)"},
		{"not there yet", func(r *state.Report) {
			topic := &r.Links[0].Topics[0]
			topic.Partitions, topic.State, topic.Reason = nil, state.Pending, "TOPIC_MISSING"
		}, ""},
		{"retrying", func(r *state.Report) { r.Links[0].Topics[0].Partitions[0].State = state.Pending }, ""},
		{"another process's", func(r *state.Report) {
			r.Links[0].Worker = "here"
			p := &r.Links[0].Topics[0].Partitions[0]
			p.Worker, p.AsOf = "there", state.Seen{Time: now.Add(-90 * time.Second)}
		}, ""},
		{"stale", func(r *state.Report) {
			r.Links[0].Topics[0].Partitions[0].AsOf = state.Seen{Time: now.Add(-90 * time.Second)}
		}, "link east: orders/0: no news for 1m30s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := healthy()
			c.change(&r)
			code, body := get(t, handler(r), "/readyz")
			want, wantCode := c.want, http.StatusServiceUnavailable
			if want == "" {
				want, wantCode = "ok", http.StatusOK
			}
			if code != wantCode || strings.TrimSpace(body) != want {
				t.Errorf("%d %q, want %d %q", code, body, wantCode, want)
			}
		})
	}
}

func TestReadyIsBounded(t *testing.T) {
	r := healthy()
	p := state.Partition{State: state.TargetUnavailable, Reason: "NO_LEADER"}
	for range 1000 {
		r.Links[0].Topics[0].Partitions = append(r.Links[0].Topics[0].Partitions, p)
	}
	_, body := get(t, handler(r), "/readyz")
	if n := strings.Count(body, "\n"); n != maxReasons+1 || !strings.Contains(body, "and 980 more") {
		t.Errorf("%d lines:\n%s", n, body)
	}
}

// A stuck daemon is neither healthy nor ready, and many requests leave one
// goroutine waiting (W3).
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		h := Handler(Options{Metrics: http.NotFoundHandler(), Report: func() state.Report { asked.Add(1); <-release; return healthy() }})
		for _, path := range []string{"/healthz", "/readyz", "/v1/status", "/healthz"} {
			if code, body := get(t, h, path); code != http.StatusServiceUnavailable || !strings.Contains(body, "stuck") {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		if code, body := get(t, h, "/"); code != http.StatusOK || !strings.Contains(body, "stuck") {
			t.Errorf("page: %d %s", code, body)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(release)
		synctest.Wait()
		if code, _ := get(t, h, "/healthz"); code != http.StatusOK {
			t.Errorf("after it went on: %d", code)
		}
	})
}

func TestHealthAsksTheLoops(t *testing.T) {
	stuck := errors.New("link east: the partition loop has not turned for 31s")
	var alive error
	h := Handler(Options{Report: healthy, Metrics: http.NotFoundHandler(), Alive: func() error { return alive }})
	if code, _ := get(t, h, "/healthz"); code != http.StatusOK {
		t.Errorf("alive: %d", code)
	}
	alive = stuck
	if code, body := get(t, h, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, stuck.Error()) {
		t.Errorf("stuck: %d %s", code, body)
	}
}

func TestPage(t *testing.T) {
	r := healthy()
	r.Links[0].Topics[0].Partitions[1].Detail = "<script>alert(1)</script>"
	code, body := get(t, handler(r), "/")
	for _, want := range []string{"orders", "ACTIVE", "DIVERGED", "compare both logs", `http-equiv="refresh"`, "&lt;script&gt;", "2026-01-31T12:00:00Z", "sees everything"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	for _, never := range []string{"<script", "src=", "http://", "https://", "@import"} {
		if strings.Contains(body, never) {
			t.Errorf("%q in\n%s", never, body)
		}
	}
	if code != 200 {
		t.Errorf("status %d", code)
	}
}

// TestPageShowsGroupsAndWarnings: what a switch depends on beside the records.
func TestPageShowsGroupsAndWarnings(t *testing.T) {
	r := healthy()
	l := &r.Links[0]
	l.Groups = []state.Group{{Group: "billing", State: "SYNCING", Partitions: []state.GroupPartition{
		{SourceTopic: "orders", AgeSeconds: ptr(0.2)}, {SourceTopic: "orders", Partition: 1, Reason: "CLAMPED", AgeSeconds: ptr(7.0)}}}}
	l.Warnings = []state.Warning{{Right: "Write on topic __klink", Known: true, Detail: "a stop cannot be put on record", Hint: "grant it"},
		{Right: "Read on group x", Detail: "its offsets cannot be carried over"}}
	l.Checkpoints = &state.Checkpoints{Topic: "a.checkpoints.internal", Writing: true, Checkpoints: ptr(int64(12)),
		WrittenAt: state.Seen{Time: time.Unix(1700000000, 0)}, Waiting: []state.CheckpointsWaiting{{Reason: "UNMAPPED", Offsets: 2}},
		Troubles: []state.CheckpointsTrouble{{Topic: "heartbeats", Reason: "NO_PERMISSION", Detail: "may not", Hint: "grant it"}}}
	_, body := get(t, handler(r), "/")
	for _, want := range []string{"checkpoints: 12 in a.checkpoints.internal, last written 2023-11-14T22:13:20Z, 2 without (UNMAPPED)",
		"heartbeats: NO_PERMISSION: may not", `<td>billing<td>SYNCING<td class="n">2<td class="n">1<td class="n">7.0<td>CLAMPED`,
		"missing right: Write on topic __klink: a stop cannot be put on record", "grant it", "does not tell of: Read on group x"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in:\n%s", want, body)
		}
	}
}

func TestReadOnly(t *testing.T) {
	h := handler(healthy())
	for _, path := range []string{"/", "/v1/status", "/metrics", "/healthz", "/readyz"} {
		for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "PATCH": 405, "OPTIONS": 405} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != want {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if code, _ := get(t, h, "/v2"); code != http.StatusNotFound {
		t.Errorf("/v2: %d", code)
	}
}

func TestServer(t *testing.T) {
	s, err := New(Options{Listen: "127.0.0.1:0", Report: healthy, Metrics: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.Addr() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}

	_, err = New(Options{Listen: s.Addr(), Metrics: http.NotFoundHandler()})
	var le *ListenError
	if !errors.As(err, &le) || !strings.Contains(err.Error(), "address already in use; choose another") {
		t.Errorf("a taken address: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if l, err := net.Listen("tcp", s.Addr()); err != nil {
		t.Errorf("the address is still taken: %v", err)
	} else {
		l.Close()
	}
}
