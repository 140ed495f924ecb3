package linker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"klink/linker/control"
	"klink/linker/fill"
	"klink/linker/intent"
	"klink/linker/pad"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/topics"
)

const (
	// discoverEvery is how often topics, partitions and cluster ids are looked
	// at again (paced).
	discoverEvery = 5 * time.Second
	// lookEvery is how often the log ends of idle partitions are checked (paced); a
	// foreign record is found within two rounds.
	lookEvery = 2 * time.Second
	// recordEvery is how often what changed beside states goes to the control topic
	// (paced); states do at once.
	recordEvery = 2 * time.Second
	// drainTime is how long an append in flight may take when the link ends. A
	// supervisor usually waits ten seconds before it kills.
	drainTime = 8 * time.Second
	// putTimeout bounds one write to the control topic, so that a target that is
	// away shows as such. What was written all the same does no harm.
	putTimeout = 10 * time.Second
	// leaveTimeout bounds taking this process off the record as it ends.
	leaveTimeout = time.Second
	// topicsAtOnce is how many topics' control records are written side by side.
	topicsAtOnce = 64
)

// Options of a Link. All but Limits are required.
type Options struct {
	Name   string
	Source Source
	SrcReader,
	DstReader Reader
	// Producers asks the source who holds its last stable offsets back.
	Producers Producers
	Target    Target
	Clusters  Clusters
	Catalog   Catalog
	Memory    Memory
	// OpenStore opens the control topic; it is called again until it succeeds.
	OpenStore func(ctx context.Context) (Store, *Trouble)
	// Preflight tells which rights a failover would miss on the target; nil is not to
	// look.
	Preflight func(ctx context.Context, topics, groups []string) []state.Warning
	// Lease is membership in the link's group; the link runs it.
	Lease    Lease
	Policies Policies
	// Mode tells whether offsets are kept. Without it Gaps, Fills, Pads, From, PadLimit
	// and FollowStart mean nothing, and Maps is required.
	Mode   Mode
	Maps   Maps
	Limits plan.Limits
	// Gaps is how offsets are kept that hold no visible record on the source.
	Gaps plan.GapWay
	// Fills and Pads are times and sizes; what is 0 takes its default.
	Fills fill.Settings
	Pads  pad.Settings
	// From is where a mirror begins, PadLimit the most offsets that may be padded,
	// and Overrun what happens where the source's retention overtook the mirror.
	From     From
	PadLimit int64
	Overrun  plan.OverrunWay
	// Unmirrorable is what becomes of a topic with a partition whose offsets cannot
	// be kept. With UnmirrorableCheckpoint Outlook and Maps are required.
	Unmirrorable Unmirrorable
	Outlook      Outlook
	// Inflows tells of topics that came from the target; nil is not to look.
	Inflows Inflows
	// FollowStart has the target's log starts follow the source's. Else the
	// catalog has to copy the retention settings.
	FollowStart bool
	// Groups carries the offsets of consumer groups over; nil where none are
	// selected.
	Groups Groups
	// Checkpoints writes MirrorMaker 2's topics; nil where no topic can be in checkpoint
	// mode.
	Checkpoints Checkpoints
	// Audit compares what is mirrored with its source; nil where that is not wanted.
	Audit Audit
	// Worker names this process in reports.
	Worker string
	// Version is klink's, and Definition the link as YAML without secrets, for the
	// record.
	Version    string
	Definition string
	Logger     *slog.Logger
	Meter      metric.Meter
}

// Link mirrors the topics that one source and one target have in common.
type Link struct {
	o        Options
	log      *slog.Logger
	count    *counters
	compares *semaphore.Weighted
	crowd    *crowd
	soon     chan struct{} // size 1: the topics are to be looked at now
	listing  chan struct{} // size 1: a topic is known that was not
	news     chan struct{} // size 1: states are to be recorded now
	// auditCount is nil without an audit.
	auditCount *auditCounters
	audits     audits

	mu sync.Mutex // guards all below; never held over a call
	// intents is what operators want, as it is obeyed; round the last look at the
	// topics.
	intents intent.Intents
	round   *round
	store   Store
	topics  map[string]*topic
	order   []string
	// warnings are what the last look at the rights of a failover showed.
	warnings []state.Warning
	pos      state.Position
	hint     string
	found    bool
	sentPos  state.Position
	// unrecorded: the last try to record states failed, and was told.
	unrecorded bool
	// sightedAt is when it was last told that the source was seen.
	sightedAt time.Time
	// claimedAt and yieldUntil belong to the turn of this process; see turn.go.
	claimedAt time.Time
	// clean: the process before this one ended in an orderly way, with nothing on
	// its way to the target, or there was none.
	clean      bool
	yieldUntil time.Time
	// blind: the source did not show its control topic.
	blind bool
	// began is when the link began to run; ended: all its partitions have ended.
	began  time.Time
	ended  bool
	turned map[string]time.Time // when each loop last began a turn
}

// stuckAfter is how long a loop's turn may take before the process is called
// stuck: several times the sum of all deadlines within one.
const stuckAfter = 3 * time.Minute

