package groups

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/groups/commits"
)

// sim is a source and a target with one group, and klink between them, which can
// be killed at any time. Offsets that klink carries are even, strangers commit
// odd ones.
type sim struct {
	t       *rapid.T
	desk    *Desk
	now     float64
	source  map[feed.Partition]int64
	target  map[feed.Partition]int64
	hw      map[feed.Partition]int64
	foreign map[feed.Partition]bool // a stranger committed there last
	touched map[feed.Partition]bool // a stranger ever did
	late    []Commit
	// crossed: a late commit came after a newer one, and nobody has looked since. A
	// process that is killed then takes its own write for a stranger's.
	crossed map[feed.Partition]bool
	record  control.GroupRecord
}

func targetOf(p feed.Partition) feed.Partition {
	return feed.Partition{Topic: dstP.Topic, Partition: p.Partition}
}

func newSim(t *rapid.T) *sim {
	s := &sim{t: t, now: 1, source: make(map[feed.Partition]int64), target: make(map[feed.Partition]int64),
		hw: make(map[feed.Partition]int64), foreign: make(map[feed.Partition]bool), touched: make(map[feed.Partition]bool), crossed: make(map[feed.Partition]bool),
		record: control.GroupRecord{Link: "l", Group: "g"}}
	for i := range int32(2) {
		s.hw[feed.Partition{Topic: dstP.Topic, Partition: i}] = 100
	}
	s.start()
	return s
}

// start is a new process: all that it knows is on record.
func (s *sim) start() {
	s.desk = NewDesk(Pace{Gather: time.Millisecond, RetryMax: time.Millisecond, ClampMax: time.Millisecond, Verify: time.Millisecond, ListedFor: time.Hour})
	s.desk.Restore(s.record, func(target string) (string, bool) { return "orders", true }, at(s.now))
	s.desk.Peers(nil, true, at(s.now))
	s.late = nil
	for p := range s.crossed {
		s.touched[p] = true
	}
}

func (s *sim) commit(p feed.Partition, offset int64, tail bool) {
	if s.source[p] = offset; offset < 0 {
		delete(s.source, p)
	}
	if tail {
		s.desk.Events(commits.Batch{Received: at(s.now), Events: []commits.Event{{Group: "g", Topic: p.Topic, Partition: p.Partition, Offset: offset, At: at(s.now)}}}, all)
	}
}

func (s *sim) poll() {
	l := Listing{Groups: map[string]bool{}, Whole: true, Asked: at(s.now)}
	if len(s.source) > 0 {
		l.Groups["g"] = true
	}
	for range s.desk.Listed(l) {
		a := Answer{Group: "g", Asked: at(s.now)}
		for p, o := range s.source {
			a.Offsets = append(a.Offsets, SourceOffset{Partition: p, Offset: o})
		}
		s.desk.Answered(a)
	}
}

// apply is a commit of klink's reaching the target's coordinator.
func (s *sim) apply(c Commit) {
	have := s.target[c.Partition]
	switch {
	case s.foreign[c.Partition] && have != c.Offset:
		s.t.Fatalf("klink put %d over a stranger's %d", c.Offset, have)
	case c.Offset > s.hw[c.Partition]:
		s.t.Fatalf("klink put %d beyond %d", c.Offset, s.hw[c.Partition])
	}
	s.target[c.Partition] = c.Offset
}

