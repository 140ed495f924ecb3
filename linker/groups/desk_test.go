package groups

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/groups/commits"
	"klink/linker/state"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func all(string, string) bool { return true }

// listed makes groups known as ones that are carried.
func listed(d *Desk, asked float64, groups ...string) {
	l := Listing{Groups: make(map[string]bool), Whole: true, Asked: at(asked)}
	for _, g := range groups {
		l.Groups[g] = true
	}
	d.Listed(l)
}

func event(offset int64, committed, received float64) commits.Batch {
	return commits.Batch{Events: []commits.Event{{Group: "g", Topic: srcP.Topic, Partition: srcP.Partition, Offset: offset, At: at(committed)}},
		Received: at(received)}
}

func answer(asked float64, offset int64) Answer {
	a := Answer{Group: "g", Asked: at(asked)}
	if offset != feed.Unknown {
		a.Offsets = []SourceOffset{{Partition: srcP, Offset: offset}}
	}
	return a
}

// Of one offset the newer of what the tail and the polls tell counts.
func TestNewerOfTailAndPoll(t *testing.T) {
	const none = feed.Unknown
	type step struct {
		tail                bool
		offset              int64
		told, asked, commit float64 // told: an event's receipt; asked: a poll's question
	}
	tail := func(offset int64, commit, told float64) step {
		return step{tail: true, offset: offset, commit: commit, told: told}
	}
	poll := func(offset int64, asked float64) step { return step{offset: offset, asked: asked} }
	for name, c := range map[string]struct {
		steps []step
		want  int64
	}{
		"poll":                           {[]step{poll(5, 1)}, 5},
		"tail":                           {[]step{tail(5, 1, 1)}, 5},
		"poll after tail":                {[]step{tail(5, 1, 1), poll(6, 2)}, 6},
		"rewind by poll":                 {[]step{tail(5, 1, 1), poll(2, 2)}, 2},
		"rewind by tail":                 {[]step{poll(5, 1), tail(2, 2, 2)}, 2},
		"poll asked before the event":    {[]step{tail(5, 2, 2), poll(3, 1)}, 5},
		"gone in a poll asked before":    {[]step{tail(5, 2, 2), poll(none, 1)}, 5},
		"gone in a poll asked after":     {[]step{tail(5, 2, 2), poll(none, 3)}, none},
		"tombstone":                      {[]step{poll(5, 1), tail(none, 2, 2)}, none},
		"tombstone, poll asked before":   {[]step{tail(none, 2, 2), poll(5, 1)}, 5}, // never known: nothing to delete
		"deleted, then poll from before": {[]step{poll(4, 0), tail(none, 2, 2), poll(5, 1)}, none},
		"made again after a tombstone":   {[]step{poll(4, 0), tail(none, 2, 2), tail(0, 3, 3)}, 0},
		"event that the tail is behind":  {[]step{poll(50, 100), tail(7, 10, 101)}, 50},
		"event behind, but ahead":        {[]step{poll(50, 100), tail(70, 10, 101)}, 70},
		"clocks that are apart":          {[]step{poll(50, 100), tail(7, 99, 101)}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDesk(DefaultPace())
			listed(d, 0, "g")
			for _, s := range c.steps {
				if s.tail {
					d.Events(event(s.offset, s.commit, s.told), all)
				} else {
					d.Answered(answer(s.asked, s.offset))
				}
			}
			got := int64(none)
			if f := d.groups["g"].facts[srcP]; f != nil {
				got = f.offset
			}
			if got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// Whatever the order: a poll never takes back what an event told later, and after
// a poll that was asked after everything the source's offsets are known.
func TestOrderOfEventsAndPolls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDesk(DefaultPace())
		now, version := 1.0, int64(0)
		truth := int64(feed.Unknown)
		var queue []commits.Batch
		type question struct {
			asked float64
			saw   int64
		}
		var open []question
		listed(d, 0, "g")
		known := func() int64 {
			if f := d.groups["g"].facts[srcP]; f != nil {
				return f.offset
			}
			return feed.Unknown
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Float64Range(0.001, 3).Draw(t, "dt")
			switch rapid.SampledFrom([]string{"commit", "deliver", "ask", "answer"}).Draw(t, "do") {
			case "commit":
				version++ // offsets that rise tell versions apart
				truth = version
				queue = append(queue, event(truth, now, 0))
			case "deliver":
				if len(queue) > 0 {
					b := queue[0]
					b.Received = at(now)
					queue = queue[1:]
					d.Events(b, all)
				}
			case "ask":
				open = append(open, question{now, truth})
			case "answer":
				if len(open) > 0 {
					q := open[0]
					open = open[1:]
					before := known()
					d.Answered(answer(q.asked, q.saw))
					if len(open) == 0 && known() < before && q.saw < before {
						// Only an older poll that was answered after a newer one could do
						// that, and questions are answered in turn here.
						t.Fatalf("a poll that saw %d made %d of %d", q.saw, known(), before)
					}
				}
			}
		}
		now += 10
		for _, b := range queue {
			b.Received = at(now)
			d.Events(b, all)
		}
		d.Answered(answer(now+1, truth))
		if known() != truth {
			t.Fatalf("%d is known, the source has %d", known(), truth)
		}
	})
}