// Alive returns an error when one of the link's loops no longer turns.
func (l *Link) Alive(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, at := range l.turned {
		if age := now.Sub(at); age > stuckAfter {
			return fmt.Errorf("link %s: the %s loop has been busy for %s", l.o.Name, name, age.Round(time.Second))
		}
	}
	return nil
}

// Partitions is how many partitions of the source the link knows, whoever mirrors
// them.
func (l *Link) Partitions() (n int) {
	for _, t := range l.listed() {
		t.mu.Lock()
		n += len(t.partitions)
		t.mu.Unlock()
	}
	return n
}

func (l *Link) turn(loop string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turned[loop] = time.Now()
}

// New returns a link that is not running. The error is about instruments only.
func New(o Options) (*Link, error) {
	l := &Link{o: o, log: o.Logger.With("link", o.Name), topics: make(map[string]*topic),
		compares: semaphore.NewWeighted(comparesAtOnce),
		soon:     make(chan struct{}, 1), listing: make(chan struct{}, 1), news: make(chan struct{}, 1),
		pos: state.Position{State: state.Pending}, turned: make(map[string]time.Time)}
	l.crowd = newCrowd(l.log)
	c, err := newCounters(o.Meter, o.Name, l.own)
	if err != nil {
		return nil, err
	}
	l.count = c
	if o.Audit == nil {
		return l, nil
	}
	l.auditCount, err = newAuditCounters(o.Meter, o.Name, l.own)
	return l, err
}

// Run mirrors until ctx ends, then lets appends in flight finish and records
// the last states. Remote trouble is shown and outlived; the only errors are
// broken invariants, such as a control record of a newer klink.
func (l *Link) Run(ctx context.Context) error {
	hard, cancel := outlive(ctx, drainTime)
	defer cancel()
	store, err := l.open(ctx)
	if store == nil {
		return err
	}
	defer store.Close()
	l.mu.Lock()
	l.began = time.Now()
	l.mu.Unlock()
	l.learn()
	l.o.Lease.BeforeGivingUp(l.giveUp)
	following, end := follow(hard, store)
	if err := l.claim(ctx, store); err != nil {
		l.log.Warn("the link is not claimed yet", "error", err) // tried again in every look
	}
	leased := l.join(hard)
	var partitions sync.WaitGroup
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-following:
			return l.unfollowed(err)
		case <-gctx.Done():
			return nil
		}
	})
	g.Go(func() error { l.discover(gctx, &partitions); return nil })
	g.Go(func() error { l.obey(gctx, &partitions); return nil })
	g.Go(func() error { l.look(gctx); return nil })
	g.Go(func() error { l.record(gctx); return nil })
	g.Go(func() error { l.trim(gctx); return nil })
	g.Go(func() error { l.name(gctx); return nil })
	g.Go(func() error { l.warn(gctx); return nil })
	if l.o.Groups != nil {
		g.Go(func() error { return l.o.Groups.Run(gctx) })
	}
	if l.o.Checkpoints != nil {
		g.Go(func() error { return l.o.Checkpoints.Run(gctx) })
	}
	if l.o.Audit != nil {
		g.Go(func() error { l.audit(gctx); return nil })
	}
	err = g.Wait()
	partitions.Wait()
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.recordOnce(hard)
	if rerr := l.recordBooks(hard, true); rerr != nil {
		l.log.Debug("ledgers are not recorded", "error", rerr)
	}
	if !l.inDoubt() {
		l.leave(hard, store)
	}
	end()
	return errors.Join(err, leased())
}

// unfollowed is what ends a link whose control topic can be followed no more. Once that
// is gone nobody knows whether its mirrors were promoted meanwhile.
func (l *Link) unfollowed(err error) error {
	if errors.Is(err, control.ErrLost) {
		return fmt.Errorf("link %s: its control topic %s: %w; at the next start its mirrors halt as %s, and klink adopt goes on with them",
			l.o.Name, control.TopicName, err, state.NotAdopted)
	}
	return fmt.Errorf("link %s: follow the control topic: %w", l.o.Name, err)
}

// join becomes a member of the link's group. The function returned leaves it
// and waits for that: what the partitions write needs the lease to their end.
func (l *Link) join(ctx context.Context) (leave func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- l.o.Lease.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

// inDoubt tells whether markers of this process may still be on their way, or
// those of the one before, which did not end in an orderly way, where this one
// ends before they must have come. The next one must be told, by what this one
// leaves on record.
func (l *Link) inDoubt() bool {
	l.mu.Lock()
	inherited := !l.clean && time.Since(l.claimedAt) < cmp.Or(l.o.Fills.SettleTime, fill.DefaultSettings().SettleTime)
	l.mu.Unlock()
	if inherited {
		return true
	}
	for _, p := range l.partitions() {
		if p.gaps.counters != (fill.Counters{}) && p.gaps.doubt {
			return true
		}
	}
	return false
}

// follow keeps the store's view of the control topic fresh until end is
// called, which waits for it: the store outlives the loops, whose last records
// go through it. What following ends with before that is sent.
func follow(ctx context.Context, store Store) (ended <-chan error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	failed, done := make(chan error, 1), make(chan struct{}) // one value, so that the sender never waits
	go func() {
		defer close(done)
		if err := store.Run(ctx); ctx.Err() == nil {
			failed <- err
		}
	}()
	return failed, func() { cancel(); <-done }
}

// leave takes this process off the record, so that the next one is alone there. If
// that fails the next one waits for its lease.
func (l *Link) leave(ctx context.Context, store Store) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := store.DropWorker(ctx, l.o.Name, l.o.Worker); err != nil {
		l.log.Debug("this process stays on record", "error", err)
	}
}

