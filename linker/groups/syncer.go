package groups

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"

	"klink/linker/control"
	"klink/linker/state"
)

const (
	// leaseLook is how often it is looked at whether this process may write.
	leaseLook = 200 * time.Millisecond
	// leaseAway is how long it may not before it leaves the work to others: a
	// rebalance takes the lease for some heartbeats.
	leaseAway = 15 * time.Second
)

// Options are what a Syncer needs. All but Translator, NewTail, Last, Pace and Now are required.
type Options struct {
	Link string
	// Worker names this process in acknowledgements.
	Worker string
	// Source and Target are asked; the Committers are for commits alone, a group's
	// always through the same, since a broker works on one request per connection
	// at a time.
	Source, Target *kgo.Client
	Committers     []*kgo.Client
	Filter         *Filter
	// MirrorOf gives the mirror of a source topic by the link's configuration;
	// false where it is not selected.
	MirrorOf func(sourceTopic string) (target string, ok bool)
	// Translator tells where records of topics in checkpoint mode lie; without one their
	// offsets are not carried over (Unmapped).
	Translator Translator
	// Topics are the link's topics as in its report.
	Topics func() []state.Topic
	Lease  Lease
	// NewTail makes what tells of commits as they happen; nil is none. It is given
	// which groups and topics are of interest.
	NewTail func(group, topic func(name string) bool) Tail
	// Last is called once the last offsets of a command's topics are written, and
	// before that is acknowledged: it writes what follows from them, and an error has
	// it called again. nil is that nothing does.
	Last func(ctx context.Context, topics []string) error
	// Interval is how often all coordinators are asked.
	Interval time.Duration
	Pace     Pace
	Logger   *slog.Logger
	Meter    metric.Meter
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Syncer carries the offsets of a link's groups over while this process holds the
// lease of the control topic's partition 0. Report may be called at any time.
type Syncer struct {
	o     Options
	count *instruments

	mu      sync.Mutex // guards all below
	store   Store
	session *session
}

// New returns a Syncer that is not running. The clients stay the caller's. The
// error is about instruments.
func New(o Options) (*Syncer, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pace == (Pace{}) {
		o.Pace = DefaultPace()
		o.Pace.RetryMax = max(o.Pace.RetryMax, min(o.Interval, 30*time.Second))
	}
	o.Logger = o.Logger.With("link", o.Link)
	count, err := newInstruments(o.Meter, o.Link)
	if err != nil {
		return nil, err
	}
	s := &Syncer{o: o, count: count}
	return s, count.gauges(o.Meter, s.tally)
}

// Run carries offsets over until ctx ends. What stands in the way is shown and
// outlived.
func (s *Syncer) Run(ctx context.Context, store Store) error {
	s.mu.Lock()
	s.store = store
	s.mu.Unlock()
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	for {
		if _, held := s.held(); held {
			s.work(ctx, store)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Syncer) held() (until time.Time, ok bool) {
	return s.o.Lease.Held(control.TopicName, 0)
}

// work is one session: it ends with ctx, or when the lease has been away.
func (s *Syncer) work(ctx context.Context, store Store) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reading, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	if store.CatchUp(reading) != nil {
		return // what the last holder of the lease wrote is not known: tried again
	}
	w := newSession(s.o, s.count, store)
	s.mu.Lock()
	s.session = w
	s.mu.Unlock()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, w, cancel)
	}()
	w.run(ctx)
	cancel()
	<-watched
	s.mu.Lock()
	s.session = nil
	s.mu.Unlock()
}

// watch ends a session whose lease has been away.
func (s *Syncer) watch(ctx context.Context, w *session, end context.CancelFunc) {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, held := s.held(); held {
			last = time.Now()
			continue
		}
		w.mu.Lock()
		w.lapsed = true
		w.mu.Unlock()
		if time.Since(last) > leaseAway {
			end()
			return
		}
	}
}

// Report returns the groups for status: what this process knows, or what is on
// record where another one does the work.
func (s *Syncer) Report() []state.Group {
	s.mu.Lock()
	w, store := s.session, s.store
	s.mu.Unlock()
	switch {
	case w != nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.desk.Report(s.o.Now())
	case store != nil:
		return onRecord(s.o, store).Report(s.o.Now())
	}
	return []state.Group{}
}

// onRecord returns a Desk that knows what the control topic does.
func onRecord(o Options, store Store) *Desk {
	d := NewDesk(o.Pace)
	sources := make(map[string]string)
	for _, r := range store.Topics(o.Link) {
		if target, ok := o.MirrorOf(r.SourceTopic); ok && target == r.TargetTopic {
			sources[target] = r.SourceTopic
		}
	}
	source := func(target string) (string, bool) { t, ok := sources[target]; return t, ok }
	for _, r := range store.Groups(o.Link) {
		if o.Filter.Selects(r.Group) {
			d.Restore(r, source, o.Now())
		}
	}
	return d
}

// tally is what the gauges show; nothing where another process does the work.
func (s *Syncer) tally() (tally map[Verdict]int64, unmatched int, stalest time.Duration, stale bool) {
	s.mu.Lock()
	w := s.session
	s.mu.Unlock()
	if w == nil {
		return nil, 0, 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	stalest, stale = w.desk.Stalest(s.o.Now())
	return w.desk.Tally(), len(w.desk.Unmatched()), stalest, stale
}
