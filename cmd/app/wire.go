package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
	"klink/translate/exact"
)

// lookTimeout bounds one look at which cluster answers.
const lookTimeout = 10 * time.Second

// production returns the parts of the real klink. This file is the only place
// that knows both sides.
func production() Parts {
	return Parts{
		Wire: func(_ context.Context, cfg *config.Config, d Deps) (Daemon, error) {
			m, err := newMirror(cfg, d)
			if err != nil {
				return nil, err
			}
			return m, nil
		},
		ReportFromTarget: reportFromTarget,
		Probe:            probeTarget,
		Plan:             planLinks,
		Compare:          compareLinks,
		AuditBook:        openAuditBook,
		Contrast:         runContrast(thisProgram),
		Describe:         describeTargets,
		Console:          openConsole,
		Switch:           openSwitch,
		Reverse:          openReverse,
		Translate:        translateGroups,
		Takeover:         openTakeover,
	}
}

// mirror is all links of one configuration, wired and ready to run.
type mirror struct {
	links []*side
}

// side is one link with all that belongs to it.
type side struct {
	link   *linker.Link
	fetch  *fetcher.Fetcher
	append *appender.Appender
	audit  *audit
	src    *kafka.Source
	dst    *kafka.Target
	srcMap *leaders.Map
	dstMap *leaders.Map
	// maps are of checkpoint mode, and never opened where no topic is in it.
	maps *mapKeeper
	// groups and checkpoints are nil where the link has none.
	groups      *groupSync
	checkpoints *checkpointWriter
	outlook     *outlook
	inflows     *control.InflowReader
	released    sync.Once
}

// newMirror wires the links of a configuration. It dials nothing.
func newMirror(cfg *config.Config, d Deps) (*mirror, error) {
	budget := fetcher.NewBudget(int64(cfg.Limits.FetchMemory))
	if err := budget.Instrument(d.Meter); err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	m := &mirror{}
	for _, l := range cfg.Links {
		s, err := newSide(l, cfg.Limits.FetchMemory, budget, d)
		if err != nil {
			m.release()
			return nil, err
		}
		m.links = append(m.links, s)
	}
	return m, nil
}

