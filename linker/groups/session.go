package groups

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/linker/control"
	"klink/linker/groups/commits"
	"klink/linker/intent"
	"klink/linker/state"
)

const (
	// cyclesPerLane is how many cycles of one coordinator's groups may be under way:
	// one decides while the other commits.
	cyclesPerLane = 2
	// groupsPerCycle bounds a cycle, so that what comes meanwhile waits no longer
	// than some hundred commits take.
	groupsPerCycle = 200
	// commitsAtOnce are the commits of one cycle that are under way.
	commitsAtOnce = 16
	// mirrorsFor is how old the view of the link's topics may be; commands are
	// looked at again before each commit (U5).
	mirrorsFor = 500 * time.Millisecond
	// reportedFor is how old the view of the partitions' states may be.
	reportedFor = 2 * time.Second
	// unprobedFor is how long a partition that nobody has looked at yet is waited
	// for. One that another worker mirrors looks like that for ever.
	unprobedFor = 15 * time.Second
	// confirmEvery is how often the ages of offsets that the tail did not mention are
	// brought up to date.
	confirmEvery = time.Second
	// retentionFor is how often the target's retention of offsets is read again.
	retentionFor = 10 * time.Minute
)

// session is the work from getting the lease to losing it.
type session struct {
	o        Options
	count    *instruments
	store    Store
	log      *slog.Logger
	src, dst cluster
	bounds   *bounds
	began    time.Time

	wake  chan struct{}      // size 1: something may be due
	early chan struct{}      // size 1: a poll ahead of its time
	polls chan chan<- polled // a poll now, with its outcome

	cycles sync.WaitGroup

	mu    sync.Mutex // guards all below; not held over a request
	desk  *Desk
	lanes map[int32]int
	// moved is closed and replaced when a cycle ends.
	moved chan struct{}
	// tailed: the tail tells of all commits.
	tailed bool
	// lapsed: the lease was not held since the control topic was read to its end.
	lapsed bool
	// last are the commands whose last round is under way.
	last map[int32]bool

	listedAt   time.Time // when the target's groups were last asked for, and told
	mirrors    map[string]Mirror
	mirroredAt time.Time
	reported   map[string]map[int32]Verdict
	reportedAt time.Time
	accepts    map[string]intent.Command

	renewAfter  time.Duration
	retentionAt time.Time

	troubled map[string]Verdict // what was logged of each group, or would have been
	minute   time.Time          // since when lines are counted
	lines    int
	down     bool   // the source's list failed, and was told
	told     string // unmatched patterns that were told
}

func newSession(o Options, count *instruments, store Store) *session {
	s := &session{o: o, count: count, store: store, log: o.Logger, src: newCluster(o.Source, "source"), dst: newCluster(o.Target, "target"),
		began: o.Now(), wake: make(chan struct{}, 1), early: make(chan struct{}, 1), polls: make(chan chan<- polled),
		desk: onRecord(o, store), lanes: make(map[int32]int), moved: make(chan struct{}), last: make(map[int32]bool),
		renewAfter: renewAfter(stockRetention), troubled: make(map[string]Verdict)}
	s.bounds = newBounds(s.dst, o.Now)
	return s
}

// run works until ctx ends, and waits for all that it began.
func (s *session) run(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	if s.o.NewTail != nil {
		tail := s.o.NewTail(s.o.Filter.Selects, s.selects)
		g.Go(func() error { return tail.Run(ctx) })
		g.Go(func() error { s.follow(ctx, tail); return nil })
	}
	g.Go(func() error { s.poll(ctx); return nil })
	g.Go(func() error { s.meet(ctx); return nil })
	g.Go(func() error { s.write(ctx); return nil })
	g.Go(func() error { s.obey(ctx); return nil })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		s.log.Warn("group offsets are not followed", keyErr, err)
	}
	s.cycles.Wait()
}

// selects tells whether commits on a source topic are of interest.
func (s *session) selects(topic string) bool {
	_, ok := s.o.MirrorOf(topic)
	return ok
}

