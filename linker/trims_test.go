package linker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/state"
)

func TestTrimTo(t *testing.T) {
	well := startFacts{mirrors: true, held: true, src: 50, dst: appender.Ends{LogStart: 10, HighWatermark: 90, LogEnd: 95}}
	with := func(change func(*startFacts)) startFacts { f := well; change(&f); return f }
	for name, c := range map[string]struct {
		facts startFacts
		to    int64
		ok    bool
	}{
		"behind":                 {well, 50, true},
		"all is deleted":         {with(func(f *startFacts) { f.src = 90 }), 90, true},
		"not replicated yet":     {with(func(f *startFacts) { f.src = 91 }), -1, false},
		"beyond the target":      {with(func(f *startFacts) { f.src = 96 }), -1, false},
		"equal":                  {with(func(f *startFacts) { f.src = 10 }), -1, false},
		"the target is further":  {with(func(f *startFacts) { f.src = 9 }), -1, false},
		"source never seen":      {with(func(f *startFacts) { f.src = feed.Unknown }), -1, false},
		"does not mirror":        {with(func(f *startFacts) { f.mirrors = false }), -1, false},
		"without the lease":      {with(func(f *startFacts) { f.held = false }), -1, false},
		"refused":                {with(func(f *startFacts) { f.barred = true }), -1, false},
		"target not read":        {with(func(f *startFacts) { f.dst.Err = errLost }), -1, false},
		"target's ends are none": {with(func(f *startFacts) { f.dst = appender.Ends{LogStart: -1, HighWatermark: -1, LogEnd: -1, Err: errLost} }), -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if to, ok := trimTo(c.facts); to != c.to || ok != c.ok {
				t.Errorf("trim to %d, %v; want %d, %v", to, ok, c.to, c.ok)
			}
		})
	}
}

// trimRig is a source and a target as far as their logs' starts go, and the loop
// between them.
type trimRig struct {
	t     *testing.T
	trims *trims
	log   bytes.Buffer
	read  *metric.ManualReader

	mu     sync.Mutex // guards all below
	all    []follower
	ends   map[appender.Target]*appender.Ends
	src    map[appender.Target]int64
	silent bool // the source tells nothing
	lost   bool // the lease
	refuse error
	asked  int
	tried  []map[appender.Target]int64
}

const trimRigEnd = 100

func newTrimRig(t *testing.T, follow bool) *trimRig {
	t.Helper()
	r := &trimRig{t: t, ends: map[appender.Target]*appender.Ends{}, src: map[appender.Target]int64{}, read: metric.NewManualReader()}
	c, err := newCounters(metric.NewMeterProvider(metric.WithReader(r.read)).Meter(""), "l", func() state.Link { return state.Link{} })
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	r.trims = newTrims(trimOptions{target: r, lease: r, follow: follow, log: log, count: c})
	return r
}

// add makes a partition whose logs hold offsets 0 to 99 on both sides.
func (r *trimRig) add(topic string, n int32, in state.State) follower {
	s := newShown(n, "w")
	s.pos = state.Position{State: in}
	s.sawTarget(0, trimRigEnd, time.Now())
	f := follower{src: feed.Partition{Topic: topic, Partition: n}, dst: appender.Target{Topic: "to-" + topic, ID: [16]byte{1}, Partition: n}, shown: s, policy: "delete"}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, f)
	r.ends[f.dst] = &appender.Ends{HighWatermark: trimRigEnd, LogEnd: trimRigEnd}
	return f
}

func (r *trimRig) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// run lets time pass as a link does: the source's ends come in every half
// second, the loop looks every two.
func (r *trimRig) run(d time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		r.mu.Lock()
		all := append([]follower(nil), r.all...)
		for _, f := range all {
			if !r.silent {
				f.shown.sawSource(r.src[f.dst], trimRigEnd, trimRigEnd, time.Now())
			}
		}
		r.mu.Unlock()
		if time.Until(end)%trimEvery == 0 {
			r.trims.once(context.Background(), all)
		}
	}
}

