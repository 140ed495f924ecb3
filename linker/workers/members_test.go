package workers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
	"klink/linker/state"
)

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestAloneItHoldsAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 4, "b": 3, "c": 1})
		w := r.start("a")
		if _, ok := w.Held("a", 0); ok {
			t.Fatal("held before the group was joined")
		}
		r.pass(5*time.Second, "the first topic", func() bool { return r.holds(w) == 4 })
		select {
		case <-w.Changed():
		default:
			t.Error("no word of the change")
		}
		until, _ := w.Held("a", 0)
		if left := time.Until(until); left > length || left < length-DefaultHeartbeat {
			t.Errorf("held for %v, want up to %v", left, length)
		}
		w.Watch([]string{"a", "b", "not yet there"})
		r.pass(5*time.Second, "a topic more", func() bool { return r.holds(w) == 7 })
		w.Watch([]string{"b"})
		r.pass(5*time.Second, "a topic less", func() bool { return r.holds(w) == 3 })
		r.pass(time.Minute, "", nil)
		if r.holds(w) != 3 || w.Trouble() != nil {
			t.Errorf("after a minute%s", r.show())
		}
		w.stop()
		if r.holds(w) != 0 {
			t.Error("held after the end")
		}
	})
}

// A successor takes over at once where the first one left.
func TestTwoShareAndOneLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 6, "b": 2})
		one := r.start("a", "b")
		r.pass(5*time.Second, "the first worker", func() bool { return r.holds(one) == 8 })
		two := r.start("a", "b")
		r.pass(10*time.Second, "halves", func() bool { return r.holds(one) == 4 && r.holds(two) == 4 })
		one.stop()
		if took := r.pass(session, "all", func() bool { return r.holds(two) == 8 }); took > 3*time.Second {
			t.Errorf("taken over after %v", took)
		}
	})
}

// W2 and design §4: whoever is cut off or frozen stops holding before another
// one can begin to.
func TestWhoGoesSilentLosesTheLeaseFirst(t *testing.T) {
	for name, silence := range map[string]func(w *worker) (again func()){
		"dead":   func(w *worker) func() { w.wire.sever(); return nil },
		"frozen": func(w *worker) func() { return w.wire.freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, map[string]int32{"a": 6})
				one := r.start("a")
				two := r.start("a")
				r.pass(10*time.Second, "halves", func() bool { return r.holds(one) == 3 && r.holds(two) == 3 })
				again := silence(one)
				lost := r.pass(session, "the end of the lease", func() bool { return r.holds(one) == 0 })
				// kgo gives up sooner where connections are refused.
				if lost > length || name == "frozen" && lost < length-2*DefaultHeartbeat {
					t.Errorf("lease ended after %v, want %v at most", lost, length)
				}
				taken := r.pass(2*session, "the other one", func() bool { return r.holds(two) == 6 })
				if lost+taken < session-2*DefaultHeartbeat {
					t.Errorf("taken over after %v", lost+taken)
				}
				if one.Trouble() == nil {
					t.Error("silent without trouble")
				}
				if again != nil {
					again()
					r.pass(time.Minute, "halves again", func() bool { return r.holds(one) == 3 && r.holds(two) == 3 })
					r.pass(session, "no trouble", func() bool { return one.Trouble() == nil })
				}
			})
		})
	}
}

// W3: an answer is not enough. The coordinator answers each heartbeat, with an
// error.
func TestErrorsInAnswersDoNotRenew(t *testing.T) {
	for _, c := range []struct {
		err    *kerr.Error
		atOnce bool
	}{
		{kerr.RebalanceInProgress, false},
		{kerr.IllegalGeneration, false},
		{kerr.GroupAuthorizationFailed, false},
		{kerr.UnknownServerError, false},
		{kerr.UnknownMemberID, true},
		{kerr.FencedInstanceID, true},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, map[string]int32{"a": 2})
				w := r.start("a")
				r.pass(5*time.Second, "all", func() bool { return r.holds(w) == 2 })
				f := r.cluster.Fault(
					kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup}, Err: c.err, TopLevel: true, Count: -1})
				took := r.pass(session, "the end of the lease", func() bool { return r.holds(w) == 0 })
				if took > length || c.atOnce && took > DefaultHeartbeat+step {
					t.Errorf("lease ended after %v", took)
				}
				if n := f.Hits(); n == 0 {
					t.Error("no heartbeat was answered")
				}
				f.Remove()
				r.pass(time.Minute, "all again", func() bool { return r.holds(w) == 2 && w.Trouble() == nil })
			})
		})
	}
}

