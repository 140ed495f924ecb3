package fetcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

// Defaults of Options.
const (
	DefaultMaxWait        = 500 * time.Millisecond
	DefaultPartitionBytes = 1 << 20
)

// Options are what a Fetcher needs. Client, Admin, Leaders and Budget are
// required and stay the caller's; close them after Run has returned.
type Options struct {
	// Client carries the long polls and should carry nothing else: a broker
	// works on one request per connection at a time.
	Client *kgo.Client
	// Short carries the polls for what became readable during a long poll; nil
	// means Admin, whose Fetch connection is then used.
	Short *kgo.Client
	// Admin carries ListOffsets and OffsetForLeaderEpoch.
	Admin   *kgo.Client
	Leaders *leaders.Map
	// Budget is the process's, shared by all links.
	Budget *Budget
	Logger *slog.Logger
	Meter  metric.Meter
	// MaxWait is how long a broker may hold a poll that brings nothing;
	// DefaultMaxWait if not above zero.
	MaxWait time.Duration
	// PartitionBytes is the most to ask for per partition and answer (a larger
	// first batch comes whole all the same); DefaultPartitionBytes if not
	// above zero.
	PartitionBytes int32
	// Limit is the link's rate in bytes per second, nil for none. Its burst
	// must be at least 1; some hundred milliseconds' worth is sensible.
	Limit *rate.Limiter
	// Link labels logs and metrics.
	Link string
}

// Fetcher reads partitions of one source cluster for one link. See the package
// documentation for what it promises.
type Fetcher struct {
	opt    Options
	log    *slog.Logger
	met    *metrics
	budget *Budget
	reader *LogReader
	pumps  sync.WaitGroup

	wake  chan struct{} // size 1: the manager has something to do
	looks chan struct{} // size looksAtOnce: a semaphore

	mu      sync.Mutex // guards all below and all readings, brokers and lanes; see doc.go for the order
	spawn   func(func(context.Context) error)
	stopped bool
	open    map[feed.Partition]*reading
	seeking map[*reading]struct{}
	brokers map[int32]*broker
	largest int // the largest batch seen anywhere
}

// New returns a Fetcher that reads nothing before Run.
func New(o Options) *Fetcher {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxWait <= 0 {
		o.MaxWait = DefaultMaxWait
	}
	if o.PartitionBytes <= 0 {
		o.PartitionBytes = DefaultPartitionBytes
	}
	if o.Short == nil {
		o.Short = o.Admin
	}
	f := &Fetcher{opt: o, log: o.Logger.With(keyLink, o.Link), budget: o.Budget,
		reader: NewLogReader(o.Admin, o.Leaders, o.Budget),
		wake:   make(chan struct{}, 1), looks: make(chan struct{}, looksAtOnce),
		open: make(map[feed.Partition]*reading), seeking: make(map[*reading]struct{}),
		brokers: make(map[int32]*broker)}
	var err error
	if f.met, err = newMetrics(o.Meter, o.Link); err != nil {
		f.log.Error("fetch metrics are incomplete", keyError, err)
	}
	return f
}

// Open begins to read one partition. It may be called at any time; before Run
// nothing arrives, and after Run the stream is closed from the start. A stream
// still open for the same partition is closed: a partition has one reader.
func (f *Fetcher) Open(start feed.Start) feed.Stream {
	s := newReading(start)
	f.mu.Lock()
	if old := f.open[start.Partition]; old != nil {
		f.closeLocked(old)
	}
	f.open[start.Partition] = s
	if f.stopped {
		f.closeLocked(s)
	} else {
		f.seekLocked(s, 0, false)
	}
	f.mu.Unlock()
	return feed.Stream{Events: s.events, Close: func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closeLocked(s)
	}}
}

// Run reads until parent ends, then closes all streams and returns nil once no
// goroutine of the fetcher is left. It may be called once.
func (f *Fetcher) Run(parent context.Context) error {
	g, ctx := errgroup.WithContext(parent)
	f.mu.Lock()
	f.spawn = func(run func(context.Context) error) { g.Go(func() error { return run(ctx) }) }
	f.mu.Unlock()
	g.Go(func() error { return f.manage(ctx) })
	g.Go(func() error { return f.relieve(ctx) })
	err := g.Wait()

	f.mu.Lock()
	f.stopped = true
	for _, s := range f.open {
		f.closeLocked(s)
	}
	f.mu.Unlock()
	f.pumps.Wait()
	if parent.Err() != nil {
		return nil
	}
	return err
}

// notify wakes whoever waits on a channel of size 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// relieve takes chunks back that nobody came for while others wait for memory
// (B2). It looks again at that pace for the time a chunk may lie unreceived.
func (f *Fetcher) relieve(ctx context.Context) error {
	const patience = 250 * time.Millisecond
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			if f.budget.Contended() {
				f.recallAll(now.Add(-patience))
			}
		}
	}
}

func (f *Fetcher) recallAll(before time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.open {
		if s.open() && s.stop != nil && !s.recall && s.out > 0 && !s.pushedAt.After(before) {
			f.recallLocked(s)
		}
	}
}