func newSide(l config.Link, memory config.Bytes, budget *fetcher.Budget, d Deps) (*side, error) {
	matcher, err := newMatcher(l)
	if err != nil {
		return nil, &UsageError{Command: "run", What: fmt.Sprintf("link %s: topics.%v", l.Name, err)}
	}
	log := d.Logger.With("link", l.Name)
	o := kafka.Options{Link: l, FetchMemory: memory, Version: d.Version, Logger: d.Logger}
	s := &side{}
	if s.src, err = kafka.OpenSource(o); err != nil {
		return nil, err
	}
	if s.dst, err = kafka.OpenTarget(o); err != nil {
		s.src.Close()
		return nil, err
	}
	s.inflows = control.NewInflowReader(s.src.Admin)
	s.maps = &mapKeeper{client: s.dst.Maps, log: log}
	s.srcMap, s.dstMap = leaders.New(s.src.Admin), leaders.New(s.dst.Admin)
	s.fetch = fetcher.New(fetcher.Options{Client: s.src.Fetch, Short: s.src.Short, Admin: s.src.Admin, Leaders: s.srcMap, Budget: budget,
		Logger: d.Logger, Meter: d.Meter, Limit: limiter(l.Limits.BytesPerSecond), Link: l.Name})
	s.append = appender.New(appender.Options{Lanes: s.dst.Lanes, Slow: s.dst.Slow, Admin: s.dst.Admin, Leaders: s.dstMap,
		Markers: s.dst.Markers, MarkerBulks: s.dst.MarkerBulks,
		MaxRequestBytes: int32(min(appender.DefaultMaxRequestBytes, int64(memory)/4)), Logger: d.Logger, Meter: d.Meter, Link: l.Name})
	srcLog := fetcher.NewLogReader(s.src.Admin, s.srcMap, budget)
	lease, worker := newLease(l, s.dst, d), workerName()
	sync, err := newGroupSync(groupOptions{link: l, src: s.src, dst: s.dst, matcher: matcher, lease: lease, worker: worker, deps: d,
		topics: func() []state.Topic { return s.link.Topics() },
		translate: func(topic string, partition int32, src int64) exact.Answer {
			return s.link.Translate(topic, partition, src)
		},
		last: func(ctx context.Context, topics []string) error { return s.checkpoints.last(ctx, topics) }})
	if err != nil {
		s.release()
		return nil, err
	}
	s.groups = sync
	if s.checkpoints, err = newCheckpointWriter(s, l, lease, d); err != nil {
		s.release()
		return nil, err
	}
	s.audit = newAudit(l, s.src.Admin, s.dst.Admin)
	s.outlook = newOutlook(outlookOptions{link: l, side: s, matcher: matcher, src: srcLog, dst: fetcher.NewLogReader(s.dst.Admin, s.dstMap, budget)})
	s.link, err = linker.New(linker.Options{
		Name: l.Name, Source: s.fetch, Target: s.append, Memory: budget,
		SrcReader: reader{srcLog}, Producers: srcLog,
		DstReader: reader{fetcher.NewLogReader(s.dst.Admin, s.dstMap, budget)},
		Clusters:  &clusters{src: look{s.srcMap, s.src.Ping}, dst: look{s.dstMap, s.dst.Ping}},
		Catalog: linker.NewCatalog(linker.CatalogOptions{Src: s.src.Admin, Dst: s.dst.Admin, Matcher: matcher, Logger: log,
			Plan: topics.PlanOptions{ReplicationFactor: l.Topics.ReplicationFactor, Overrides: l.Topics.Configs,
				CopyRetention: copiesRetention(l)}}),
		Mode: linkModes[l.Mode], Maps: s.maps, Lease: lease, Groups: sync.port(), Checkpoints: s.checkpoints.port(), Audit: s.audit.port(), Policies: linker.NewPolicies(s.dst.Admin), From: startFrom{l.Start, srcLog},
		Gaps: gapWays[l.GapFill], Unmirrorable: unmirrorableWays[l.OnUnmirrorable], Outlook: s.outlook, Inflows: s.inflows, PadLimit: l.PadLimit, Overrun: overrunWays[l.OnRetentionOverrun], FollowStart: !copiesRetention(l),
		OpenStore: storeOpener(s.dst, log, s.opened), Preflight: preflight(s.dst), Limits: plan.DefaultLimits(), Worker: worker, Version: d.Version, Definition: l.Definition(),
		Logger: d.Logger, Meter: d.Meter,
	})
	if err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func newMatcher(l config.Link) (*topics.Matcher, error) {
	t := l.Topics
	if err := topics.ValidateOverrides(t.Configs); err != nil {
		return nil, err
	}
	rules := topics.Rules{Include: t.Include, Exclude: t.Exclude,
		Rename: topics.Rename{Prefix: t.Rename.Prefix, Suffix: t.Rename.Suffix, Map: t.Rename.Map}}
	if l.Mode == config.ModeCheckpoint {
		rules.Policy = policy(l)
	}
	return topics.NewMatcher(rules)
}

func limiter(perSecond config.Bytes) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/5)))
}

// workerName tells runs of processes apart, in reports and in the record of who
// started last.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s-%d-%04x", host, os.Getpid(), rand.Uint32N(1<<16))
}

// Run mirrors all links until ctx ends, and then until they have drained.
func (m *mirror) Run(ctx context.Context) error {
	defer m.release()
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range m.links {
		g.Go(func() error { return s.run(ctx) })
	}
	return g.Wait()
}

// opened hands the control topic to those that work beside the link.
func (s *side) opened(store *control.Store) {
	s.groups.use(store)
	s.checkpoints.use(store)
	s.outlook.use(store)
}

