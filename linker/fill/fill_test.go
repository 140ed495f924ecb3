package fill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/ledger"
	"klink/linker/state"
)

// play runs one fill on a quiet cluster, whose ports change may wrap.
func play(t *testing.T, g Gap, k Counters, change func(*cluster, *hooks)) (r Result, c *cluster, seen []Waiting) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c = newCluster(t, func(string, int) int { return 0 })
		h := &hooks{owner: owner{cluster: c, until: time.Now().Add(time.Hour)}}
		if change != nil {
			change(c, h)
		}
		f := Filler{Ports: h, Settings: Settings{SettleTime: settleTime}, Observe: func(w Waiting) { seen = append(seen, w) }}
		r = f.Fill(context.Background(), context.Background(), g, k)
	})
	return r, c, seen
}

// hooks are ports of which a test replaces some.
type hooks struct {
	owner
	write   func(epochs []int32) (Written, bool)
	reserve func() (int32, error)
	ends    func(*Ends) error
	allowed func() error
	settles int
	blocks  int
}

func (h *hooks) Write(ctx context.Context, e int32, epochs []int32) Written {
	if h.write != nil {
		if w, mine := h.write(epochs); mine {
			return w
		}
	}
	return h.owner.Write(ctx, e, epochs)
}

func (h *hooks) Reserve(ctx context.Context, n int32) (int32, error) {
	h.blocks++
	if h.reserve != nil {
		return h.reserve()
	}
	return h.owner.Reserve(ctx, n)
}

func (h *hooks) Ends(ctx context.Context) (Ends, error) {
	e, err := h.owner.Ends(ctx)
	if h.ends != nil {
		err = h.ends(&e)
	}
	return e, err
}

func (h *hooks) Settle(ctx context.Context) error {
	h.settles++
	return h.owner.Settle(ctx)
}

func (h *hooks) Allowed() (time.Time, error) {
	if h.allowed != nil {
		if err := h.allowed(); err != nil {
			return time.Time{}, err
		}
	}
	return h.owner.Allowed()
}

func compacted(n int64) []ledger.Run { return []ledger.Run{{Count: n, Reason: ledger.Compacted}} }

// TestWhatAGapCosts holds the requests and looks of undisturbed fills.
func TestWhatAGapCosts(t *testing.T) {
	trust := Trust{Known: true, LeaderEpoch: 5}
	for _, c := range []struct {
		name     string
		count    int64
		trust    Trust
		requests []int
		looks    int
	}{
		{"one offset after an answer", 1, trust, []int{1}, 0},
		{"one offset after nothing", 1, Trust{}, []int{1}, 1},
		{"three", 3, trust, []int{1, 1, 1}, 0},
		{"four", 4, trust, []int{3, 1}, 2},
		{"2001", 2001, trust, []int{2000, 1}, 2},
		{"2002", 2002, trust, []int{2000, 1, 1}, 2},
		{"5000", 5000, trust, []int{2000, 2000, 999, 1}, 4},
		{"none", 0, trust, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Gap{Expect: 100, Trust: c.trust}
			if c.count > 0 {
				g.Runs = compacted(c.count)
			}
			r, cl, seen := play(t, g, Counters{}, nil)
			if r.Err != nil || r.End != 100+c.count || r.Trust != trust || len(seen) > 0 {
				t.Errorf("result %+v, waits %v", r, seen)
			}
			if d := cmp.Diff(c.requests, cl.requests); d != "" || cl.looks != c.looks {
				t.Errorf("requests (-want +got):\n%s%d looks, want %d", d, cl.looks, c.looks)
			}
			if r.Markers != c.count || r.Requests != int64(len(c.requests)) || r.Doubts != 0 {
				t.Errorf("%d markers in %d requests, %d doubts", r.Markers, r.Requests, r.Doubts)
			}
		})
	}
}

