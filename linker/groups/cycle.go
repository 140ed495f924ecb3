package groups

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/translate/exact"
)

const (
	// leaseWait is how soon a look is tried again that the lease did not allow.
	leaseWait = 250 * time.Millisecond
	// recordEvery is how often a record is written where no offset is, recordAgain
	// how often where not even a reason changed: for the times in it.
	recordEvery = 2 * time.Second
	recordAgain = time.Minute
)

// task is one group in a cycle.
type task struct {
	group     string
	look      Look
	commits   []Commit
	standings []Standing
	record    control.GroupRecord
	// news: the record says more than the one before; gone: there is nothing left
	// to have on record.
	news, gone bool
	outcomes   []Outcome
}

// changes tells whether a commit changes an offset, and so has to be on record.
func (t *task) changes() bool {
	for _, c := range t.commits {
		if !c.Renewal() {
			return true
		}
	}
	return false
}

// tells tells whether the record is worth writing for what it says alone.
func (t *task) tells() bool {
	age := t.look.Now.Sub(t.look.Record.At)
	return len(t.record.Offsets) > 0 && (t.news && age >= recordEvery || age >= recordAgain)
}

// bar takes all commits back that are for a reason not to be sent.
func (t *task) bar(why func(Commit) Verdict) {
	kept := t.commits[:0]
	for _, c := range t.commits {
		if v := why(c); v != Synced {
			t.outcomes = append(t.outcomes, Outcome{Commit: c, Verdict: v})
			continue
		}
		kept = append(kept, c)
	}
	t.commits = kept
}

// cycle looks at groups of one coordinator and writes what they lack.
func (s *session) cycle(ctx context.Context, lane int32, groups []string) {
	defer s.ended(lane)
	if !s.ready(ctx) {
		s.postpone(groups)
		return
	}
	tasks := s.decide(ctx, groups)
	s.putOnRecord(ctx, tasks)
	s.commitAll(ctx, tasks)
	if ctx.Err() != nil {
		s.postpone(groups)
		return
	}
	s.settle(ctx, tasks)
}

func (s *session) lease() (until time.Time, held bool) { return s.o.Lease.Held(control.TopicName, 0) }

