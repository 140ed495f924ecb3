package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Defaults of Options.
const (
	// DefaultSessionTimeout is how long the dead keep their partitions. Brokers
	// take 6 s and more unless told otherwise (group.min.session.timeout.ms).
	DefaultSessionTimeout = 10 * time.Second
	// DefaultHeartbeat leaves room for several lost ones within a lease.
	DefaultHeartbeat = time.Second
	// DefaultMargin is for requests that a broker still carries out after the
	// lease has ended, and for clocks that do not run alike.
	DefaultMargin = 3 * time.Second
)

const (
	// metadataAge is how soon new partitions of a watched topic are noticed.
	metadataAge = 15 * time.Second
	// leastRebalanceTimeout is kgo's and Java's own.
	leastRebalanceTimeout = time.Minute
	// leaveWait bounds leaving. If it is too short the session has to end.
	leaveWait = 5 * time.Second
)

// Options of New; NewClient and Group are required.
type Options struct {
	// NewClient makes a client for the target cluster with more options. It is
	// used for the group alone.
	NewClient func(more ...kgo.Opt) (*kgo.Client, error)
	// Group is the link's group on the target.
	Group string
	// SessionTimeout, Heartbeat and Margin: see the defaults. Margin and twice
	// the heartbeat must fit into the session timeout.
	SessionTimeout time.Duration
	Heartbeat      time.Duration
	Margin         time.Duration
	Logger         *slog.Logger
	Meter          metric.Meter
	// Link labels the metrics.
	Link string
}

func (o *Options) setDefaults() {
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = DefaultSessionTimeout
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Margin <= 0 {
		o.Margin = DefaultMargin
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = noop.NewMeterProvider().Meter("")
	}
}

func (o *Options) check() error {
	if o.NewClient == nil || o.Group == "" {
		return errors.New("group options: client and group name are required")
	}
	if o.Margin+2*o.Heartbeat > o.SessionTimeout {
		return fmt.Errorf("group options: a margin of %v and two heartbeats of %v do not fit into a session timeout of %v",
			o.Margin, o.Heartbeat, o.SessionTimeout)
	}
	return nil
}

// Members is this process's membership. It is safe for concurrent use.
type Members struct {
	opts    Options
	met     *metrics
	changed chan struct{} // size 1: something changed since the last look
	watch   chan struct{} // size 1: watched changed
	beatNow chan struct{} // size 1: a heartbeat is due at once

	mu      sync.Mutex // guards all below; never held over a request
	running bool
	stopped bool
	watched map[string]time.Time // since when
	joined  time.Time            // the first time
	lease   *lease
	lapsed  bool // as it was last told
	trouble trouble
	// heard are the topics of which anything was ever assigned here, and adrift what
	// was lost since the last assignment.
	heard  map[string]bool
	adrift map[Partition]bool
	giveUp func(ctx context.Context, ps []Partition)
}

// New returns a membership that joins nothing before Run.
func New(o Options) *Members {
	o.setDefaults()
	return &Members{opts: o, met: newMetrics(o.Meter, o.Link), changed: make(chan struct{}, 1), watch: make(chan struct{}, 1),
		beatNow: make(chan struct{}, 1), watched: make(map[string]time.Time), lease: newLease(o.SessionTimeout - o.Margin),
		heard: make(map[string]bool), adrift: make(map[Partition]bool)}
}

// BeforeGivingUp sets what is done before the group gives partitions to somebody
// else in an orderly way: f returns once this process sends nothing to them any
// more, or when its context ends. They are not assigned here by then. It is not
// called for what is lost.
func (m *Members) BeforeGivingUp(f func(ctx context.Context, ps []Partition)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveUp = f
}

// Share is what is known of who works on a partition.
type Share struct {
	// Mine: it is assigned to this process; or it was when the group was lost, and
	// nobody has been heard of to have it since.
	Mine bool
	// Heard: a partition of its topic was ever assigned here.
	Heard bool
	// Joined: any assignment was ever heard of, be it of nothing.
	Joined bool
}