// TestOneBlockLastsManyGaps: counters go from gap to gap without a new record.
func TestOneBlockLastsManyGaps(t *testing.T) {
	r, _, _ := play(t, Gap{Expect: 100, Runs: compacted(2)}, Counters{}, nil)
	if r.Counters != (Counters{Next: 2, End: 1 << 16}) {
		t.Errorf("counters %+v", r.Counters)
	}
	r, c, _ := play(t, Gap{Expect: 100, Runs: compacted(2)}, Counters{Next: 7, End: 9}, func(c *cluster, h *hooks) {
		c.owned[7] = 2
		h.reserve = func() (int32, error) { t.Error("reserved although counters are left"); return 0, errLost }
	})
	if r.Err != nil || r.Counters != (Counters{Next: 9, End: 9}) {
		t.Errorf("result %+v", r)
	}
	if want := []int32{7<<3 | 3, 8<<3 | 3}; !slices.Equal(c.log, want) {
		t.Errorf("log %v, want %v", c.log, want)
	}
}

// TestEndsOfAFill holds how a fill ends where it cannot go on.
func TestEndsOfAFill(t *testing.T) {
	foreign := func(c *cluster) { c.log = append(c.log, c.highest()); c.replicate() }
	after := func(n int, do func()) func([]int32) (Written, bool) {
		return func([]int32) (Written, bool) {
			if n--; n == 0 {
				do()
			}
			return Written{}, false
		}
	}
	for _, tc := range []struct {
		name   string
		count  int64
		doubt  bool
		change func(*cluster, *hooks)
		reason state.Reason
		err    error
		text   string
		end    int64
		in     bool // InDoubt
	}{
		{name: "the log end is elsewhere", count: 1, end: 100, err: ErrMoved, text: "at most 100 was to be, it is 101",
			change: func(c *cluster, _ *hooks) { foreign(c) }},
		{name: "a former owner went on beyond the gap", count: 1, doubt: true, end: 100, err: ErrMoved, in: true,
			change: func(c *cluster, _ *hooks) { foreign(c); foreign(c) }},
		{name: "a foreign record before the last look", count: 4, end: 104, err: ErrOvershot, reason: state.Overshot,
			text: "at most 104 was to be, it is 105", change: func(c *cluster, h *hooks) { h.write = after(2, func() { foreign(c) }) }},
		{name: "a surplus seen without the lease", count: 4, end: 104, err: ErrNotAllowed,
			change: func(c *cluster, h *hooks) {
				h.write = func(e []int32) (Written, bool) {
					w := c.carryOut(e)
					if len(c.log) == 4 {
						foreign(c)
						h.until = time.Now()
					}
					return w, true
				}
			}},
		{name: "the producer was fenced", count: 1, end: 100, err: ErrFenced, reason: state.Fenced,
			change: func(c *cluster, _ *hooks) { c.fenced = true }},
		{name: "the producer was fenced before a bulk", count: 9, end: 100, err: ErrFenced, reason: state.Fenced,
			change: func(c *cluster, _ *hooks) { c.fenced = true }},
		{name: "the bulk's error is hidden", count: 9, end: 100, err: ErrFenced, reason: state.Fenced,
			change: func(c *cluster, h *hooks) {
				c.fenced = true
				h.write = func(e []int32) (Written, bool) { return Written{Outcome: Done, LeaderEpoch: 5}, len(e) > 1 }
			}},
		{name: "replicated offsets are gone", count: 9, end: 100, err: ErrMoved, text: "it is 99",
			change: func(c *cluster, h *hooks) {
				h.ends = func(e *Ends) error {
					if len(c.requests) > 0 { // an unclean election
						e.LogEnd, e.HighWatermark = 99, 99
					}
					return nil
				}
			}},
		{name: "no lease", count: 9, end: 100, err: ErrNotAllowed, text: errLease.Error(),
			change: func(_ *cluster, h *hooks) { h.allowed = func() error { return errLease } }},
		{name: "the lease is over", count: 9, end: 100, err: ErrNotAllowed, text: "lease ended",
			change: func(_ *cluster, h *hooks) { h.until = time.Now() }},
		{name: "no counters are left", count: 1, end: 100, err: ErrSpent, reason: state.Unfillable,
			change: func(_ *cluster, h *hooks) { h.reserve = func() (int32, error) { return 0, ErrSpent } }},
		{name: "counters beyond the last", count: 1, end: 100, err: ErrSpent, reason: state.Unfillable,
			change: func(_ *cluster, h *hooks) {
				h.reserve = func() (int32, error) { return ledger.CounterLimit, nil }
			}},
		{name: "the control topic is away", count: 1, end: 100, err: errLost, reason: state.ControlUnwritable,
			change: func(_ *cluster, h *hooks) { h.reserve = func() (int32, error) { return 0, errLost } }},
		{name: "the leader is away", count: 1, end: 100, err: errLost, reason: state.NoLeader,
			change: func(_ *cluster, h *hooks) {
				h.ends = func(e *Ends) error { e.Reason = state.NoLeader; return errLost }
			}},
		{name: "too few replicas", count: 9, end: 100, err: errLost, reason: state.NotEnoughReplicas,
			change: func(_ *cluster, h *hooks) {
				h.write = func([]int32) (Written, bool) {
					return Written{Outcome: Refused, LeaderEpoch: 5, Reason: state.NotEnoughReplicas, Err: errLost}, true
				}
			}},
		{name: "no connection", count: 1, end: 100, err: errCut, reason: state.Unreachable,
			change: func(_ *cluster, h *hooks) {
				h.write = func([]int32) (Written, bool) {
					return Written{Outcome: NotSent, LeaderEpoch: -1, Reason: state.Unreachable, Err: errCut}, true
				}
			}},
		{name: "the lease ends in a doubt", count: 9, end: 100, err: ErrNotAllowed, in: true,
			change: func(_ *cluster, h *hooks) {
				h.write = func([]int32) (Written, bool) {
					h.until = time.Now()
					return Written{Outcome: Unknown, LeaderEpoch: 5, Err: errCut}, true
				}
			}},
		{name: "counters refused for ever", count: 1, end: 100, err: ErrOutrun, reason: state.FillUnknown, in: true,
			change: func(_ *cluster, h *hooks) {
				h.write = func([]int32) (Written, bool) {
					return Written{Outcome: CoordinatorFenced, LeaderEpoch: 5, Err: errLost}, true
				}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _, _ := play(t, Gap{Expect: 100, Runs: compacted(tc.count), Doubt: tc.doubt}, Counters{}, tc.change)
			if !errors.Is(r.Err, tc.err) || r.Reason != tc.reason || r.End != tc.end || r.InDoubt != tc.in || r.Trust.Known {
				t.Errorf("result %+v", r)
			}
			if r.Err != nil && !strings.Contains(r.Err.Error(), tc.text) {
				t.Errorf("error %q, want %q in it", r.Err, tc.text)
			}
		})
	}
}

