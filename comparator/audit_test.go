package comparator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// auditor returns an Auditor of the world's clusters, and a request about a
// partition of its topic.
func (w *world) auditor(o AuditOptions) (*Auditor, AuditRequest) {
	w.t.Helper()
	o.Source, o.Target = w.clients[Source], w.clients[Target]
	r := AuditRequest{Topic: Topic{"t", "t"}, SourceID: w.id(Source), TargetID: w.id(Target)}
	return NewAuditor(o), r
}

func (w *world) id(side Side) [16]byte {
	w.t.Helper()
	all, err := kadm.NewClient(w.clients[side]).ListTopics(w.t.Context(), "t")
	if err != nil {
		w.t.Fatal(err)
	}
	return all["t"].ID
}

// C7: what is mirrored is compared, whatever the source has beyond; what differs
// there is found.
func TestAudit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 300, 40)
		w.write(Target, 0, 0, 100, 7)
		w.write(Target, 0, 5, 6, 1)
		w.write(Target, 0, 101, 110, 3)
		a, r := w.auditor(AuditOptions{FollowStart: true})
		defer a.Close()
		for _, tc := range []struct {
			end, to, compared, changed int64
		}{{0, 0, 0, 0}, {100, 100, 100, 0}, {101, 101, 101, 1}, {500, 110, 110, 1}} {
			r.End = tc.end
			p, err := a.Audit(t.Context(), r)
			if err != nil || p.To != tc.to || p.RecordsCompared != tc.compared || p.Counts[Changed] != tc.changed || len(p.Counts) > 1 {
				t.Errorf("up to %d: %+v %v", tc.end, p, err)
			}
		}
	})
}

// A target that lost what its source has is told of, one that has not followed
// yet is not.
func TestAuditStarts(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 100, 40)
		w.write(Target, 0, 0, 100, 40)
		w.trim(Source, 10)
		for _, tc := range []struct {
			trim  int64
			later bool
			found int64
		}{{0, false, 0}, {30, true, 0}, {30, false, 1}} {
			w.trim(Target, tc.trim)
			a, r := w.auditor(AuditOptions{FollowStart: true, BeginsLater: tc.later})
			r.End = 100
			p, err := a.Audit(t.Context(), r)
			if err != nil || p.Counts[Start] != tc.found || p.From != max(10, tc.trim) || p.RecordsCompared != 100-p.From {
				t.Errorf("%+v: %+v %v", tc, p, err)
			}
			a.Close()
		}
	})
}

// C7: another topic of the name is not taken for the mirror.
func TestAuditOfAnotherTopic(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 10, 10)
		w.write(Target, 0, 0, 10, 10)
		a, r := w.auditor(AuditOptions{})
		defer a.Close()
		r.End, r.TargetID = 10, [16]byte{7}
		if _, err := a.Audit(t.Context(), r); !errors.Is(err, ErrReplaced) {
			t.Errorf("compared with another topic: %v", err)
		}
		r.TargetID, r.Partition = [16]byte{}, 1
		if _, err := a.Audit(t.Context(), r); !errors.Is(err, ErrReplaced) {
			t.Errorf("a partition that is not there: %v", err)
		}
		r.Partition = 0
		if p, err := a.Audit(t.Context(), r); err != nil || p.RecordsCompared != 10 {
			t.Errorf("without an id: %+v %v", p, err)
		}
	})
}

// Both sides are read at the rate that is allowed, and an end comes soon.
func TestAuditRate(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write(Source, 0, 0, 500, 40)
		w.write(Target, 0, 0, 500, 40)
		a, r := w.auditor(AuditOptions{BytesPerSecond: 50_000, MemoryBytes: 1})
		defer a.Close()
		r.End = 500
		p, err := a.Audit(t.Context(), r)
		if err != nil || p.RecordsCompared != 500 || p.Seconds < 9 || p.Seconds > 12 {
			t.Errorf("half a megabyte took %.1f s at 50 kB/s: %v", p.Seconds, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(3*time.Second, cancel).Stop()
		began := time.Now()
		if _, err := a.Audit(ctx, r); !errors.Is(err, context.Canceled) || time.Since(began) > 4*time.Second {
			t.Errorf("ended after %s with %v", time.Since(began), err)
		}
	})
}
