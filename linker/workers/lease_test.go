package workers

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLease(t *testing.T) {
	const length = 7 * time.Second
	p, q := Partition{"t", 0}, Partition{"t", 1}
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		do   func(l *lease)
		now  int
		p, q bool
	}{
		"nothing assigned": {func(l *lease) { l.renew(l.begin(), at(0)) }, 1, false, false},
		"no heartbeat yet": {func(l *lease) { l.assign([]Partition{p}, early) }, 0, false, false},
		"a heartbeat sent before the assignment (W1)": {func(l *lease) {
			b := l.begin()
			l.assign([]Partition{p}, early)
			l.renew(b, at(0))
		}, 1, false, false},
		"assigned and confirmed": {func(l *lease) { l.assign([]Partition{p}, early); l.renew(l.begin(), at(0)) }, 6, true, false},
		"over":                   {func(l *lease) { l.assign([]Partition{p}, early); l.renew(l.begin(), at(0)) }, 7, false, false},
		"a later assignment waits, the earlier one goes on": {func(l *lease) {
			l.assign([]Partition{p}, early)
			l.renew(l.begin(), at(0))
			l.assign([]Partition{p, q}, early)
		}, 1, true, false},
		"renewed": {func(l *lease) {
			l.assign([]Partition{p, q}, early)
			l.renew(l.begin(), at(0))
			l.renew(l.begin(), at(5))
		}, 11, true, true},
		"an old answer that comes late": {func(l *lease) {
			l.assign([]Partition{p}, early)
			old := l.begin()
			l.renew(l.begin(), at(5))
			l.renew(old, at(0))
		}, 11, true, false},
		"void (W3)":                 {func(l *lease) { l.assign([]Partition{p}, early); l.renew(l.begin(), at(0)); l.void() }, 1, false, false},
		"renewed after it was void": {func(l *lease) { l.assign([]Partition{p}, early); l.void(); l.renew(l.begin(), at(0)) }, 1, true, false},
		"dropped (W4)": {func(l *lease) {
			l.assign([]Partition{p, q}, early)
			l.renew(l.begin(), at(0))
			l.drop([]Partition{p})
		}, 1, false, true},
		"dropped and assigned again": {func(l *lease) {
			l.assign([]Partition{p}, early)
			l.renew(l.begin(), at(0))
			l.drop([]Partition{p})
			l.assign([]Partition{p}, early)
		}, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLease(length)
			c.do(l)
			if _, ok := l.until(p, at(c.now)); ok != c.p {
				t.Errorf("p held: %v", ok)
			}
			if _, ok := l.until(q, at(c.now)); ok != c.q {
				t.Errorf("q held: %v", ok)
			}
		})
	}
}

func TestLeaseCountsWrites(t *testing.T) {
	l := newLease(7 * time.Second)
	p := []Partition{{"t", 0}}
	now := time.Now()
	if h, _ := l.enter(p[0], now); h != nil {
		t.Fatal("a permit without a lease")
	}
	l.assign(p, early)
	l.renew(l.begin(), now)
	h, until := l.enter(p[0], now)
	again, _ := l.enter(p[0], now)
	if h == nil || again != h || !until.Equal(now.Add(7*time.Second)) {
		t.Fatalf("entered %v until %v", h, until)
	}
	h.leave()
	gone, busy := l.drop(p)
	if gone != 1 || len(busy) != 1 || busy[0] != h {
		t.Fatalf("dropped %d, busy %v", gone, busy)
	}
	h.leave()
	select {
	case <-h.idle:
	default:
		t.Fatal("the last write ended and idle is open")
	}
	if gone, busy = l.drop(p); gone != 0 || len(busy) != 0 {
		t.Fatalf("dropped again: %d, %v", gone, busy)
	}
}

func TestLapse(t *testing.T) {
	l := newLease(time.Second)
	now := time.Now()
	steps := []struct {
		what string
		do   func()
		want bool
	}{
		{"empty", func() {}, false},
		{"assigned, never held", func() { l.assign([]Partition{{"t", 0}}, early) }, false},
		{"held", func() { l.renew(l.begin(), now) }, false},
		{"expired", func() { now = now.Add(time.Second) }, true},
		{"renewed", func() { l.renew(l.begin(), now) }, false},
		{"void", func() { l.void() }, true},
		{"given up", func() { l.drop([]Partition{{"t", 0}}) }, false},
	}
	for _, s := range steps {
		if s.do(); l.lapsed(now) != s.want {
			t.Errorf("%s: lapsed is %v", s.what, !s.want)
		}
	}
}

func early(Partition) bool { return false }

// What a member that lived beside this one may have had comes later than what
// was free when this one joined, or when it began to share a topic.
func TestInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Group: "g"})
		ctx := t.Context()
		inherited := func(topic string, n int32) bool {
			m.lease.renew(m.lease.begin(), time.Now())
			p, ok := m.Enter(topic, n)
			if !ok {
				t.Fatalf("%s/%d is not held", topic, n)
			}
			defer p.Leave()
			return p.Inherited()
		}
		m.Watch([]string{"a"})
		time.Sleep(time.Minute) // until the group is there
		m.assigned(ctx, []Partition{{"a", 0}})
		time.Sleep(DefaultMargin)
		m.assigned(ctx, []Partition{{"a", 1}}) // handed over
		time.Sleep(DefaultSessionTimeout)
		m.assigned(ctx, []Partition{{"a", 0}, {"a", 2}})
		m.Watch([]string{"a", "b"})
		time.Sleep(DefaultHeartbeat)
		m.assigned(ctx, []Partition{{"b", 0}})
		for p, want := range map[Partition]bool{{"a", 0}: false, {"a", 1}: false, {"a", 2}: true, {"b", 0}: false} {
			if got := inherited(p.Topic, p.Partition); got != want {
				t.Errorf("%v: inherited %t, want %t", p, got, want)
			}
		}
	})
}