// TestUsedCountersAreNeverTaken is M2 against a control store that forgot.
func TestUsedCountersAreNeverTaken(t *testing.T) {
	r, c, _ := play(t, Gap{Expect: 100, Runs: compacted(1)}, Counters{Next: 8, End: 8}, func(_ *cluster, h *hooks) {
		h.reserve = func() (int32, error) { return 7, nil }
	})
	if !errors.Is(r.Err, ErrPorts) || len(c.requests) > 0 {
		t.Errorf("result %+v after %v", r, c.requests)
	}
}

// TestImpossibleRunsAreRefused: reasons that do not fit a marker, and no counts.
func TestImpossibleRunsAreRefused(t *testing.T) {
	for _, g := range []Gap{
		{Expect: 100, Runs: []ledger.Run{{Count: 1, Reason: ledger.Padded}}},
		{Expect: 100, Runs: []ledger.Run{{Count: 0, Reason: ledger.Marker}}},
		{Expect: -1, Runs: compacted(1), Doubt: true},
	} {
		if r, c, _ := play(t, g, Counters{}, nil); r.Err == nil || len(c.requests) > 0 || r.InDoubt != g.Doubt {
			t.Errorf("%+v was filled: %+v", g, r)
		}
	}
}

// TestRefusedCounterIsOutdone: error 52 means a block above, after settling.
func TestRefusedCounterIsOutdone(t *testing.T) {
	var h *hooks
	r, c, seen := play(t, Gap{Expect: 100, Runs: compacted(2), Trust: Trust{Known: true, LeaderEpoch: 5}}, Counters{Next: 1, End: 9},
		func(c *cluster, k *hooks) {
			h = k
			c.owned[1] = 8
			c.base, c.log, c.reserved = 99, []int32{500 << 3}, 300
			c.replicate()
		})
	if r.Err != nil || h.blocks != 1 || h.settles != 1 || r.Counters.Next != 503 {
		t.Errorf("%d blocks, %d settled: %+v", h.blocks, h.settles, r)
	}
	if len(c.log) != 3 || c.log[1] != 501<<3|3 {
		t.Errorf("log %v", c.log)
	}
	if len(seen) == 0 || seen[0].Reason != state.FillUnknown || seen[len(seen)-1] != (Waiting{}) {
		t.Errorf("shown: %v", seen)
	}
}