func (r *trimRig) start(f follower) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends[f.dst].LogStart
}

func (r *trimRig) Held(string, int32) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(3 * time.Second), !r.lost
}

func (r *trimRig) Ends(_ context.Context, ts []appender.Target) map[appender.Target]appender.Ends {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	out := map[appender.Target]appender.Ends{}
	for _, t := range ts {
		out[t] = *r.ends[t]
	}
	return out
}

func (r *trimRig) Trim(ctx context.Context, starts map[appender.Target]int64) map[appender.Target]appender.Trimmed {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > 3*time.Second {
		r.t.Errorf("a trim may last until %v, beyond the lease", end)
	}
	r.tried = append(r.tried, starts)
	out := map[appender.Target]appender.Trimmed{}
	for k, to := range starts {
		e := r.ends[k]
		switch {
		case to > r.src[k]:
			r.t.Errorf("%v is trimmed to %d, beyond the source's start %d", k, to, r.src[k])
		case to > e.HighWatermark:
			r.t.Errorf("%v is trimmed to %d, beyond its end %d", k, to, e.HighWatermark)
		}
		if r.refuse != nil {
			out[k] = appender.Trimmed{LogStart: -1, Err: r.refuse}
			continue
		}
		e.LogStart = max(e.LogStart, to)
		out[k] = appender.Trimmed{LogStart: e.LogStart}
	}
	return out
}

func (r *trimRig) tries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tried)
}

// within is the promise: five seconds after the source.
const within = 5 * time.Second

func TestLogStartFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrimRig(t, true)
		a, b, c := r.add("a", 0, state.Active), r.add("a", 1, state.CatchingUp), r.add("b", 0, state.Active)
		r.run(time.Minute)
		if n := r.tries(); n != 0 {
			t.Errorf("%d trims although nothing was deleted", n)
		}
		r.set(func() { r.src[a.dst], r.src[b.dst] = 7, trimRigEnd })
		r.run(within)
		if r.start(a) != 7 || r.start(b) != trimRigEnd || r.start(c) != 0 {
			t.Errorf("starts %d, %d, %d", r.start(a), r.start(b), r.start(c))
		}
		if got := a.shown.report(time.Now()); *got.TargetStart != 7 || got.Detail != "" {
			t.Errorf("shown: %+v", got)
		}
		if n := r.tries(); n != 1 {
			t.Errorf("%d requests for what one can do", n)
		}
		r.set(func() { r.src[a.dst] = 8 })
		r.run(within)
		var got metricdata.ResourceMetrics
		if err := r.read.Collect(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, m := range got.ScopeMetrics[0].Metrics {
			if m.Name == "klink.trimmed.offsets" {
				for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
					sum += p.Value
				}
			}
		}
		if sum != 8+trimRigEnd {
			t.Errorf("%d offsets counted, want %d", sum, 8+trimRigEnd)
		}
	})
}

// TestG4_NothingIsTrimmed where it is not certain that what goes is gone on the
// source, and that this process is the one to do it.
func TestG4_NothingIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrimRig(t, true)
		for _, in := range []state.State{state.Pending, state.Padding, state.SourceUnavailable, state.TargetUnavailable, state.Halted} {
			f := r.add(string(in), 0, in)
			r.src[f.dst] = 50
		}
		beyond := r.add("beyond", 0, state.Active)
		r.set(func() { r.src[beyond.dst] = trimRigEnd + 1 })
		r.run(time.Minute)
		if n := r.tries(); n != 0 {
			t.Errorf("%d trims: %v", n, r.tried)
		}
		a := r.add("a", 0, state.Active)
		r.set(func() { r.lost, r.src[a.dst] = true, 50 })
		r.run(time.Minute)
		if n := r.tries(); n != 0 {
			t.Errorf("%d trims without the lease", n)
		}
		r.set(func() { r.silent = true })
		r.run(blindAfter)
		r.set(func() { r.lost = false })
		r.run(time.Minute)
		if n := r.tries(); n != 0 {
			t.Errorf("%d trims by what the source told long ago", n)
		}
		r.set(func() { r.silent = false })
		r.run(within)
		if r.start(a) != 50 {
			t.Errorf("start %d, want 50", r.start(a))
		}
	})
}

