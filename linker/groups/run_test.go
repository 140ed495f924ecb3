package groups

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/control"
	"klink/linker/groups/commits"
	"klink/linker/intent"
	"klink/linker/state"
)

// The whole thing by its own clock: events of the tail arrive, a last round is
// made and acknowledged, and nothing is written after that.
func TestRunFollowsAndObeys(t *testing.T) {
	p := newPair(t)
	p.fill(20)
	p.commit(p.srcAdm, "g", "orders", 0, 2, "")
	p.o.Now, p.o.Interval = time.Now, time.Hour
	tail := memTail{make(chan commits.Batch)}
	p.o.NewTail = func(group, topic func(string) bool) Tail {
		if !group("g") || group("excluded") || !topic("orders") || topic("x") {
			t.Error("the tail is told of other groups and topics")
		}
		return tail
	}
	var followed atomic.Int32
	p.o.Last = func(_ context.Context, topics []string) error {
		if acks := p.store.Acks("l", ""); len(acks) > 0 || p.committed("g").At != 9 || len(topics) != 1 || topics[0] != "orders" {
			t.Errorf("what follows from the last offsets of %v is asked for at %d, after %d acknowledgements", topics, p.committed("g").At, len(acks))
		}
		if followed.Add(1) == 1 {
			return errors.New("not yet")
		}
		return nil
	}
	s, err := New(p.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p.store) }()
	p.await(func() bool { o := p.committed("g"); return o != nil && o.At == 2 })

	send := func(offset int64) {
		b := event(offset, 0, 0)
		b.Received, b.Events[0].At, b.Events[0].Partition = time.Now(), time.Now(), 0
		tail.out <- b
	}
	send(5)
	p.await(func() bool { return p.committed("g").At == 5 })

	// The source has moved on, and nobody told: the last round asks.
	p.commit(p.srcAdm, "g", "orders", 0, 9, "")
	number := p.store.command(intent.Command{Verb: intent.Pend, Topics: []string{"orders"}, Switch: "s", Wait: time.Minute})
	p.await(func() bool { return len(p.store.Acks("l", "")) == 1 })
	p.want("g", 9)
	if a := p.store.Acks("l", "")[0]; a.Number != number || a.Worker != "w" || a.Topic != "" {
		t.Errorf("%+v", a)
	}
	if n := followed.Load(); n != 2 {
		t.Errorf("what follows from the last offsets was asked for %d times", n)
	}
	send(12)
	p.store.command(intent.Command{Verb: intent.Promote, Topics: []string{"orders"}, Fence: 1, Switch: "s"})
	p.await(func() bool { return len(p.store.Acks("l", "")) == 2 })
	p.want("g", 9)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if g := s.Report(); len(g) != 1 || g[0].Partitions[0].SourceOffset == nil {
		t.Errorf("without a session the record is shown: %+v", g)
	}
}

// Polls that take long rest for long where there is a tail: what it tells is written
// in between all the same, though the last poll's listing of the target is too old.
func TestRunListsBetweenPolls(t *testing.T) {
	p := newPair(t)
	p.fill(20)
	p.commit(p.srcAdm, "g", "orders", 0, 2, "")
	var lists atomic.Int32
	p.src.ControlKey(kmsg.ListGroups.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		p.src.KeepControl()
		lists.Add(1)
		time.Sleep(700 * time.Millisecond) // so that polls rest for longer than this test waits
		return nil, nil, false
	})
	p.o.Now, p.o.Interval, p.o.Pace.ListedFor = time.Now, 10*time.Millisecond, 900*time.Millisecond
	tail := memTail{make(chan commits.Batch)}
	p.o.NewTail = func(_, _ func(string) bool) Tail { return tail }
	s, err := New(p.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p.store) }()
	p.await(func() bool { o := p.committed("g"); return o != nil && o.At == 2 })
	var before int32
	quiet := func() bool { // no poll is under way, and the last one is long ago
		now := lists.Load()
		time.Sleep(1100 * time.Millisecond)
		before = lists.Load()
		return now == before
	}
	p.await(quiet)
	b := event(5, 0, 0)
	b.Received, b.Events[0].At, b.Events[0].Partition = time.Now(), time.Now(), 0
	tail.out <- b
	p.await(func() bool { return p.committed("g").At == 5 })
	if now := lists.Load(); now != before {
		t.Logf("the source was polled %d times meanwhile: on this machine, nothing is shown of what is between polls", now-before)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (p *pair) await(cond func() bool) {
	p.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			p.t.Fatal("it never came to be")
		}
	}
}

// Another process holds the lease: what it does is shown, and nothing written.
func TestWithoutTheLease(t *testing.T) {
	p := newPair(t)
	p.fill(9)
	p.lease.set(true)
	p.commit(p.srcAdm, "g", "orders", 0, 4, "")
	s, err := New(p.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p.store) }()
	if err := p.store.PutGroups(ctx, []control.GroupRecord{{Link: "l", Group: "g", At: p.now, Offsets: []control.GroupOffset{
		{Topic: "dr.orders", Previous: -1, Written: 3, SourceOffset: 3, At: p.now}}}}); err != nil {
		t.Fatal(err)
	}
	p.await(func() bool { return len(s.Report()) == 1 })
	if g := s.Report()[0]; g.State != state.GroupSynced || *g.Partitions[0].TargetOffset != 3 {
		t.Errorf("%+v", g)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if p.committed("g") != nil {
		t.Error("written without the lease")
	}
}

func TestFilter(t *testing.T) {
	f, err := NewFilter([]string{"billing", "a*", "/x.y/"}, []string{"ab*"})
	if err != nil {
		t.Fatal(err)
	}
	for g, want := range map[string]bool{"billing": true, "Billing": false, "a": true, "abc": false, "x/y": true, "": false} {
		if f.Selects(g) != want {
			t.Errorf("%q: %v", g, !want)
		}
	}
	if got := f.Unmatched([]string{"billing", "ab"}); len(got) != 1 || got[0] != "/x.y/" {
		t.Errorf("%q", got)
	}
	if _, err := NewFilter(nil, []string{"/(/"}); err == nil || !strings.Contains(err.Error(), "exclude[0]") {
		t.Error(err)
	}
}