// outlive returns a context that ends some time after ctx does.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-hard.Done():
		}
	})
	return hard, func() { stop(); cancel() }
}

// open waits for the target and opens its control topic. That topic is never
// made on a cluster that is known to be the source.
func (l *Link) open(ctx context.Context) (Store, error) {
	wait := newWaits()
	for {
		store, t := l.openOnce(ctx)
		switch {
		case t == nil:
			l.mu.Lock()
			l.store = store
			l.mu.Unlock()
			return store, nil
		case t.Final != nil:
			return nil, fmt.Errorf("open the control topic: %w", t.Final)
		case ctx.Err() != nil:
			return nil, nil
		}
		l.failed(t)
		if !sleep(ctx, wait.NextBackOff()) {
			return nil, nil
		}
	}
}

func (l *Link) openOnce(ctx context.Context) (Store, *Trouble) {
	dst, t := l.o.Clusters.TargetID(ctx)
	if t != nil {
		return nil, t
	}
	// A source that does not answer is no reason to wait: what the control topic
	// knows is worth showing. Where both sides are in trouble the target's is
	// shown, always, so that the log does not tell of each in turn for ever.
	src, away := l.o.Clusters.SourceID(ctx)
	if away == nil {
		if err := topics.CheckClusters(topics.Clusters{Source: src, Target: dst}, topics.Clusters{}); err != nil {
			return nil, sameCluster(err)
		}
	}
	store, t := l.o.OpenStore(ctx)
	if t == nil && away != nil {
		l.failed(away)
	}
	return store, t
}

func sameCluster(err error) *Trouble {
	t := &Trouble{Reason: state.ClusterChanged, Detail: err.Error()}
	if errors.Is(err, topics.ErrSameCluster) {
		t.Hint = "check the addresses: a cluster cannot mirror itself"
	}
	return t
}

// pin compares the clusters with those the link had before.
func (l *Link) pin(ctx context.Context) *Trouble {
	src, t := l.o.Clusters.SourceID(ctx)
	if t != nil {
		return t
	}
	dst, t := l.o.Clusters.TargetID(ctx)
	if t != nil {
		return t
	}
	was, known := l.store.Link(l.o.Name)
	err := topics.CheckClusters(topics.Clusters{Source: src, Target: dst},
		topics.Clusters{Source: was.SourceClusterID, Target: was.TargetClusterID})
	if err != nil {
		return sameCluster(err)
	}
	if known && was.KlinkVersion == l.o.Version && was.Definition == l.o.Definition {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	err = l.store.PutLink(ctx, control.LinkRecord{Link: l.o.Name, Mode: l.o.Mode.String(), SourceClusterID: src,
		TargetClusterID: dst, KlinkVersion: l.o.Version, AppliedAt: time.Now(), Definition: l.o.Definition})
	if err != nil {
		return controlTrouble(err)
	}
	return nil
}

// controlTrouble names what stands between klink and its control topic.
func controlTrouble(err error) *Trouble {
	t := &Trouble{Reason: state.ControlUnwritable, Detail: err.Error()}
	var f *control.Fault
	if errors.As(err, &f) && f.Reason != "" {
		t.Reason = f.Reason
	}
	return t
}

// topic returns the topic's place, made where there was none.
func (l *Link) topic(f Found) *topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[f.Topic]
	if t == nil {
		t = &topic{link: l, name: f.Topic, log: l.log.With("topic", f.Topic), found: f, want: l.intents.Of(f.Topic), mode: l.o.Mode}
		l.topics[f.Topic] = t
		l.order = append(l.order, f.Topic)
		poke(l.listing)
	}
	return t
}

// failed shows that the link as a whole cannot work.
func (l *Link) failed(t *Trouble) {
	hint := t.Hint
	if hint == "" {
		hint = t.Reason.About().Hint
	}
	l.mu.Lock()
	was := l.pos
	l.pos = state.Position{State: state.Failed, Reason: t.Reason, Detail: t.Detail}
	l.hint = hint
	l.mu.Unlock()
	if was.State != state.Failed || was.Reason != t.Reason {
		l.log.Warn("link FAILED", "reason", t.Reason, "detail", t.Detail, "hint", hint)
	}
}

func (l *Link) healthy(topics int) {
	l.mu.Lock()
	was := l.pos
	first := !l.found
	l.pos, l.hint = l.well()
	l.found = true
	now := l.pos.State
	l.mu.Unlock()
	if was.State != now {
		l.log.Info("link "+string(now), "topics", topics)
	}
	if first && topics == 0 {
		l.log.Warn("no topic of the source is selected", "hint", "check topics.include and that klink may Describe the topics")
	}
}