// look is one cycle; crash ends the process after the record, or after the
// commits.
func (s *sim) look(fate func(Commit) string, crash string) (wrote bool) {
	due, _ := s.desk.Due(at(s.now), func(int32) int { return 10 })
	if len(due) == 0 {
		return false
	}
	l := Look{Mirrors: mirrors(), Committed: make(map[feed.Partition]int64), Record: s.record, RenewAfter: time.Hour, Now: at(s.now)}
	for p, o := range s.target {
		l.Committed[p] = o
	}
	in := s.desk.Input("g", l)
	in.Bounds = make(map[feed.Partition]Bounds)
	for p, hw := range s.hw {
		in.Bounds[p] = Bounds{0, hw}
	}
	list, standings := Decide(in)
	next, news := s.desk.Record("g", l, list, standings)
	if news {
		s.record = next
		s.desk.Put("g", next.At)
	}
	if crash == "recorded" {
		s.start()
		return false
	}
	var outcomes []Outcome
	for _, c := range list {
		switch fate(c) {
		case "done":
			s.apply(c)
			outcomes = append(outcomes, Outcome{Commit: c})
		case "refused":
			outcomes = append(outcomes, Outcome{Commit: c, Verdict: NoPermission})
		case "done, not told":
			s.apply(c)
			outcomes = append(outcomes, Outcome{Commit: c, Verdict: Failed, Unanswered: true})
		case "not done, not told":
			outcomes = append(outcomes, Outcome{Commit: c, Verdict: Failed, Unanswered: true})
		case "late":
			s.late = append(s.late, c)
			outcomes = append(outcomes, Outcome{Commit: c, Verdict: Failed, Unanswered: true})
		}
	}
	if crash == "committed" {
		s.start()
		return true
	}
	clear(s.crossed)
	s.desk.Stand("g", standings, outcomes, at(s.now))
	s.desk.Done("g", len(outcomes) > 0, at(s.now))
	return len(list) > 0
}

var fates = []string{"done", "refused", "done, not told", "not done, not told", "late"}

// Whatever happens in whatever order, klink's own writes are known as such, also
// after a kill -9, and a stranger's are never replaced (U1, U4); and once it is
// quiet, the target has what the source has, as far as the mirror goes (U2).
func TestAnyOrderOfAnything(t *testing.T) { rapid.Check(t, anyOrder) }

func FuzzAnyOrderOfAnything(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyOrder)) }

func anyOrder(t *rapid.T) {
	s := newSim(t)
	partition := func() feed.Partition {
		return feed.Partition{Topic: "orders", Partition: rapid.Int32Range(0, 1).Draw(t, "partition")}
	}
	even := rapid.Custom(func(t *rapid.T) int64 { return 2 * rapid.Int64Range(0, 60).Draw(t, "offset") })
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		s.now += rapid.Float64Range(0.01, 0.2).Draw(t, "dt")
		switch rapid.SampledFrom([]string{"commit", "commit", "poll", "look", "look", "look", "stranger", "late", "kill", "mirror", "delete"}).Draw(t, "do") {
		case "commit":
			s.commit(partition(), even.Draw(t, "to"), rapid.Bool().Draw(t, "tail"))
		case "delete":
			s.commit(partition(), -1, rapid.Bool().Draw(t, "tail"))
		case "poll":
			s.poll()
		case "look":
			s.look(func(Commit) string { return rapid.SampledFrom(fates).Draw(t, "fate") },
				rapid.SampledFrom([]string{"", "", "", "recorded", "committed"}).Draw(t, "crash"))
		case "stranger":
			p := targetOf(partition())
			s.target[p] = 2*rapid.Int64Range(0, 50).Draw(t, "theirs") + 1
			s.foreign[p], s.touched[p] = true, true
			s.late = slices.DeleteFunc(s.late, func(c Commit) bool { return c.Partition == p })
		case "late":
			if len(s.late) > 0 {
				c := s.late[0]
				s.late = s.late[1:]
				s.crossed[c.Partition] = true
				s.apply(c)
			}
		case "kill":
			s.start()
		case "mirror":
			p := targetOf(partition())
			s.hw[p] += 2 * rapid.Int64Range(0, 10).Draw(t, "more")
		}
	}
	s.quiet()
}

// quiet lets things end well, and looks at the result.
func (s *sim) quiet() {
	for range 20 {
		s.now++
		s.poll()
		s.desk.Verify(at(s.now), time.Second)
		s.look(func(Commit) string { return "done" }, "")
	}
	for p, want := range s.source {
		d := targetOf(p)
		if s.touched[d] {
			continue
		}
		if got, ok := s.target[d]; !ok || got != min(want, s.hw[d]) {
			s.t.Fatalf("%v: the target has %d (%v), the source %d, the mirror ends at %d; on record is %+v, known %+v", p, got, ok, want, s.hw[d], s.record, s.desk.groups["g"].facts[p])
		}
	}
}