// Share tells who works on a target partition, as far as this process knows. It
// says nothing of whether a lease is held: see Held for that.
func (m *Members) Share(topic string, partition int32) Share {
	p := Partition{topic, partition}
	m.mu.Lock()
	defer m.mu.Unlock()
	return Share{Mine: m.lease.held[p] != nil || m.adrift[p], Heard: m.heard[topic], Joined: !m.joined.IsZero()}
}

// Watch names the target topics to share; it replaces what was named before.
// Topics that do not exist yet are waited for. It may be called at any time.
func (m *Members) Watch(topics []string) {
	m.mu.Lock()
	now := time.Now()
	next := make(map[string]time.Time, len(topics))
	for _, t := range topics {
		next[t] = now
		if at, ok := m.watched[t]; ok {
			next[t] = at
		}
	}
	same := maps.Equal(next, m.watched)
	m.watched = next
	m.trouble.watching(len(next) > 0, now)
	m.mu.Unlock()
	if !same {
		poke(m.watch)
	}
}

// Held tells whether this process may write markers or pads to a target
// partition, or trim it, now, and until when: what it sends must be over by
// then. A caller looks again after it has prepared a request, and guards the
// request itself with Enter.
func (m *Members) Held(topic string, partition int32) (until time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return time.Time{}, false
	}
	return m.lease.until(Partition{topic, partition}, time.Now())
}

// Enter begins a write to a partition that is held; ok is false where it is not.
// Until Leave the partition is not handed over in an orderly way (W5).
func (m *Members) Enter(topic string, partition int32) (p *Permit, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil, false
	}
	h, end := m.lease.enter(Partition{topic, partition}, time.Now())
	if h == nil {
		return nil, false
	}
	return &Permit{m: m, h: h, until: end}, true
}

// Changed gets a value when partitions were assigned, given up or lost, and when
// the lease lapsed or was renewed for the first time since. Several changes may
// show as one.
func (m *Members) Changed() <-chan struct{} { return m.changed }

// Run joins the group once there are topics to share, stays a member until ctx
// ends, and then leaves, so that a successor takes over at once. Nothing is held
// from the end of ctx on: a caller drains before. It returns an error where the
// options or the client's cannot be used, else nil; what the cluster says is
// Trouble.
func (m *Members) Run(ctx context.Context) error {
	if err := m.opts.check(); err != nil {
		return err
	}
	m.mu.Lock()
	again := m.running
	m.running = true
	m.mu.Unlock()
	if again {
		return errors.New("membership runs once")
	}
	// The client's own context cuts what its Close would wait for: a join, for
	// as long as a rebalance may take.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	cl, err := m.opts.NewClient(m.clientOptions(life)...)
	if err != nil {
		return fmt.Errorf("make the client of group %s: %w", m.opts.Group, err)
	}
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context, *kgo.Client){m.follow, m.beats, m.errors} {
		wg.Go(func() { loop(ctx, cl) })
	}
	<-ctx.Done()
	m.stop()
	m.leave(life, cl)
	end()
	cl.Close()
	wg.Wait()
	return nil
}

func (m *Members) clientOptions(life context.Context) []kgo.Opt {
	return []kgo.Opt{
		kgo.WithContext(life),
		kgo.ConsumerGroup(m.opts.Group),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(m.opts.SessionTimeout),
		kgo.HeartbeatInterval(m.opts.Heartbeat),
		kgo.RebalanceTimeout(max(leastRebalanceTimeout, 2*m.opts.SessionTimeout)), // W6
		kgo.DisableAutoCommit(),
		kgo.MetadataMaxAge(metadataAge),
		// Nothing to read from: no position is looked up, no partition fetched (W8).
		kgo.AdjustFetchOffsetsFn(func(context.Context, map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return nil, nil
		}),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { m.assigned(life, list(ps)) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { m.revoked(life, list(ps)) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { m.lost(life, list(ps)) }),
		kgo.WithHooks(manageErrors{m}),
	}
}

// follow brings the subscription to what is watched.
func (m *Members) follow(ctx context.Context, cl *kgo.Client) {
	now := make(map[string]time.Time)
	for {
		m.mu.Lock()
		want := m.watched
		m.mu.Unlock()
		var gone, more []string
		for t := range now {
			if _, ok := want[t]; !ok {
				gone = append(gone, t)
			}
		}
		for t := range want {
			if _, ok := now[t]; !ok {
				more = append(more, t)
			}
		}
		if len(gone) > 0 {
			cl.PurgeTopicsFromConsuming(gone...)
			cl.ResumeFetchTopics(gone...)
		}
		cl.PauseFetchTopics(more...) // before they can be assigned (W8)
		cl.AddConsumeTopics(more...)
		now = want
		select {
		case <-m.watch:
		case <-ctx.Done():
			return
		}
	}
}

// stop makes nothing held any more.
func (m *Members) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
}

