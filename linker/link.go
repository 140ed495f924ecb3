package linker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/state"
)

const (
	// discoverEvery is how often topics, partitions and cluster ids are looked
	// at again.
	discoverEvery = 5 * time.Second
	// lookEvery is how often the log ends of idle partitions are checked; a
	// foreign record is found within two rounds.
	lookEvery = 2 * time.Second
	// recordEvery is how often changed states go to the control topic.
	recordEvery = 2 * time.Second
	// drainTime is how long an append in flight may take when the link ends. A
	// supervisor usually waits ten seconds before it kills.
	drainTime = 8 * time.Second
	// prepareAtOnce is how many target topics are made or checked side by side.
	prepareAtOnce = 8
)

// Options of a Link. All but Limits are required.
type Options struct {
	Name   string
	Source Source
	SrcReader,
	DstReader Reader
	Target   Target
	Clusters Clusters
	Catalog  Catalog
	Memory   Memory
	// OpenStore opens the control topic; it is called again until it succeeds.
	OpenStore func(ctx context.Context) (Store, *Trouble)
	Limits    plan.Limits
	// Worker names this process in reports.
	Worker string
	// Version is klink's, for the record.
	Version string
	Logger  *slog.Logger
	Meter   metric.Meter
}

// Link mirrors the topics that one source and one target have in common.
type Link struct {
	o     Options
	log   *slog.Logger
	count *counters

	mu      sync.Mutex // guards all below; never held over a call
	store   Store
	topics  map[string]*topic
	order   []string
	pos     state.Position
	hint    string
	found   bool
	sent    map[string]string // the last recorded state of each topic
	sentPos state.Position
}

// New returns a link that is not running. The error is about instruments only.
func New(o Options) (*Link, error) {
	l := &Link{o: o, log: o.Logger.With("link", o.Name), topics: make(map[string]*topic),
		pos: state.Position{State: state.Pending}, sent: make(map[string]string)}
	c, err := newCounters(o.Meter, o.Name, l.Report)
	if err != nil {
		return nil, err
	}
	l.count = c
	return l, nil
}

// Run mirrors until ctx ends, then lets appends in flight finish and records
// the last states. Remote trouble is shown and outlived; the only errors are
// broken invariants, such as a control record of a newer klink.
func (l *Link) Run(ctx context.Context) error {
	hard, cancel := outlive(ctx, drainTime)
	defer cancel()
	store := l.open(ctx)
	if store == nil {
		return nil
	}
	following, end := follow(hard, store)
	var partitions sync.WaitGroup
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-following:
			return fmt.Errorf("follow the control topic: %w", err)
		case <-gctx.Done():
			return nil
		}
	})
	g.Go(func() error { l.discover(gctx, hard, &partitions); return nil })
	g.Go(func() error { l.look(gctx); return nil })
	g.Go(func() error { l.record(gctx); return nil })
	err := g.Wait()
	partitions.Wait()
	l.recordOnce(hard)
	end()
	return err
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

// open waits for both clusters and the control topic, and pins the clusters.
func (l *Link) open(ctx context.Context) Store {
	wait := newWaits()
	for {
		store, t := l.o.OpenStore(ctx)
		if t == nil {
			l.mu.Lock()
			l.store = store
			l.mu.Unlock()
			return store
		}
		l.failed(t)
		if !sleep(ctx, wait.NextBackOff()) {
			return nil
		}
	}
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
	if src == dst && src != "" {
		return &Trouble{Reason: state.ClusterChanged, Detail: fmt.Sprintf("source and target are the same cluster (%s)", src),
			Hint: "check the addresses: a cluster cannot mirror itself"}
	}
	was, known := l.store.Link(l.o.Name)
	if known && (was.SourceClusterID != src || was.TargetClusterID != dst) {
		return &Trouble{Reason: state.ClusterChanged, Detail: fmt.Sprintf("source is cluster %s, was %s; target is cluster %s, was %s",
			src, was.SourceClusterID, dst, was.TargetClusterID)}
	}
	if known && was.KlinkVersion == l.o.Version {
		return nil
	}
	err := l.store.PutLink(ctx, control.LinkRecord{Link: l.o.Name, Mode: modeMirror, SourceClusterID: src,
		TargetClusterID: dst, KlinkVersion: l.o.Version, AppliedAt: time.Now()})
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

// discover keeps partition loops in step with the source's topics.
func (l *Link) discover(ctx, hard context.Context, wg *sync.WaitGroup) {
	wait := newWaits()
	for {
		pause := discoverEvery
		if t := l.discoverOnce(ctx, hard, wg); t != nil && ctx.Err() == nil {
			l.failed(t)
			pause = wait.NextBackOff()
		} else {
			wait.Reset()
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (l *Link) discoverOnce(ctx, hard context.Context, wg *sync.WaitGroup) *Trouble {
	if t := l.pin(ctx); t != nil {
		return t
	}
	found, t := l.o.Catalog.Find(ctx)
	if t != nil {
		return t
	}
	l.healthy(len(found))
	guard := l.o.Catalog.ExpireProducers(ctx)
	g := new(errgroup.Group)
	g.SetLimit(prepareAtOnce)
	for _, f := range found {
		g.Go(func() error {
			l.adopt(ctx, f, guard).start(ctx, hard, wg)
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
	return nil
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
	l.pos, l.hint, l.found = state.Position{State: state.Active}, "", true
	l.mu.Unlock()
	if was.State != state.Active {
		l.log.Info("link ACTIVE", "topics", topics)
	}
	if first && topics == 0 {
		l.log.Warn("no topic of the source is selected", "hint", "check topics.include and that klink may Describe the topics")
	}
}