// TestWaitsAreShown: a doubt as FILL_UNKNOWN, slow followers by their own name.
func TestWaitsAreShown(t *testing.T) {
	slow := func(c *cluster, h *hooks) { c.lagsTill = time.Now().Add(10 * time.Second); c.replicas = -2 }
	r, _, seen := play(t, Gap{Expect: 100, Runs: compacted(1)}, Counters{}, slow)
	if r.Err != nil || len(seen) != 2 || seen[0].Reason != state.NotEnoughReplicas || seen[1] != (Waiting{}) {
		t.Errorf("followers: shown %v, result %+v", seen, r)
	}
	start := time.Time{}
	var took time.Duration
	r, _, seen = play(t, Gap{Expect: 100, Runs: compacted(1), Doubt: true}, Counters{}, func(_ *cluster, h *hooks) {
		start = time.Now()
		h.allowed = func() error { took = time.Since(start); return nil }
	})
	if r.Err != nil || len(seen) != 2 || seen[0].Reason != state.FillUnknown || seen[1] != (Waiting{}) {
		t.Errorf("takeover: shown %v, result %+v", seen, r)
	}
	if took < settleTime || took > settleTime+2*time.Second {
		t.Errorf("the first marker went after %s, the settling time is %s", took, settleTime)
	}
}

// TestStopInADoubtIsQuickAndSaysSo: shutdown does not wait for settling.
func TestStopInADoubtIsQuickAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(string, int) int { return 0 })
		f := Filler{Ports: owner{cluster: c, until: time.Now().Add(time.Hour)}, Settings: Settings{SettleTime: settleTime}}
		ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		r := f.Fill(ctx, context.Background(), Gap{Expect: 100, Runs: compacted(1), Doubt: true}, Counters{})
		if !errors.Is(r.Err, context.DeadlineExceeded) || !r.InDoubt || r.Reason != "" || time.Since(start) > 1500*time.Millisecond {
			t.Errorf("after %s: %+v", time.Since(start), r)
		}
	})
}

// TestStopWhileWritingLeavesNothingLoose: the request under way is answered and
// looked after, and the release that follows is clean.
func TestStopWhileWritingLeavesNothingLoose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(string, int) int { return 0 })
		h := &hooks{owner: owner{cluster: c, until: time.Now().Add(time.Hour)}}
		ctx, cancel := context.WithCancel(context.Background())
		h.write = func([]int32) (Written, bool) { cancel(); return Written{}, false }
		r := (&Filler{Ports: h}).Fill(ctx, context.Background(), Gap{Expect: 100, Runs: compacted(9)}, Counters{})
		if !errors.Is(r.Err, context.Canceled) || r.InDoubt || r.End != 108 || len(c.log) != 8 {
			t.Errorf("%d markers: %+v", len(c.log), r)
		}
	})
}

