package linker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
	"klink/linker/workers"
)

func TestWhoMirrors(t *testing.T) {
	for _, c := range []struct {
		name string
		s    sharing
		want bool
	}{
		{"alone, nothing heard", sharing{alone: true}, true},
		{"alone, and a topic more", sharing{alone: true, Share: workers.Share{Joined: true}}, true},
		{"alone on record, but others have it", sharing{alone: true, Share: workers.Share{Joined: true, Heard: true}}, false},
		{"others on record, nothing heard", sharing{}, false},
		{"others on record, nothing heard for long", sharing{since: joinPatience}, true},
		{"others on record, and a topic more", sharing{since: time.Hour, Share: workers.Share{Joined: true}}, false},
		{"others have it", sharing{since: time.Hour, Share: workers.Share{Joined: true, Heard: true}}, false},
		{"assigned", sharing{Share: workers.Share{Mine: true, Joined: true, Heard: true}}, true},
	} {
		if got := c.s.mirrors(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// twoWorkers are two processes of one link over a world.
type twoWorkers struct {
	w        *world
	group    *memGroup
	one, two *Link
	sends    map[string]*watched
	end      map[string]func()
}

// startTwo runs one process that mirrors the four partitions of a topic, and then
// another one, to which the group gives two of them.
func startTwo(t *testing.T) *twoWorkers {
	t.Helper()
	r := &twoWorkers{w: newWorld(), group: &memGroup{}, sends: map[string]*watched{}, end: map[string]func(){}}
	r.w.add("a", 1, 4)
	r.one = r.begin(t, "one")
	mustBe(t, topicReport(t, r.one, "a"), state.Active, "")
	r.group.assign("one", "a", 0, 1, 2, 3)
	r.two = r.begin(t, "two")
	r.group.assign("two", "a", 2, 3)
	mustBe(t, topicReport(t, r.two, "a"), state.Active, "")
	mustBe(t, topicReport(t, r.one, "a"), state.Active, "")
	return r
}

func (r *twoWorkers) begin(t *testing.T, name string) *Link {
	t.Helper()
	l := r.w.link(t, name)
	r.sends[name] = &watched{world: r.w, appended: map[int32]int{}}
	l.o.Lease, l.o.Target = r.group.member(name), r.sends[name]
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	r.end[name] = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	return l
}

// over ends all processes that still run.
func (r *twoWorkers) over() {
	for _, end := range r.end {
		end()
	}
	r.w.sources.Wait()
}

// equal fails where a target partition is not its source's copy.
func (r *twoWorkers) equal(t *testing.T) {
	t.Helper()
	time.Sleep(2 * discoverEvery)
	synctest.Wait()
	for n := range int32(4) {
		p := feed.Partition{Topic: "a", Partition: n}
		if err := sameLogs(r.w.log(r.w.src, p).records(), r.w.log(r.w.dst, p).records()); err != nil {
			t.Errorf("partition %d: %v", n, err)
		}
	}
}

// TestG3_WorkersShareATopic: each appends to its own partitions and shows all; what
// they record is whole, and they do not write against each other.
func TestG3_WorkersShareATopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		for n := range int32(4) {
			r.w.more("a", n, 5)
		}
		r.equal(t)
		for _, l := range []*Link{r.one, r.two} {
			got := topicReport(t, l, "a")
			mustBe(t, got, state.Active, "")
			for n, p := range got.Partitions {
				owner := map[bool]string{true: "one", false: "two"}[n < 2]
				if p.Worker != owner || *p.TargetEnd != 15 || p.State != state.Active {
					t.Errorf("%s shows %+v", l.o.Worker, p)
				}
			}
			if own := l.own().Topics[0].Partitions; len(own) != 2 {
				t.Errorf("%s counts %d partitions", l.o.Worker, len(own))
			}
		}
		for n := range int32(4) {
			first, _ := r.sends["one"].counts(n)
			second, refused := r.sends["two"].counts(n)
			if (n < 2) != (second == 0) || refused > 0 || n > 1 && first != 1 {
				t.Errorf("partition %d: one appended %d, two %d, refused %d", n, first, second, refused)
			}
		}
		time.Sleep(time.Minute)
		r.w.mu.Lock()
		puts := r.w.puts
		r.w.mu.Unlock()
		time.Sleep(time.Hour)
		r.w.mu.Lock()
		if r.w.puts != puts {
			t.Errorf("%d states recorded in a quiet hour", r.w.puts-puts)
		}
		r.w.mu.Unlock()
		r.over()
	})
}

// TestG3_HandOverUnderTraffic: whoever gives a partition up has nothing under way
// then, so that no append of either is refused.
func TestG3_HandOverUnderTraffic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		for i := range 40 {
			for n := range int32(4) {
				r.w.more("a", n, 3)
			}
			to := []string{"one", "two"}[i%2]
			r.group.assign(to, "a", int32(i%4), int32((i+1)%4))
			time.Sleep(7 * time.Millisecond)
		}
		r.equal(t)
		for name, s := range r.sends {
			if _, refused := s.counts(0); refused > 0 {
				t.Errorf("%d appends of %s did not land", refused, name)
			}
		}
		r.end["one"]() // the other one gets all of it
		r.group.assign("two", "a", 0, 1, 2, 3)
		for n := range int32(4) {
			r.w.more("a", n, 3)
		}
		r.equal(t)
		for _, p := range topicReport(t, r.two, "a").Partitions {
			if p.Worker != "two" {
				t.Errorf("%+v", p)
			}
		}
		r.over()
	})
}