// C016: a listing that is not whole takes nothing away; C018: groups without
// offsets on mirrored topics are not shown.
func TestListing(t *testing.T) {
	d := NewDesk(DefaultPace())
	listed(d, 0, "g", "idle")
	d.Answered(answer(1, 5))
	ask := d.Listed(Listing{Groups: map[string]bool{"new": true, "share": false}, Asked: at(2), Unmatched: []string{"x*"}})
	if len(ask) != 3 {
		t.Errorf("asked for %q", ask)
	}
	if r := d.Report(at(2)); len(r) != 2 || r[0].Group != "g" || r[1].Reason != string(NotCarried) {
		t.Errorf("%+v", r)
	}
	d.Listed(Listing{Groups: map[string]bool{"share": false}, Whole: true, Asked: at(3), Unmatched: []string{"x*"}})
	r := d.Report(at(3))
	if len(r) != 3 || r[0].Partitions[0].SourceOffset != nil || r[2].Reason != string(FilterUnmatched) || r[2].Group != "x*" {
		t.Errorf("%+v", r)
	}
}

// A group that an event names first waits for a listing, which tells its kind.
func TestStrangersWaitForAListing(t *testing.T) {
	d := NewDesk(DefaultPace())
	if !d.Events(event(5, 1, 1), all) {
		t.Error("no listing is asked for")
	}
	free := func(int32) int { return 10 }
	if due, _ := d.Due(at(9), free); len(due) != 0 {
		t.Errorf("%v", due)
	}
	d.Listed(Listing{Groups: map[string]bool{"g": false}, Asked: at(9)})
	if due, _ := d.Due(at(10), free); len(due) != 0 || d.Report(at(10))[0].Reason != string(NotCarried) {
		t.Errorf("%v %+v", due, d.Report(at(10)))
	}
	listed(d, 10, "g")
	if due, _ := d.Due(at(11), free); len(due[noCoordinator]) != 1 {
		t.Errorf("%v", due)
	}
}

// Changes are gathered; a coordinator that is busy holds up its own groups alone.
func TestDue(t *testing.T) {
	d := NewDesk(Pace{Gather: 80 * time.Millisecond, RetryMax: time.Second, ClampMax: time.Second, Verify: time.Minute, ListedFor: time.Minute})
	d.Peers(map[string]Peer{"g": {NoMembers, 1}, "h": {NoMembers, 2}}, true, at(0))
	listed(d, 0, "g", "h")
	free := func(lane int32) int { return int(lane % 2) } // none of 2's
	if due, _ := d.Due(at(0.2), free); len(due[1]) != 1 || len(due[2]) != 0 {
		t.Errorf("%v", due)
	}
	d.Events(event(5, 1, 1), all) // while g is busy
	if due, _ := d.Due(at(2), free); len(due) != 0 {
		t.Errorf("%v: two cycles of one group", due)
	}
	d.Stand("g", nil, nil, at(2))
	d.groups["g"].facts[srcP].verdict = Synced
	d.Done("g", false, at(2))
	due, next := d.Due(at(2.01), free)
	if len(due) != 0 || !next.Equal(at(2.08)) {
		t.Errorf("%v, next at %s", due, next.Sub(start))
	}
	if due, _ := d.Due(at(2.08), free); len(due[1]) != 1 {
		t.Errorf("%v", due)
	}
	d.groups["g"].facts[srcP].verdict = Clamped
	d.groups["g"].wait.pause = time.Second
	d.Done("g", true, at(3))
	if due, next := d.Due(at(3.9), free); len(due) != 0 || !next.Equal(at(4.08)) {
		t.Errorf("%v, next at %s", due, next.Sub(start))
	}
	d.Events(event(6, 3.1, 3.1), all)
	if due, _ := d.Due(at(3.18), free); len(due[1]) != 1 {
		t.Errorf("%v: a new commit waits for an offset that is clamped", due)
	}
	d.groups["g"].facts[srcP].verdict = Failed
	d.Done("g", true, at(4))
	d.Events(event(7, 4, 4), all)
	if due, _ := d.Due(at(4.1), free); len(due) != 0 {
		t.Errorf("%v: no pause after a failure", due)
	}
}