// TestAnswerOfAnotherLeaderIsNoTrust is M1: an answer under another epoch than
// the marker was meant for asks for a look.
func TestAnswerOfAnotherLeaderIsNoTrust(t *testing.T) {
	g := Gap{Expect: 100, Runs: compacted(1), Trust: Trust{Known: true, LeaderEpoch: 4}}
	r, c, _ := play(t, g, Counters{}, nil)
	if r.Err != nil || c.looks != 1 || r.Trust.LeaderEpoch != 5 {
		t.Errorf("%d looks: %+v", c.looks, r)
	}
}

// TestCalm holds what counts as standing still.
func TestCalm(t *testing.T) {
	const poll = time.Second
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	type look struct {
		asked, answered float64
		end             int64
		epoch           int32
	}
	for _, c := range []struct {
		name  string
		looks []look
		stood time.Duration
		again bool // Settle is wanted again
	}{
		{"the first look counts nothing", []look{{0, 0, 7, 1}}, 0, false},
		{"pauses count, questions do not", []look{{0, 0.2, 7, 1}, {1.2, 1.9, 7, 1}, {2.9, 3, 7, 1}}, 2 * time.Second, false},
		{"a clock that jumped", []look{{0, 0, 7, 1}, {90, 90, 7, 1}}, 2 * time.Second, false},
		{"another end", []look{{0, 0, 7, 1}, {1, 1, 8, 1}, {2, 2, 8, 1}}, time.Second, false},
		{"another leader", []look{{0, 0, 7, 1}, {1, 1, 7, 1}, {2, 2, 7, 2}}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := calm{}
			k.asked(at(-1), poll)
			k.saw(at(-1), Ends{LogEnd: 7, LeaderEpoch: 1})
			if !k.wantsSettle() {
				t.Fatal("the first look does not ask to settle")
			}
			k.settled = true
			for _, l := range c.looks {
				k.asked(at(l.asked), poll)
				k.saw(at(l.answered), Ends{LogEnd: l.end, LeaderEpoch: l.epoch})
			}
			if k.stood != c.stood || k.wantsSettle() != c.again {
				t.Errorf("stood %s, settle again %v", k.stood, k.wantsSettle())
			}
		})
	}
}

// TestFailedLooksStartTheWaitAnew: a leader that did not answer meanwhile may
// have been frozen with the request in its hands.
func TestFailedLooksStartTheWaitAnew(t *testing.T) {
	var h *hooks
	looks := 0
	r, _, _ := play(t, Gap{Expect: 100, Runs: compacted(1), Doubt: true}, Counters{}, func(_ *cluster, k *hooks) {
		h = k
		h.ends = func(*Ends) error {
			if looks++; looks == 5 {
				return errLost
			}
			return nil
		}
	})
	if r.Err != nil || h.settles != 2 || looks != 12 {
		t.Errorf("%d settled, %d looks: %+v", h.settles, looks, r)
	}
}

func TestCountersTellTheirEnd(t *testing.T) {
	for _, c := range []struct {
		next int32
		low  bool
	}{{0, false}, {214748364, false}, {214748365, true}, {ledger.CounterLimit, true}} {
		if k := (Counters{Next: c.next, End: c.next}); k.Low() != c.low || k.Left() != 0 {
			t.Errorf("%d: low %v, used %v", c.next, k.Low(), k.Used())
		}
	}
}

// TestOutcomesPrinted: names stand in metrics.
func TestOutcomesPrinted(t *testing.T) {
	if NotSent.String() != "not_sent" || Unknown.String() != "unknown" || Outcome(99).String() != "invalid" {
		t.Error("names of outcomes changed")
	}
}
