package linker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"klink/linker/control"
	"klink/linker/state"
)

// found is a comparison as of now, with findings at offsets.
func found(r AuditRequest, offsets ...int64) state.AuditPass {
	p := state.AuditPass{Began: time.Now(), Ended: time.Now(), To: r.End, Records: r.End, Findings: int64(len(offsets)), First: []state.AuditFinding{}}
	for _, o := range offsets {
		p.First = append(p.First, state.AuditFinding{Kind: "changed", Offset: o, Detail: "the records differ"})
	}
	return p
}

// audited makes a link with an audit over the world; what it logs goes to log.
func (w *world) auditing(t *testing.T, a Audit, log *bytes.Buffer) *Link {
	t.Helper()
	l := w.link(t, "w")
	l.o.Audit = a
	l.log = slog.New(slog.NewTextHandler(log, nil))
	var err error
	if l.auditCount, err = newAuditCounters(noop.NewMeterProvider().Meter(""), "l", l.own); err != nil {
		t.Fatal(err)
	}
	return l
}

// auditOf waits in virtual time and returns a partition's part of the report.
func auditOf(t *testing.T, l *Link, d time.Duration, topic string, partition int) state.Partition {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	for _, r := range l.Report().Topics {
		if r.SourceTopic == topic {
			return r.Partitions[partition]
		}
	}
	t.Fatalf("no topic %s", topic)
	return state.Partition{}
}

// What is mirrored is compared up to there, again and again and not without end,
// and shown with its age.
func TestAuditGoesRound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a := newWorld(), &memAudit{}
		w.add("a", 1, 2)
		l := w.auditing(t, a, new(bytes.Buffer))
		end := w.start(t, l)
		p := auditOf(t, l, 10*time.Second, "a", 1)
		asked := a.requests()
		if len(asked) != 2 || asked[0].End != 10 || asked[0].Src.Topic != "a" || asked[0].SrcID[0] != 1 || asked[0].DstID[0] != w.targets["a"][0] {
			t.Errorf("asked %+v", asked)
		}
		if p.Audit == nil || p.Audit.Last.To != 10 || p.Audit.Clean == nil || *p.Audit.CleanAgeSeconds < 5 || len(p.Flags) != 0 {
			t.Errorf("%+v of %+v", p.Audit, p)
		}
		time.Sleep(time.Hour)
		if n := len(a.requests()); n < 100 || n > 2*62 {
			t.Errorf("%d comparisons of 2 partitions in an hour", n)
		}
		// Of what is as it was the record is renewed at times.
		if n := w.auditPuts(); n < 20 || n > 28 {
			t.Errorf("%d results recorded in an hour", n)
		}
		end()
	})
}

// A finding is told once, as an error, and shown while it stands.
func TestAuditTellsAFindingOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a, log := newWorld(), &memAudit{}, new(bytes.Buffer)
		w.add("a", 1, 1)
		l := w.auditing(t, a, log)
		end := w.start(t, l)
		auditOf(t, l, 10*time.Second, "a", 0)
		at := func(offsets ...int64) {
			a.finds(func(_ context.Context, r AuditRequest) (state.AuditPass, error) { return found(r, offsets...), nil })
		}
		at(3)
		p := auditOf(t, l, 10*time.Minute, "a", 0)
		if !slices.Equal(p.Flags, []string{state.Differs}) || p.Audit.Last.Findings != 1 || *p.Audit.CleanAgeSeconds < 500 {
			t.Errorf("%+v %+v", p.Flags, p.Audit)
		}
		errorsTold := func() int { return strings.Count(log.String(), "level=ERROR") }
		if n := errorsTold(); n != 1 || !strings.Contains(log.String(), "offset=3") || !strings.Contains(log.String(), "klink compare a") {
			t.Errorf("told %d times:\n%s", n, log)
		}
		at(3, 7)
		auditOf(t, l, 10*time.Minute, "a", 0)
		if n := errorsTold(); n != 2 || !strings.Contains(log.String(), "offset=7") {
			t.Errorf("told %d times:\n%s", n, log)
		}
		end()

		// Nor again by the next process, which goes by the record.
		log.Reset()
		l = w.auditing(t, a, log)
		end = w.start(t, l)
		p = auditOf(t, l, 10*time.Minute, "a", 0)
		if errorsTold() != 0 || !slices.Equal(p.Flags, []string{state.Differs}) {
			t.Errorf("%+v:\n%s", p, log)
		}
		a.finds(nil)
		p = auditOf(t, l, 2*time.Minute, "a", 0)
		if len(p.Flags) != 0 || !strings.Contains(log.String(), "no difference any more") {
			t.Errorf("%+v:\n%s", p, log)
		}
		end()
	})
}