// TestTrimsThatCameUndone: a broker that died shows the deleted records again.
func TestTrimsThatCameUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrimRig(t, true)
		a := r.add("a", 0, state.Active)
		r.set(func() { r.src[a.dst] = 50 })
		r.run(within)
		r.set(func() { r.ends[a.dst].LogStart = 20 })
		r.run(relookEvery + trimEvery)
		if r.start(a) != 50 {
			t.Errorf("start %d, want 50", r.start(a))
		}
	})
}

func TestWithoutFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrimRig(t, false)
		a := r.add("a", 0, state.Active)
		r.set(func() { r.src[a.dst], r.ends[a.dst].LogStart = 50, 3 })
		r.run(time.Minute)
		if got := a.shown.report(time.Now()); r.tries() != 0 || *got.TargetStart != 3 {
			t.Errorf("%d trims, shown %d", r.tries(), *got.TargetStart)
		}
		if r.asked > 7 {
			t.Errorf("asked %d times in a minute", r.asked)
		}
	})
}

func TestCompactOnlyIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrimRig(t, true)
		a := r.add("a", 0, state.Active)
		r.set(func() {
			r.all[0].policy = "compact"
			r.src[a.dst] = 50
			r.refuse = &appender.Fault{Reason: state.TopicRefused, Err: appender.ErrCompactOnly}
		})
		r.run(time.Hour)
		if n := r.tries(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if got := a.shown.report(time.Now()); got.Detail != "" || r.log.Len() > 0 {
			t.Errorf("told: %q, logged %s", got.Detail, r.log.String())
		}
		r.set(func() { r.all[0].policy, r.refuse = "compact,delete", nil })
		r.run(within)
		if r.start(a) != 50 {
			t.Errorf("start %d, want 50", r.start(a))
		}
	})
}

// TestTrimsThatFail are told once, at once where a person must act, and tried
// again.
func TestTrimsThatFail(t *testing.T) {
	right := &appender.Fault{Op: "trim", Reason: state.NoPermission, Right: "Delete", Err: fmt.Errorf("not allowed")}
	for name, c := range map[string]struct {
		err      error
		quiet    time.Duration // not told before
		atMost   int           // tries in an hour
		contains string
	}{
		"no right":        {right, 0, 61, "Delete"},
		"followers lag":   {&appender.Fault{Reason: state.NotEnoughReplicas, Err: errLost}, trimPatience - within, 1803, "connection lost"},
		"anything else":   {&appender.Fault{Err: errLost}, trimPatience - within, 1803, "connection lost"},
		"unknown policy":  {&appender.Fault{Reason: state.TopicRefused, Err: appender.ErrCompactOnly}, 2 * time.Hour, 61, ""},
		"no fault at all": {errLost, trimPatience - within, 1803, "connection lost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTrimRig(t, true)
				a, b := r.add("a", 0, state.Active), r.add("a", 1, state.Active)
				r.set(func() {
					r.all[0].policy, r.all[1].policy = "", ""
					r.src[a.dst], r.src[b.dst], r.refuse = 50, 60, c.err
				})
				if c.quiet > 0 {
					r.run(min(c.quiet, within))
					if r.log.Len() > 0 {
						t.Errorf("told too soon: %s", r.log.String())
					}
				}
				r.run(time.Hour)
				if n := r.tries(); n > c.atMost || n < c.atMost-10 {
					t.Errorf("tried %d times in an hour", n)
				}
				told := strings.Count(r.log.String(), "does not follow")
				detail := b.shown.report(time.Now()).Detail
				if c.contains == "" {
					if told != 0 || detail != "" {
						t.Errorf("told %d times, shown %q", told, detail)
					}
				} else if told != 1 || !strings.Contains(detail, c.contains) || !strings.Contains(r.log.String(), c.contains) {
					t.Errorf("told %d times: %s, shown %q", told, r.log.String(), detail)
				}
				r.set(func() { r.refuse = nil })
				r.run(barredFor + within)
				if r.start(a) != 50 || r.start(b) != 60 || a.shown.report(time.Now()).Detail != "" || b.shown.report(time.Now()).Detail != "" {
					t.Errorf("starts %d, %d, shown %+v", r.start(a), r.start(b), a.shown.report(time.Now()))
				}
				if again := strings.Count(r.log.String(), "follows the source's again"); again != told {
					t.Errorf("the end was told %d times", again)
				}
			})
		})
	}
}