// follow takes what the tail tells, and that nothing else has changed.
func (s *session) follow(ctx context.Context, tail Tail) {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	var gap time.Time
	for {
		select {
		case b := <-tail.Batches():
			if b.Gap {
				gap = b.Received
			}
			s.events(b)
		case <-tick.C:
			st := tail.Status()
			if gap.After(st.Since) {
				st.Since = gap
			}
			s.mu.Lock()
			if s.tailed = st.State == commits.Following && st.Behind == 0; s.tailed {
				s.desk.Confirm(st.Since, s.o.Now())
			}
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// meet lists the target's groups where polls are too far apart for that: they rest
// where they take long, and the tail tells of commits in between.
func (s *session) meet(ctx context.Context) {
	every := s.o.Pace.ListedFor / 3
	for sleep(ctx, every) {
		s.mu.Lock()
		age := s.o.Now().Sub(s.listedAt)
		s.mu.Unlock()
		if age >= every {
			s.listTarget(ctx)
		}
	}
}

func (s *session) events(b commits.Batch) {
	s.mu.Lock()
	stranger := s.desk.Events(b, func(group, topic string) bool { return s.o.Filter.Selects(group) && s.selects(topic) })
	s.mu.Unlock()
	if b.Gap || stranger {
		signal(s.early)
	}
	signal(s.wake)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write starts the cycles that are due.
func (s *session) write(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := s.o.Now()
		due, next := s.desk.Due(now, s.freeLocked)
		for lane := range due {
			s.lanes[lane]++
		}
		s.mu.Unlock()
		for lane, names := range due {
			s.cycles.Go(func() { s.cycle(ctx, lane, names) })
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(0, next.Sub(now))
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// freeLocked is how many groups of a coordinator may be taken now.
func (s *session) freeLocked(lane int32) int {
	if s.lanes[lane] >= cyclesPerLane {
		return 0
	}
	return groupsPerCycle
}

// view is the link's topics as offsets are concerned.
func (s *session) view() map[string]Mirror {
	now := s.o.Now()
	s.mu.Lock()
	m, fresh := s.mirrors, s.mirrors != nil && now.Sub(s.mirroredAt) < mirrorsFor
	old := s.reported == nil || now.Sub(s.reportedAt) >= reportedFor
	s.mu.Unlock()
	if fresh {
		return m
	}
	if old {
		// Not under the lock: the link's report asks this session for its part.
		reported := barredPartitions(s.o.Topics(), now.Sub(s.began) < unprobedFor)
		s.mu.Lock()
		s.reported, s.reportedAt = reported, now
		s.mu.Unlock()
	}
	return s.renew(now)
}

// renew makes the view anew.
func (s *session) renew(now time.Time) map[string]Mirror {
	intents, topics, orders := s.store.Intents(s.o.Link), s.store.Topics(s.o.Link), s.store.Commands(s.o.Link)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := make(map[string]Mirror, len(topics))
	for _, r := range topics {
		if target, ok := s.o.MirrorOf(r.SourceTopic); ok && target == r.TargetTopic {
			m[r.SourceTopic] = Mirror{Source: r.SourceTopic, Target: target, ID: r.TargetID, Drifts: r.Mode == control.ModeCheckpoint,
				Barred: s.wantedLocked(intents.Of(r.SourceTopic)), Partitions: s.reported[r.SourceTopic]}
		}
	}
	s.accepts = make(map[string]intent.Command)
	for _, c := range orders {
		if c.Verb == intent.Accept && c.Group != "" {
			s.accepts[c.Group] = c
		}
	}
	s.mirrors, s.mirroredAt = m, now
	return m
}

// wantedLocked is why offsets of a topic may not be written, by its intent.
func (s *session) wantedLocked(i intent.Intent) Verdict {
	if i.Want == intent.PendingStop && s.last[i.Cause.Number] {
		return Synced
	}
	return wanted(i.Want)
}

// crooked are the reasons for which a partition's offsets are not, or not for
// sure, those of the source.
var crooked = map[state.Reason]bool{
	state.Diverged: true, state.ForeignWrite: true, state.SourceRecreated: true, state.TargetRecreated: true,
	state.ClusterChanged: true, state.TargetNotEmpty: true, state.Overshot: true, state.Fenced: true, state.NotAdopted: true,
}

// barredPartitions picks the partitions whose offsets are not to be written by
// what the link shows of them; fresh says that it has only begun.
func barredPartitions(topics []state.Topic, fresh bool) map[string]map[int32]Verdict {
	out := make(map[string]map[int32]Verdict)
	for _, t := range topics {
		for _, p := range t.Partitions {
			v := Synced
			switch {
			case p.State == state.Halted && crooked[state.Reason(p.Reason)]:
				v = NotAligned
			case p.State == state.Padding, p.State == state.Pending && fresh:
				v = Pending
			}
			if v == Synced {
				continue
			}
			if out[t.SourceTopic] == nil {
				out[t.SourceTopic] = make(map[int32]Verdict)
			}
			out[t.SourceTopic][p.Partition] = v
		}
	}
	return out
}

// ids are the target topics' own.
func ids(mirrors map[string]Mirror) map[string]topicID {
	out := make(map[string]topicID, len(mirrors))
	for _, m := range mirrors {
		out[m.Target] = m.ID
	}
	return out
}