// run keeps the source and target sides alive for as long as the link needs to
// drain.
func (s *side) run(ctx context.Context) error {
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g := new(errgroup.Group)
	g.Go(func() error { return s.fetch.Run(under) })
	g.Go(func() error { return s.append.Run(under) })
	err := s.link.Run(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

func (m *mirror) release() {
	for _, s := range m.links {
		s.release()
	}
}

func (s *side) release() {
	s.released.Do(func() {
		s.audit.close()
		s.groups.close()
		s.checkpoints.close()
		s.srcMap.Close()
		s.dstMap.Close()
		s.maps.close()
		s.inflows.Close()
		s.src.Close()
		s.dst.Close()
	})
}

// Alive returns an error when a loop of a link no longer turns.
func (m *mirror) Alive() error {
	var errs []error
	for _, s := range m.links {
		errs = append(errs, s.link.Alive(time.Now()))
	}
	return errors.Join(errs...)
}

// Partitions is how many partitions all links mirror, or would.
func (m *mirror) Partitions() (n int) {
	for _, s := range m.links {
		n += s.link.Partitions()
	}
	return n
}

// Report returns what all links are doing.
func (m *mirror) Report() state.Report {
	r := state.Report{AsOf: time.Now().UTC(), Links: []state.Link{}}
	for _, s := range m.links {
		r.Links = append(r.Links, s.link.Report())
	}
	return r
}

// reader gives fetcher.LogReader the shape of the linker's port.
type reader struct{ log *fetcher.LogReader }

func (r reader) Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error) {
	return r.log.Bounds(ctx, p, id)
}

func (r reader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	return r.log.Read(ctx, fetcher.ReadRequest{Partition: p, ID: id, From: from, MaxBytes: maxBytes, ReadCommitted: true})
}

// look asks one cluster who it is, and on failure finds out what stands in the
// way.
type look struct {
	leaders *leaders.Map
	ping    func(context.Context) error
}

func (l look) id(ctx context.Context, side string) (string, *linker.Trouble) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if l.leaders.ClusterID() == "" {
		// Never seen yet: a ping fails sooner than the client's own retries.
		if err := l.ping(ctx); err != nil {
			return "", obstacle(side, err)
		}
	}
	if err := l.leaders.Refresh(ctx); err != nil {
		again, stop := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		defer stop()
		if p := l.ping(again); p != nil {
			err = p
		}
		return "", obstacle(side, err)
	}
	return l.leaders.ClusterID(), nil
}

// obstacle turns an error of a connection into trouble with a reason and hint.
func obstacle(side string, err error) *linker.Trouble {
	o := kafka.Classify(err)
	return &linker.Trouble{Reason: o.Reason, Detail: side + ": " + o.Error(), Hint: o.Hint}
}

type clusters struct{ src, dst look }

func (c *clusters) SourceID(ctx context.Context) (string, *linker.Trouble) {
	return c.src.id(ctx, "source")
}

func (c *clusters) TargetID(ctx context.Context) (string, *linker.Trouble) {
	return c.dst.id(ctx, "target")
}

// storeOpener opens the control topic, once the target answers, and hands it on.
func storeOpener(dst *kafka.Target, log *slog.Logger, opened func(*control.Store)) func(context.Context) (linker.Store, *linker.Trouble) {
	return func(ctx context.Context) (linker.Store, *linker.Trouble) {
		s, err := control.Open(ctx, control.Options{Client: dst.Control, Patience: 3 * lookTimeout, Logger: log})
		switch {
		case err == nil:
			opened(s)
			return s, nil
		case errors.Is(err, control.ErrNewer):
			return nil, &linker.Trouble{Reason: state.ControlUnwritable, Detail: err.Error(), Final: err}
		}
		t := &linker.Trouble{Reason: state.ControlUnwritable, Detail: "target: " + err.Error()}
		if r := remote.ReasonOf(err); r == state.NoPermission || r == state.Authentication {
			t.Reason = r
		}
		return nil, t
	}
}

// reportFromTarget reads the last recorded states of all links from the control
// topics of their targets; as of the oldest of them.
func reportFromTarget(ctx context.Context, cfg *config.Config) (state.Report, error) {
	out := state.Report{Links: []state.Link{}}
	for _, l := range cfg.Links {
		r, err := readRecorded(ctx, cfg, l)
		if err != nil {
			return out, fmt.Errorf("link %s: %w", l.Name, err)
		}
		if out.AsOf.IsZero() || r.AsOf.Before(out.AsOf) {
			out.AsOf = r.AsOf
		}
		out.Links = append(out.Links, r.Links...)
	}
	return out, nil
}

func readRecorded(ctx context.Context, cfg *config.Config, l config.Link) (state.Report, error) {
	r, err := openRecorded(ctx, cfg, l)
	if err != nil {
		return state.Report{}, err
	}
	defer r.dst.Close()
	r.takeOnly()
	report, err := r.stated(nil)
	for i := range report.Links {
		report.Links[i].Checkpoints = r.checkpoints(ctx, l)
	}
	return report, err
}