// ready tells whether the lease is held. After it was not, another process may
// have written: then the control topic is read to its end first.
func (s *session) ready(ctx context.Context) bool {
	_, held := s.lease()
	s.mu.Lock()
	s.lapsed = s.lapsed || !held
	lapsed := s.lapsed
	s.mu.Unlock()
	if !held || !lapsed {
		return held
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if s.store.CatchUp(ctx) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapsed = false
	return true
}

func (s *session) postpone(groups []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range groups {
		s.desk.Postpone(g, s.o.Now(), leaseWait)
	}
}

// ended makes place for the next cycle of a coordinator's groups.
func (s *session) ended(lane int32) {
	s.mu.Lock()
	s.lanes[lane]--
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
	signal(s.wake)
}

// decide asks the target and gives what each group lacks.
func (s *session) decide(ctx context.Context, groups []string) []*task {
	got := s.dst.offsets(ctx, groups)
	mirrors := s.view()
	s.mu.Lock()
	places := s.desk.Places(groups, mirrors)
	s.mu.Unlock()
	translated := s.translate(places, mirrors)
	ends := s.bounds.of(ctx, wantedOf(places, Look{Mirrors: mirrors, Translated: translated}))

	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := make([]*task, len(groups))
	for i, g := range groups {
		t := &task{group: g, look: Look{Mirrors: mirrors, Translated: translated, Accept: s.accepts[g], RenewAfter: s.renewAfter,
			Now: s.o.Now().UTC().Round(0), Record: control.GroupRecord{Link: s.o.Link, Group: g}}}
		t.look.told(got[g])
		if r, ok := s.store.Group(s.o.Link, g); ok {
			t.look.Record = r
		}
		in := s.desk.Input(g, t.look)
		in.Bounds = ends
		t.commits, t.standings = Decide(in)
		t.record, t.news = s.desk.Record(g, t.look, t.commits, t.standings)
		t.gone = len(t.record.Offsets) == 0 && len(t.look.Record.Offsets) > 0
		tasks[i] = t
	}
	return tasks
}

// translate asks where offsets lie; not under the lock, since the link's own report
// asks this session for its part.
func (s *session) translate(places []Place, mirrors map[string]Mirror) map[Place]exact.Answer {
	if s.o.Translator == nil {
		return nil
	}
	out := make(map[Place]exact.Answer, len(places))
	for _, p := range places {
		if p.Offset >= 0 && mirrors[p.Partition.Topic].Drifts {
			out[p] = s.o.Translator.Translate(p.Partition.Topic, p.Partition.Partition, p.Offset)
		}
	}
	return out
}

// putOnRecord writes ahead what will be committed, and how the others stand where
// that changed (U4).
func (s *session) putOnRecord(ctx context.Context, tasks []*task) {
	var records []control.GroupRecord
	var written []*task
	for _, t := range tasks {
		if !utf8.ValidString(t.group) {
			t.bar(func(Commit) Verdict { return ControlUnwritable }) // no key can hold the name
			continue
		}
		if t.changes() || t.tells() {
			records = append(records, t.record)
			written = append(written, t)
		}
	}
	if len(records) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.store.PutGroups(ctx, records); err != nil {
		for _, t := range written {
			t.bar(func(c Commit) Verdict {
				if c.Renewal() {
					return Synced
				}
				return ControlUnwritable
			})
		}
		s.log.Debug("group offsets are not put on record", keyErr, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range written {
		s.desk.Put(t.group, t.record.At)
		t.look.Record = t.record
	}
}

// commitAll sends the commits once nothing stands against them (U5).
func (s *session) commitAll(ctx context.Context, tasks []*task) {
	pending := 0
	for _, t := range tasks {
		pending += len(t.commits)
	}
	if pending == 0 {
		return
	}
	until, err := s.mayWrite(ctx)
	if err != nil {
		for _, t := range tasks {
			t.bar(func(Commit) Verdict { return ControlUnwritable })
		}
		return
	}
	intents := s.store.Intents(s.o.Link)
	for _, t := range tasks {
		s.barCommands(t, intents)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	g := new(errgroup.Group)
	g.SetLimit(commitsAtOnce)
	for _, t := range tasks {
		if len(t.commits) > 0 {
			g.Go(func() error { s.commit(ctx, t); return nil })
		}
	}
	_ = g.Wait() // the functions return no errors
}

// errNoLease: this process may not write now.
var errNoLease = errors.New("the lease of the control topic is not held")

// mayWrite reads the control topic to its end and gives the time by which what is
// sent then must be over.
func (s *session) mayWrite(ctx context.Context) (time.Time, error) {
	reading, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.store.CatchUp(reading); err != nil {
		return time.Time{}, fmt.Errorf("read the control topic to its end: %w", err)
	}
	until, held := s.lease()
	if !held {
		return time.Time{}, errNoLease
	}
	if by := time.Now().Add(commitTimeout); by.Before(until) {
		until = by
	}
	return until, nil
}

// barCommands takes back what commands stand against, and all where another
// process wrote the group's record after this one.
func (s *session) barCommands(t *task, intents intent.Intents) {
	if r, _ := s.store.Group(s.o.Link, t.group); !r.At.Equal(t.look.Record.At) {
		t.bar(func(Commit) Verdict { return Failed })
		return
	}
	sources := make(map[feed.Partition]string, len(t.standings))
	for _, st := range t.standings {
		sources[st.Source.Target] = st.Source.Partition.Topic
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.bar(func(c Commit) Verdict { return s.wantedLocked(intents.Of(sources[c.Partition])) })
}

// commit writes one group's offsets; those whose metadata is too large for the
// target go without, since the offset matters more than the string (C022).
func (s *session) commit(ctx context.Context, t *task) {
	cl, topics := s.committer(t.group), ids(t.look.Mirrors)
	s.count.requests.Add(ctx, 1, s.count.whole)
	got := commit(ctx, cl, t.group, t.commits, topics)
	var again []Commit
	for _, c := range t.commits {
		if errors.Is(got[c.Partition], kerr.OffsetMetadataTooLarge) {
			bare := c
			bare.Metadata = ""
			again = append(again, bare)
			continue
		}
		t.outcomes = append(t.outcomes, outcome(c, got[c.Partition]))
	}
	if len(again) == 0 {
		return
	}
	s.count.requests.Add(ctx, 1, s.count.whole)
	got = commit(ctx, cl, t.group, again, topics)
	for _, c := range again {
		o := outcome(c, got[c.Partition])
		if o.Verdict == Synced {
			o.Verdict = MetadataDropped
		}
		t.outcomes = append(t.outcomes, o)
	}
}

// committer is the client that commits a group's offsets: always the same, so
// that two commits of a group go through one connection and in order.
func (s *session) committer(group string) *kgo.Client {
	h := fnv.New32a()
	_, _ = h.Write([]byte(group))
	return s.o.Committers[h.Sum32()%uint32(len(s.o.Committers))]
}

// settle takes what came of a cycle.
func (s *session) settle(ctx context.Context, tasks []*task) {
	now := s.o.Now()
	var gone []string
	s.mu.Lock()
	for _, t := range tasks {
		wrote := false
		for _, o := range t.outcomes {
			wrote = wrote || !o.Commit.Renewal()
		}
		s.count.wrote(t.outcomes)
		s.count.took(s.desk.Stand(t.group, t.standings, t.outcomes, now))
		s.tellLocked(t.group)
		s.desk.Done(t.group, wrote, now)
		if t.gone {
			gone = append(gone, t.group)
		}
	}
	s.mu.Unlock()
	for _, g := range gone {
		if err := s.store.DropGroup(ctx, s.o.Link, g); err != nil {
			s.log.Debug("a group that is gone stays on record", keyGroup, g, keyErr, err)
		}
	}
}

// loud are the verdicts that an operator should hear of.
var loud = map[Verdict]bool{TargetOwned: true, GroupType: true, NoPermission: true, Failed: true, ControlUnwritable: true,
	NotAligned: true, MetadataDropped: true}

// linesPerMinute bounds what is logged of single groups: a missing right concerns
// thousands at once. Status and metrics tell of all.
const linesPerMinute = 20

// tellLocked logs once when a group's offsets stop being carried over for a
// reason that does not end by itself soon, and once when that is over.
func (s *session) tellLocked(group string) {
	worst, was := s.desk.Worst(group, loud), s.troubled[group]
	if worst == was {
		return
	}
	if s.troubled[group] = worst; worst == Synced {
		delete(s.troubled, group)
	}
	switch {
	case !s.mayLogLocked():
	case worst == Synced:
		s.log.Info("group offsets are carried over again", keyGroup, group)
	default:
		s.log.Warn("not all offsets of a group are carried over", keyGroup, group, keyReason, string(worst))
	}
}

// mayLogLocked tells whether one more group may be logged this minute, and says so
// where it may not.
func (s *session) mayLogLocked() bool {
	if now := s.o.Now(); now.Sub(s.minute) >= time.Minute {
		s.minute, s.lines = now, 0
	}
	s.lines++
	if s.lines == linesPerMinute+1 {
		s.log.Warn("more groups have begun or ceased to be carried over; klink status shows them")
	}
	return s.lines <= linesPerMinute
}