func TestReport(t *testing.T) {
	d := NewDesk(DefaultPace())
	listed(d, 0, "g")
	d.Answered(answer(1, 5))
	f := d.groups["g"].facts[srcP]
	want := func(now float64, g state.Group) {
		t.Helper()
		if diff := cmp.Diff([]state.Group{g}, d.Report(at(now))); diff != "" {
			t.Error(diff)
		}
	}
	n := func(v int64) *int64 { return &v }
	s := func(v float64) *float64 { return &v }
	row := state.GroupPartition{SourceTopic: "orders", Partition: 1, SourceOffset: n(5), Reason: "PENDING"}
	want(2, state.Group{Group: "g", State: state.GroupSyncing, Partitions: []state.GroupPartition{row}})
	f.target, f.stands, f.verdict, f.synced = 5, 5, Synced, at(1)
	row.TargetOffset, row.Reason, row.AgeSeconds = n(5), "", s(1)
	want(2, state.Group{Group: "g", State: state.GroupSynced, Partitions: []state.GroupPartition{row}})
	d.Answered(answer(3, 5)) // confirmed
	row.AgeSeconds = s(0.5)
	want(3.5, state.Group{Group: "g", State: state.GroupSynced, Partitions: []state.GroupPartition{row}})
	d.Confirm(at(3.2), at(3.4)) // of no use: the tail began later
	want(3.5, state.Group{Group: "g", State: state.GroupSynced, Partitions: []state.GroupPartition{row}})
	d.Confirm(at(3), at(3.25)) // the tail tells that it is so still
	row.AgeSeconds = s(0.25)
	want(3.5, state.Group{Group: "g", State: state.GroupSynced, Partitions: []state.GroupPartition{row}})
	d.Answered(Answer{Group: "g", Asked: at(4), Trouble: NoPermission}) // and then no more: the age rises (C030)
	row.AgeSeconds = s(6.75)
	want(10, state.Group{Group: "g", State: state.GroupWaiting, Reason: "NO_PERMISSION", Partitions: []state.GroupPartition{row}})
	if age, ok := d.Stalest(at(10)); !ok || age != 6750*time.Millisecond {
		t.Errorf("%s %v", age, ok)
	}
}

// What is on record is shown and used until the source has said something.
func TestRestore(t *testing.T) {
	d := NewDesk(DefaultPace())
	source := func(target string) (string, bool) { return "orders", target == dstP.Topic }
	d.Restore(control.GroupRecord{Link: "l", Group: "g", At: at(1), Offsets: []control.GroupOffset{
		{Topic: dstP.Topic, Partition: dstP.Partition, Previous: 3, Written: 5, SourceOffset: 9, At: at(0), Reason: "CLAMPED"},
		{Topic: "other", Partition: 0, Previous: feed.Unknown, Written: 5, SourceOffset: 5, At: at(0)},
	}}, source, at(2))
	g := d.Report(at(2))[0]
	if len(g.Partitions) != 1 || *g.Partitions[0].SourceOffset != 9 || *g.Partitions[0].TargetOffset != 5 || g.Partitions[0].Reason != "CLAMPED" {
		t.Errorf("%+v", g)
	}
	look := Look{Mirrors: mirrors(), Committed: map[feed.Partition]int64{dstP: 5}, Metadata: map[feed.Partition]string{dstP: "m"}, Now: at(3)}
	d.Peers(nil, true, at(3))
	in := d.Input("g", look)
	if in.Source[0].Metadata != "m" || in.Source[0].Offset != 9 || in.Members != NoMembers {
		t.Errorf("%+v", in)
	}
}

func mirrors() map[string]Mirror {
	return map[string]Mirror{"orders": {Source: "orders", Target: dstP.Topic}}
}