func TestMissingRights(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault kfake.Fault
		right string
	}{
		{"find the coordinator", kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.GroupAuthorizationFailed, Group: "test-klink"}, "Read on group test-klink"},
		{"join", kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, TopLevel: true}, "Read on group test-klink"},
		{"topic", kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.TopicAuthorizationFailed, Topic: "a"}, "Describe on topic a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, map[string]int32{"a": 2, "b": 1})
				c.fault.Count = -1
				f := r.cluster.Fault(c.fault)
				w := r.start("a", "b")
				var got *remote.Fault
				r.pass(time.Minute, "word of it", func() bool { return errors.As(w.Trouble(), &got) })
				if got.Reason != state.NoPermission || got.Right != c.right {
					t.Errorf("trouble is %v, right %q, want %q", got, got.Right, c.right)
				}
				if _, ok := w.Held("a", 0); ok {
					t.Error("held without the right")
				}
				f.Remove()
				r.pass(2*time.Minute, "all", func() bool { return r.holds(w) == 3 && w.Trouble() == nil })
			})
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 2})
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.LeaderNotAvailable, Topic: "a", Count: -1})
		w := r.start("a")
		var got *remote.Fault
		r.pass(time.Minute, "trouble", func() bool { return errors.As(w.Trouble(), &got) })
		if !errors.Is(got, ErrNotJoined) || got.Reason != state.Unreachable {
			t.Errorf("trouble is %v", got)
		}
		w.Watch(nil)
		if err := w.Trouble(); err != nil {
			t.Errorf("trouble about nothing: %v", err)
		}
	})
}

// W5: the group does not go on before the writes of what it takes are over.
func TestPermitsHoldUpTheRevocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 2})
		one := r.start("a")
		r.pass(5*time.Second, "all", func() bool { return r.holds(one) == 2 })
		enter := func(p int32) *Permit {
			t.Helper()
			permit, ok := one.Enter("a", p)
			if !ok {
				t.Fatal("no permit for what is held")
			}
			return permit
		}
		permits := []*Permit{enter(0), enter(1)}
		two := r.start("a")
		r.pass(session, "a revocation", func() bool { return r.holds(one) == 1 })
		if r.pass(2*time.Second, "", nil); r.holds(two) != 0 {
			t.Fatal("taken over during a write")
		}
		for _, p := range permits {
			p.Leave()
			p.Leave() // does nothing
		}
		r.pass(3*time.Second, "the other one", func() bool { return r.holds(two) == 1 })
	})
}

// W5: what never ends is over by the end of its lease all the same.
func TestAForgottenPermitEndsWithItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 2})
		one := r.start("a")
		r.pass(5*time.Second, "all", func() bool { return r.holds(one) == 2 })
		var until time.Time
		for p := range int32(2) {
			permit, ok := one.Enter("a", p)
			if !ok {
				t.Fatal("no permit for what is held")
			}
			until = permit.Until()
		}
		two := r.start("a")
		r.pass(2*session, "the other one", func() bool { return r.holds(two) == 1 })
		if time.Now().Before(until) {
			t.Errorf("taken over %v before the write had to be over", time.Until(until))
		}
	})
}

func TestNoPermitWithoutALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 1})
		w := r.start("a")
		if _, ok := w.Enter("a", 0); ok {
			t.Error("a permit before the group was joined")
		}
		r.pass(5*time.Second, "all", func() bool { return r.holds(w) == 1 })
		if _, ok := w.Enter("a", 1); ok {
			t.Error("a permit for a partition that is not there")
		}
		w.stop()
		if _, ok := w.Enter("a", 0); ok {
			t.Error("a permit after the end")
		}
	})
}

func TestOptions(t *testing.T) {
	failed := errors.New("no client")
	none := func(...kgo.Opt) (*kgo.Client, error) { return nil, failed }
	for name, c := range map[string]struct {
		o    Options
		want error
	}{
		"no client":       {Options{Group: "g"}, nil},
		"no group":        {Options{NewClient: none}, nil},
		"margin too wide": {Options{NewClient: none, Group: "g", Margin: 9 * time.Second}, nil},
		"client fails":    {Options{NewClient: none, Group: "g"}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(c.o)
			if err := m.Run(context.Background()); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

// W9: what is mirrored is over before somebody else is given it, and what is lost is
// gone on with until somebody else has it.
func TestShares(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, map[string]int32{"a": 4})
		mine := func(w *worker) (n int) {
			for p := range int32(4) {
				if w.Share("a", p).Mine {
					n++
				}
			}
			return n
		}
		one := r.start("a")
		if s := one.Share("a", 0); s != (Share{}) {
			t.Errorf("before anything is heard: %+v", s)
		}
		var given []Partition
		late := time.Second
		one.BeforeGivingUp(func(_ context.Context, ps []Partition) {
			given = append(given, ps...)
			time.Sleep(late)
		})
		r.pass(5*time.Second, "all", func() bool { return mine(one) == 4 })
		two := r.start("a")
		r.pass(session, "a revocation", func() bool { return mine(one) == 2 })
		if took := r.pass(session, "the other one", func() bool { return mine(two) == 2 }); took < late || len(given) != 2 {
			t.Errorf("taken over after %v, given up %v", took, given)
		}
		if s := two.Share("a", given[0].Partition); s != (Share{Mine: true, Heard: true, Joined: true}) {
			t.Errorf("%+v", s)
		}
		again := one.wire.freeze()
		r.pass(3*session, "the other one to have all", func() bool { return mine(two) == 4 })
		if mine(one) != 2 {
			t.Error("cut off, and it knows of another owner")
		}
		again()
		r.pass(time.Minute, "halves again", func() bool { return mine(one) == 2 && mine(two) == 2 && r.holds(one) == 2 })
	})
}