// leave tells the group. Where that fails, a successor waits for the session to
// end.
func (m *Members) leave(life context.Context, cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(life, leaveWait)
	defer cancel()
	if err := cl.LeaveGroupContext(ctx); err != nil {
		m.opts.Logger.Warn("group not left: a successor waits for the session timeout", keyGroup, m.opts.Group, keyErr, err)
	}
}

// assigned takes partitions on. kgo calls it after each rebalance, mostly with
// nothing.
func (m *Members) assigned(ctx context.Context, ps []Partition) {
	m.mu.Lock()
	now := time.Now()
	if m.joined.IsZero() {
		m.joined = now
	}
	clear(m.adrift)
	for _, p := range ps {
		m.heard[p.Topic] = true
	}
	m.met.assigned(ctx, m.lease.assign(ps, func(p Partition) bool { return m.lateLocked(p, now) }))
	m.trouble.assigned(ps)
	m.mu.Unlock()
	poke(m.beatNow)
	if len(ps) > 0 {
		m.opts.Logger.Info("partitions assigned", keyGroup, m.opts.Group, keyCount, len(ps))
	}
	poke(m.changed) // also by nothing: what was adrift has another owner now
}

// lateLocked tells whether a partition comes so late that a member that was alive
// when this one joined, or began to share the topic, may have died with it: what
// the dead of that time had came with the join.
func (m *Members) lateLocked(p Partition, now time.Time) bool {
	since := m.joined
	if at := m.watched[p.Topic]; at.After(since) {
		since = at
	}
	return now.Sub(since) > m.opts.SessionTimeout-2*m.opts.Heartbeat
}

// revoked gives partitions up (W4) and waits for the writes under way (W5), and for
// whatever else this process does there (W9).
func (m *Members) revoked(life context.Context, ps []Partition) {
	m.mu.Lock()
	gone, busy := m.lease.drop(ps)
	m.met.assigned(life, -gone)
	giveUp := m.giveUp
	m.mu.Unlock()
	for _, h := range busy {
		h.wait(life)
	}
	if giveUp != nil && len(ps) > 0 {
		giveUp(life, ps)
	}
	if len(ps) > 0 {
		m.opts.Logger.Info("partitions given up", keyGroup, m.opts.Group, keyCount, len(ps))
		poke(m.changed)
	}
}

// lost gives up what somebody else may have by now: there is nothing to wait for.
func (m *Members) lost(ctx context.Context, ps []Partition) {
	m.mu.Lock()
	gone, _ := m.lease.drop(ps)
	for _, p := range ps {
		m.adrift[p] = true
	}
	m.met.assigned(ctx, -gone)
	m.lease.void()
	m.mu.Unlock()
	if len(ps) > 0 {
		m.opts.Logger.Warn("partitions lost", keyGroup, m.opts.Group, keyCount, len(ps))
		poke(m.changed)
	}
}

func list(ps map[string][]int32) []Partition {
	var out []Partition
	for _, t := range slices.Sorted(maps.Keys(ps)) {
		for _, p := range ps[t] {
			out = append(out, Partition{t, p})
		}
	}
	return out
}

// poke leaves a token unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