// A comparison that comes to no end says nothing of the records, and one of a
// partition that is not mirrored any more is given up.
func TestAuditThatDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a, log := newWorld(), &memAudit{}, new(bytes.Buffer)
		w.add("a", 1, 1)
		l := w.auditing(t, a, log)
		end := w.start(t, l)
		clean := auditOf(t, l, 10*time.Second, "a", 0).Audit
		a.finds(func(context.Context, AuditRequest) (state.AuditPass, error) {
			return state.AuditPass{}, errors.New("no answer")
		})
		p := auditOf(t, l, 10*time.Minute, "a", 0)
		if p.Audit.Error != "no answer" || !p.Audit.Last.Ended.Equal(clean.Last.Ended) || strings.Count(log.String(), "no answer") != 1 {
			t.Errorf("%+v:\n%s", p.Audit, log)
		}
		given := make(chan time.Time, 1)
		a.finds(func(ctx context.Context, r AuditRequest) (state.AuditPass, error) {
			<-ctx.Done()
			given <- time.Now()
			return found(r, 5), ctx.Err()
		})
		time.Sleep(2 * time.Minute)
		w.mu.Lock()
		delete(w.targets, "a") // the partition halts
		w.mu.Unlock()
		halted := time.Now()
		at := <-given
		if at.Sub(halted) > 30*time.Second {
			t.Errorf("given up after %s", at.Sub(halted))
		}
		p = auditOf(t, l, 10*time.Minute, "a", 0)
		if p.State != state.Halted || len(p.Flags) != 0 || len(given) != 0 {
			t.Errorf("%+v", p)
		}
		end()
	})
}

// What cannot be put on record is shown all the same, and written later.
func TestAuditThatCannotBeRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a := newWorld(), &memAudit{}
		w.add("a", 1, 1)
		w.refused = errors.New("no")
		a.finds(func(_ context.Context, r AuditRequest) (state.AuditPass, error) { return found(r, 3), nil })
		l := w.auditing(t, a, new(bytes.Buffer))
		end := w.start(t, l)
		if p := auditOf(t, l, 10*time.Second, "a", 0); p.Audit == nil || len(p.Flags) != 1 {
			t.Errorf("%+v", p)
		}
		w.auditMu.Lock()
		w.refused = nil
		w.auditMu.Unlock()
		time.Sleep(2 * auditRest)
		if r, ok := w.Audit("l", "a", 0); !ok || r.Last.Findings != 1 {
			t.Errorf("%+v %t", r, ok)
		}
		end()
	})
}

// What klink compare recorded since the last audit is what is shown, and what the
// next one goes by.
func TestAuditGoesByWhatIsOnRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, a, log := newWorld(), &memAudit{}, new(bytes.Buffer)
		w.add("a", 1, 1)
		l := w.auditing(t, a, log)
		end := w.start(t, l)
		auditOf(t, l, 10*time.Second, "a", 0)
		r, ok := w.Audit("l", "a", 0)
		if !ok {
			t.Fatal("nothing is on record")
		}
		r.Take(found(AuditRequest{End: 10}, 3))
		if err := w.PutAudit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if p := auditOf(t, l, time.Second, "a", 0); p.Audit.Last.Findings != 1 || p.Audit.Clean == nil || !slices.Equal(p.Flags, []string{state.Differs}) {
			t.Errorf("%+v %+v", p.Audit, p.Flags)
		}
		if p := auditOf(t, l, 2*auditRest, "a", 0); p.Audit.Last.Findings != 0 || len(p.Flags) != 0 || !strings.Contains(log.String(), "no difference any more") {
			t.Errorf("%+v\n%s", p.Audit, log)
		}
		end()
	})
}

// What an audit found is in the metrics.
func TestAuditMetrics(t *testing.T) {
	read := sdkmetric.NewManualReader()
	pass := state.AuditPass{Records: 7, Findings: 2}
	age := 12.5
	c, err := newAuditCounters(sdkmetric.NewMeterProvider(sdkmetric.WithReader(read)).Meter(""), "l", func() state.Link {
		return state.Link{Topics: []state.Topic{{SourceTopic: "a", Partitions: []state.Partition{{Partition: 0}, {Partition: 1, Audit: &state.Audit{Last: &pass, CleanAgeSeconds: &age}}}}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	var p partition
	p.src.Topic = "a"
	c.passed(p.src, pass)
	c.failed(p.src)
	var out metricdata.ResourceMetrics
	if err := read.Collect(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range out.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			got[m.Name] = float64(d.DataPoints[0].Value)
		case metricdata.Gauge[int64]:
			got[m.Name] = float64(d.DataPoints[0].Value)
		case metricdata.Gauge[float64]:
			got[m.Name] = d.DataPoints[0].Value
		}
	}
	for name, want := range map[string]float64{"klink.audited.records": 7, "klink.audit.failures": 1, "klink.audit.findings": 2, "klink.audit.clean.age": 12.5} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// take is judged by what a person would want to hear.
func TestAuditNews(t *testing.T) {
	r := AuditRequest{End: 100}
	for name, c := range map[string]struct {
		before, now []int64
		findings    int
		want        auditNews
	}{
		"clean still": {},
		"first":       {nil, []int64{3}, 1, auditNews{more: true}},
		"the same":    {[]int64{3}, []int64{3}, 0, auditNews{}},
		"another":     {[]int64{3}, []int64{4}, 1, auditNews{}},
		"fewer":       {[]int64{3, 4}, []int64{4}, 0, auditNews{fewer: true}},
		"cleared":     {[]int64{3, 4}, nil, 0, auditNews{cleared: true}},
	} {
		a := &audited{AuditRecord: control.AuditRecord{}}
		a.take(found(r, c.before...))
		n := a.take(found(r, c.now...))
		if len(n.findings) != c.findings || n.more != c.want.more || n.fewer != c.want.fewer || n.cleared != c.want.cleared {
			t.Errorf("%s: %+v", name, n)
		}
		if (a.Clean == a.Last) != (len(c.now) == 0) {
			t.Errorf("%s: clean %p, last %p", name, a.Clean, a.Last)
		}
	}
}