// TestOrdersOfSharedTopics: each process answers for what it mirrored.
func TestOrdersOfSharedTopics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		for n := range int32(4) {
			r.w.more("a", n, 5)
		}
		r.equal(t)
		r.w.give(t, intent.Command{Verb: intent.Failover, Topics: []string{"a"}, Switch: "s", Fence: 1})
		for _, l := range []*Link{r.one, r.two} {
			mustBe(t, soonReport(t, l, "a"), state.Stopped, "")
		}
		for name, first := range map[string]int32{"one": 0, "two": 2} {
			ack := r.w.lastAck("a", name)
			if len(ack.Partitions) != 2 || ack.Partitions[0] != (control.Acked{Partition: first, End: 15, Wrote: true}) {
				t.Errorf("%s acknowledged %+v", name, ack)
			}
		}
		r.over()
	})
}

// TestOrdersOfATopicThatNobodyHolds: its source is gone, so that the group shares it no
// more; the one process that there is answers for it, and nobody waits in vain.
func TestOrdersOfATopicThatNobodyHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, g := newWorld(), &memGroup{}
		w.add("a", 1, 2)
		l := w.link(t, "w")
		l.o.Lease = g.member("w")
		g.member("nobody")
		g.assign("w", "a", 0, 1)
		end := w.start(t, l)
		mustBe(t, topicReport(t, l, "a"), state.Active, "")
		w.mu.Lock()
		w.found = []Found{{Topic: "a", Target: "a", Trouble: &Trouble{Reason: state.TopicMissing, OnSource: true}}}
		w.mu.Unlock()
		topicReport(t, l, "a") // after a while
		g.assign("nobody", "a", 0, 1)
		mustBe(t, topicReport(t, l, "a"), state.Halted, state.SourceDeleted)
		w.give(t, intent.Command{Verb: intent.Remove, Topics: []string{"a"}})
		mustBe(t, soonReport(t, l, "a"), state.Removed, "")
		if ack := w.lastAck("a", "w"); ack.Number != 1 || len(ack.Partitions) != 2 {
			t.Errorf("acknowledged %+v", ack)
		}
		end()
	})
}

// TestALateProcessWaitsForTheGroup: beside others it mirrors nothing before it hears
// what is its own; where the group does not answer it begins all the same.
func TestALateProcessWaitsForTheGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		third := r.begin(t, "three")
		time.Sleep(joinPatience - promptly)
		synctest.Wait()
		if n, refused := r.sends["three"].counts(0); n+refused > 0 {
			t.Error("it appended before it heard anything")
		}
		for _, p := range third.Report().Topics[0].Partitions {
			if p.State != state.Pending || *p.TargetEnd != 10 {
				t.Errorf("%+v", p)
			}
		}
		for name := range r.end { // they die, and the group goes silent
			if name != "three" {
				r.end[name]()
			}
		}
		for n := range int32(4) {
			r.w.more("a", n, 5)
		}
		mustBe(t, topicReport(t, third, "a"), state.Active, "")
		r.equal(t)
		r.over()
	})
}

// TestK6_UnguardedUnderTheLease: where the target forgets producers, whoever holds
// the lease appends, whoever is on record.
func TestK6_UnguardedUnderTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		for partition, want := range []bool{true, true, false, false} {
			_, one := r.one.Mine(context.Background(), "a", int32(partition))
			_, two := r.two.Mine(context.Background(), "a", int32(partition))
			if one != want || two == want {
				t.Errorf("partition %d: %t and %t", partition, one, two)
			}
		}
		r.over()
	})
}

// TestMovedWhilePaused: what was given to another process meanwhile goes on there,
// and is shown as its.
func TestMovedWhilePaused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		r.w.give(t, intent.Command{Verb: intent.Pause, Topics: []string{"a"}})
		mustBe(t, soonReport(t, r.one, "a"), state.Paused, "")
		r.group.assign("two", "a", 0)
		r.group.assign("one", "a", 3)
		mustBe(t, topicReport(t, r.one, "a"), state.Paused, "")
		r.w.give(t, intent.Command{Verb: intent.Resume, Topics: []string{"a"}})
		for n := range int32(4) {
			r.w.more("a", n, 5)
		}
		r.equal(t)
		for _, l := range []*Link{r.one, r.two} {
			got := topicReport(t, l, "a")
			mustBe(t, got, state.Active, "")
			for n, p := range got.Partitions {
				if owner := []string{"two", "one", "two", "one"}[n]; p.Worker != owner || *p.TargetEnd != 15 {
					t.Errorf("%s shows %+v", l.o.Worker, p)
				}
			}
		}
		r.over()
	})
}

// TestRecreateBySeveral: whichever process makes the target anew, the others follow,
// though they never saw it gone.
func TestRecreateBySeveral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startTwo(t)
		r.w.give(t, intent.Command{Verb: intent.Recreate, Topics: []string{"a"}})
		mustBe(t, soonReport(t, r.two, "a"), state.TargetUnavailable, state.TopicRefused)
		r.w.mu.Lock()
		delete(r.w.targets, "a")
		r.w.mu.Unlock()
		r.equal(t)
		for _, l := range []*Link{r.one, r.two} {
			mustBe(t, topicReport(t, l, "a"), state.Active, "")
		}
		if g := r.w.records["a"].Generation; g != 1 {
			t.Errorf("generation %d", g)
		}
		r.over()
	})
}
