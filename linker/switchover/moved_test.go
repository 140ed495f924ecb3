package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/intent"
)

// TestPromoteWhileTheSourceMoves: what comes under the hold has it taken back, and the
// mirrors go on, are held again, and are promoted once the source is at rest.
func TestPromoteWhileTheSourceMoves(t *testing.T) {
	for _, c := range []struct {
		name    string
		rests   time.Duration // when the source does
		refused bool
		least   int // holds
		most    int
	}{
		{"once", 400 * time.Millisecond, false, 2, 2},
		{"for a while", 5 * time.Second, false, 3, 6},
		{"for ever", time.Hour, true, 4, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, []string{"a"}, func(w *world) {
				w.pick = func(step string, _ int) int {
					if step == "source" && w.wants("a").Want == intent.PendingStop && time.Since(w.began) < c.rests {
						return 2
					}
					return 0
				}
				const wait = 8 * time.Second
				begun := time.Now()
				r, err := w.open("cli").Promote(context.Background(), Request{Timeout: wait})
				took, holds := time.Since(begun), w.count(intent.Pend)
				if holds < c.least || holds > c.most || w.count(intent.Resume) < holds-1 {
					t.Errorf("commands %+v", w.log)
				}
				if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "held and taken back") {
					t.Errorf("notes %q", r.Notes)
				}
				p := r.Topics[0].Partitions[0]
				var refused *RefusedError
				switch {
				case !c.refused:
					if err != nil || *p.RecordsLost != 0 || *p.SourceEnd != int64(3+holds-1) || took > c.rests+wait/2 {
						t.Errorf("%v after %v: %+v", err, took, p)
					}
				case !errors.As(err, &refused) || !refused.TakenBack || !strings.Contains(err.Error(), "a/0: 1 record behind the source") ||
					*p.RecordsLost != 1 || took < wait || took > wait+2*time.Second || r.Topics[0].Reason != lagging:
					t.Errorf("%v after %v: %+v", err, took, r)
				}
				w.checkPromote(err)
			})
		})
	}
}

// TestPromoteBetweenTwoBatches: a source that took in a record a moment ago is not at
// rest, however often it and the target are equal.
func TestPromoteBetweenTwoBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		rests   time.Duration
		refused string
	}{
		{"for ever", time.Hour, "not promoted: not mirrored before --timeout was over: the source has not been at rest for 2s: a/0 went on; stop its producers"},
		{"for a while", 3 * time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, []string{"a"}, func(w *world) {
				w.quiet = 0 // the default
				last := w.began
				w.pick = func(step string, _ int) int {
					// Between two looks, and mirrored by the second.
					if now := time.Now(); step == "ends" && now.Sub(w.began) < c.rests && now.Sub(last) >= time.Second {
						w.pieces[0].src, last = w.pieces[0].src+1, now
						w.step()
					}
					return 0
				}
				begun := time.Now()
				_, err := w.open("cli").Promote(context.Background(), Request{Timeout: 8 * time.Second})
				took := time.Since(begun)
				if c.refused != "" && (err == nil || err.Error() != c.refused || len(w.log) > 0 || took < 8*time.Second) ||
					c.refused == "" && (err != nil || took < c.rests || took > 6*time.Second || w.count(intent.Pend) != 1) {
					t.Errorf("%v after %v, commands %+v", err, took, w.log)
				}
				w.checkPromote(err)
			})
		})
	}
}

func TestMoved(t *testing.T) {
	p, q := feed.Partition{Topic: "a"}, feed.Partition{Topic: "a", Partition: 1}
	type ends = map[feed.Partition]SourceEnd
	for name, c := range map[string]struct {
		was, is ends
		want    string
	}{
		"the first answer":   {nil, ends{p: {Stable: 1, End: 1}}, ""},
		"at rest":            {ends{p: {Stable: 1, End: 2}}, ends{p: {Stable: 1, End: 2}}, ""},
		"records":            {ends{p: {Stable: 1, End: 1}, q: {Stable: 1, End: 1}}, ends{p: {Stable: 1, End: 1}, q: {Stable: 2, End: 2}}, "a/1"},
		"several":            {ends{p: {End: 1}, q: {End: 1}}, ends{p: {End: 2}, q: {End: 2}}, "a/0"},
		"in a transaction":   {ends{p: {Stable: 1, End: 1}}, ends{p: {Stable: 1, End: 2}}, "a/0"},
		"a transaction ends": {ends{p: {Stable: 1, End: 2}}, ends{p: {Stable: 2, End: 2}}, "a/0"},
		"an error":           {ends{p: {End: 1}}, ends{p: {Err: errCut}}, ""},
		"one came":           {ends{p: {End: 1}}, ends{p: {End: 1}, q: {End: 5}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := moved(c.was, c.is); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// count is how many commands of a kind are on record.
func (w *world) count(v intent.Verb) (n int) {
	for _, c := range w.log {
		if c.Verb == v {
			n++
		}
	}
	return n
}

func TestCheckedUnderAHold(t *testing.T) {
	start := time.Unix(1_000, 0)
	for _, c := range []struct {
		name    string
		at      time.Duration
		before  int // holds taken back
		missing string
		mover   string
		step    promStep
		pause   time.Duration // 0: it ends here
	}{
		{"nothing is missing", 0, 0, "", "", promCuts, 0},
		{"mirrored before the hold", 0, 0, "", "a/0", promLook, 500 * time.Millisecond},
		{"the first time", 0, 0, "x", "", promLook, 500 * time.Millisecond},
		{"the third time", time.Second, 2, "x", "", promLook, 2 * time.Second},
		{"often", time.Second, 40, "x", "", promLook, 10 * time.Second},
		{"for the last time when the wait is over", 59 * time.Second, 4, "x", "", promLook, time.Second},
		{"the wait is over", time.Minute, 4, "x", "", promLook, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newPromote(DefaultTimes(), Request{Timeout: time.Minute}, start)
			m.retaken = c.before
			now := start.Add(c.at)
			m.checked(now, c.missing, c.mover)
			if m.step != c.step || m.anew != (c.pause > 0) || c.pause > 0 && m.again.Sub(now) != c.pause {
				t.Errorf("step %d, anew %t, pause %v", m.step, m.anew, m.again.Sub(now))
			}
			if lacks := c.missing+c.mover != ""; (m.err != nil) != lacks || (m.goal == toMirror) != lacks {
				t.Errorf("goal %d, %v", m.goal, m.err)
			}
		})
	}
}