// U7: unchanged offsets are renewed after their time, those of an earlier process
// within the first period, and only klink's own.
func TestRenewal(t *testing.T) {
	d := NewDesk(DefaultPace())
	d.Peers(nil, true, at(0))
	listed(d, 0, "g")
	d.Answered(answer(1, 5))
	record := control.GroupRecord{Group: "g", At: at(0), Offsets: []control.GroupOffset{{Topic: dstP.Topic, Partition: dstP.Partition, Previous: 4, Written: 5}}}
	look := func(now float64, have int64) []Commit {
		d.Peers(nil, true, at(now))
		l := Look{Mirrors: mirrors(), Committed: map[feed.Partition]int64{dstP: have}, Record: record, RenewAfter: 10 * time.Second, Now: at(now)}
		in := d.Input("g", l)
		in.Bounds = map[feed.Partition]Bounds{dstP: {0, 100}}
		c, standings := Decide(in)
		var outcomes []Outcome
		for _, one := range c {
			outcomes = append(outcomes, Outcome{Commit: one})
		}
		d.Stand("g", standings, outcomes, at(now))
		return c
	}
	first := 0
	for s := range 12 {
		if c := look(float64(s+2), 5); len(c) == 1 && c[0].Renewal() {
			first = s + 2
			break
		}
	}
	if first == 0 {
		t.Fatal("never renewed")
	}
	if c := look(float64(first)+9, 5); len(c) != 0 {
		t.Errorf("renewed too soon: %+v", c)
	}
	if c := look(float64(first)+10, 5); len(c) != 1 {
		t.Error("not renewed")
	}
	record.Offsets[0].Previous, record.Offsets[0].Written = 3, 4
	d.groups["g"].facts[srcP].own = own{}
	if c := look(float64(first)+99, 5); len(c) != 0 {
		t.Errorf("a stranger's offset is renewed: %+v", c)
	}
}

// U4: what this process knows of its own writes counts as long as nobody else wrote
// the record; what was refused is taken off it.
func TestWhoseOffsets(t *testing.T) {
	rec := control.GroupOffset{Previous: 3, Written: 5}
	var o own
	check := func(what string, trusted bool, may []int64, previous, written int64) {
		t.Helper()
		p, w := o.recorded(rec, trusted)
		if diff := cmp.Diff(may, o.may(rec, trusted)); diff != "" || p != previous || w != written {
			t.Errorf("%s: %s, on record %d %d", what, diff, p, w)
		}
	}
	check("another process's", true, []int64{3, 5}, 3, 5)
	o.answered(5)
	check("done", true, []int64{5}, 3, 5)
	check("done, and then somebody else wrote", false, []int64{3, 5}, 3, 5)
	o.answered(3)
	check("refused", true, []int64{3}, 3, 3)
	o.answered(feed.Unknown)
	check("refused, where nothing was", true, []int64{}, feed.Unknown, feed.Unknown)
	o.unanswered(5, at(0))
	check("no answer", true, []int64{3, 5, 5}, 3, 5)
	rec = control.GroupOffset{Previous: 5, Written: 7}
	o.answered(7)
	check("the next one done", true, []int64{7, 5}, 5, 7)
	o.settle(at(0).Add(lateFor + time.Second))
	check("much later", true, []int64{7}, 5, 7)
}

// Which kinds of groups are carried, and what the target's list means.
func TestKindsOfGroups(t *testing.T) {
	for kind, want := range map[string]bool{"": true, "classic": true, "consumer": true, "share": false, "streams": false, "of tomorrow": false} {
		if carried(kadm.ListedGroup{GroupType: kind}) != want {
			t.Errorf("%q: %v", kind, !want)
		}
	}
	for st, want := range map[string]Members{"Empty": NoMembers, "Dead": NoMembers, "": NoMembers, "Stable": HasMembers, "PreparingRebalance": HasMembers,
		"CompletingRebalance": HasMembers, "Assigning": HasMembers, "Reconciling": HasMembers, "Unknown": HasMembers} {
		if got := peer(kadm.ListedGroup{State: st}).Members; got != want {
			t.Errorf("%q: %v, want %v", st, got, want)
		}
	}
}

// Every verdict has its text.
func TestEveryVerdictIsExplained(t *testing.T) {
	for _, v := range []Verdict{Pending, Unmapped, Clamped, BelowStart, TargetOwned, GroupActive, GroupUnknown, GroupType, NotCarried, TargetUnknown, NotAligned,
		SourceDeleted, NoPermission, Failed, MetadataDropped, ControlUnwritable, FilterUnmatched, TopicPaused, TopicPending, TopicStopped, TopicRemoved} {
		if v.About().Explanation == "" {
			t.Errorf("%s has no explanation", v)
		}
	}
	if len(about) != 21 || Synced.About() != (About{}) {
		t.Errorf("%d texts", len(about))
	}
}