// TestLinkFollowsTheLogStart: the loop is part of a link, and what is wrong with
// a topic or the link stops it.
func TestLinkFollowsTheLogStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld()
		w.add("a", 1, 2)
		w.add("b", 2, 1)
		l := w.link(t, "w")
		l.o.FollowStart = true
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		src := func(topic string, n int32) *memLog { return w.log(w.src, feed.Partition{Topic: topic, Partition: n}) }
		dst := func(topic string, n int32) int64 {
			return w.log(w.dst, feed.Partition{Topic: topic, Partition: n}).starts()
		}
		src("a", 0).delete(4)
		src("b", 0).delete(10)
		time.Sleep(within)
		if dst("a", 0) != 4 || dst("a", 1) != 0 || dst("b", 0) != 10 {
			t.Errorf("starts %d, %d, %d", dst("a", 0), dst("a", 1), dst("b", 0))
		}
		mustBe(t, topicReport(t, l, "b"), state.Active, "")

		w.mu.Lock()
		w.refuse["b"] = &Trouble{Reason: state.TopicRefused, Detail: "not as it was"}
		w.mu.Unlock()
		topicReport(t, l, "b")
		src("a", 0).delete(5)
		src("b", 0).delete(5)
		w.log(w.dst, feed.Partition{Topic: "b"}).delete(0) // it came undone
		time.Sleep(time.Minute)
		if dst("a", 0) != 5 || dst("b", 0) != 0 {
			t.Errorf("with trouble about b: starts %d, %d", dst("a", 0), dst("b", 0))
		}
		w.mu.Lock()
		w.srcID = "OTHER"
		w.mu.Unlock()
		topicReport(t, l, "b")
		w.mu.Lock()
		delete(w.refuse, "b")
		w.mu.Unlock()
		src("a", 0).delete(6)
		time.Sleep(time.Minute)
		if dst("a", 0) != 5 || dst("b", 0) != 0 {
			t.Errorf("with another source: starts %d, %d", dst("a", 0), dst("b", 0))
		}
		w.mu.Lock()
		w.srcID = "SRC"
		w.mu.Unlock()
		topicReport(t, l, "b")
		time.Sleep(relookEvery)
		if dst("a", 0) != 6 || dst("b", 0) != 5 {
			t.Errorf("with all well: starts %d, %d", dst("a", 0), dst("b", 0))
		}
		end()
	})
}

// TestTrimsOnlyLookInCheckpointMode: what the target's own retention deleted shows, and
// the source's start moves nothing.
func TestTrimsOnlyLookInCheckpointMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrimRig(t, true)
		f := r.add("orders", 0, state.Active)
		r.set(func() {
			r.all[0].drifts = true
			r.src[f.dst], r.ends[f.dst].LogStart = 50, 20
		})
		r.run(2 * relookEvery)
		if _, shown, _ := f.shown.starts(time.Now()); shown != 20 || r.start(f) != 20 || len(r.tried) > 0 {
			t.Errorf("shown %d, is %d, tried %v", shown, r.start(f), r.tried)
		}
	})
}
