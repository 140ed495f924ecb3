package contrast

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"klink/cmd/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raise starts two clusters in memory.
func raise(ctx context.Context) (*Stage, error) {
	src, err := lab.StartEmbedded(ctx, lab.EmbeddedOptions{Opts: []kfake.Opt{kfake.ClusterID("SRC")}})
	if err != nil {
		return nil, err
	}
	dst, err := lab.StartEmbedded(ctx, lab.EmbeddedOptions{Opts: []kfake.Opt{kfake.ClusterID("DST")}})
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return &Stage{Prefix: "t-", Source: src, Target: dst, Clean: func(context.Context, string) error { src.Cluster().Compact(); return nil },
		Kill:  func(context.Context) error { src.Stop(); return nil },
		Close: func() error { return errors.Join(src.Close(), dst.Close()) }}, nil
}

// copier is a mirror whose faults are known: an ordinary consumer and producer, so
// that markers and holes shift what it copies, and groups are told to begin early.
type copier struct {
	early int64 // offsets before where its copies say that a group is
	fail  error // it ends at once, with this

	job    Job
	ended  chan struct{}
	cancel context.CancelFunc
	copies sync.WaitGroup

	mu sync.Mutex // guards places and remembered
	// places are the target offsets of copies by their source offsets.
	places map[lab.Partition]map[int64]int64
	// remembered are commits that were read at the source.
	remembered map[string]map[lab.Partition]int64
}

func (c *copier) Name() string     { return "copier" }
func (c *copier) Promise() Promise { return Promise{NothingLost: true, NothingTwice: true} }

// Patience is long where something is to come of it.
func (c *copier) Patience() time.Duration {
	if c.early > 0 {
		return 100 * time.Millisecond
	}
	return 20 * time.Second
}

func (c *copier) Start(ctx context.Context, j Job) (Mirror, error) {
	c.job, c.ended, c.places = j, make(chan struct{}), map[lab.Partition]map[int64]int64{}
	c.remembered = map[string]map[lab.Partition]int64{}
	if c.fail != nil {
		close(c.ended)
	}
	specs := []lab.TopicSpec{}
	for _, p := range append([]part{bulkPart}, parts...) {
		specs = append(specs, lab.TopicSpec{Name: "t-" + p.name, Partitions: p.partitions})
	}
	if err := lab.CreateTopics(ctx, j.Target, specs...); err != nil {
		return nil, err
	}
	from, err := kgo.NewClient(append(j.Source.AdminOpts(), kgo.ConsumeTopics(j.Topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return nil, err
	}
	to, err := kgo.NewClient(append(j.Target.AdminOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())...)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.copies.Go(func() {
		defer from.Close()
		defer to.Close()
		for running.Err() == nil {
			c.copy(running, to, from.PollFetches(running).Records())
		}
	})
	return c, nil
}

func (c *copier) copy(ctx context.Context, to *kgo.Client, records []*kgo.Record) {
	for _, r := range records {
		p, at := lab.Partition{Topic: r.Topic, Number: r.Partition}, r.Offset
		to.Produce(ctx, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers}, func(r *kgo.Record, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if err == nil {
				if c.places[p] == nil {
					c.places[p] = map[int64]int64{}
				}
				c.places[p][at] = r.Offset
			}
		})
	}
}

func (c *copier) Ended() <-chan struct{}      { return c.ended }
func (c *copier) Err() error                  { return c.fail }
func (c *copier) TargetTopic(t string) string { return t }
func (c *copier) Move(context.Context) error  { return nil }
func (c *copier) Usage() (Usage, error)       { return Usage{}, errors.New("not told") }
func (c *copier) Stop() error                 { c.cancel(); c.copies.Wait(); return nil }

// Resume gives the place of the first copy at or behind the group's commit, and
// some before it. It goes on telling when the source is gone.
func (c *copier) Resume(ctx context.Context, group string) (map[lab.Partition]int64, error) {
	commits := c.commits(ctx, group)
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[lab.Partition]int64{}
	for p, commit := range commits {
		next := int64(len(c.places[p])) // no copy lies behind
		for src, dst := range c.places[p] {
			if src >= commit {
				next = min(next, dst)
			}
		}
		out[p] = max(0, next-c.early)
	}
	return out, nil
}

// commits are the group's at the source, as they last were. All groups are asked
// about: once the source is dead it is too late.
func (c *copier) commits(ctx context.Context, group string) map[lab.Partition]int64 {
	client, err := kgo.NewClient(append(c.job.Source.AdminOpts(), kgo.DisableClientMetrics(), kgo.RetryTimeout(100*time.Millisecond))...)
	if err != nil {
		return nil
	}
	defer client.Close()
	all := kadm.NewClient(client).FetchManyOffsets(ctx, c.job.Groups...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range all {
		if g.Err != nil {
			continue
		}
		c.remembered[g.Group] = map[lab.Partition]int64{}
		g.Fetched.Each(func(o kadm.OffsetResponse) {
			c.remembered[g.Group][lab.Partition{Topic: o.Topic, Number: o.Partition}] = o.At
		})
	}
	return c.remembered[group]
}

func small(modes ...Mode) Options {
	return Options{Seed: 7, Load: 2 * time.Second, Rate: 500, BulkBytes: 1 << 20, Modes: modes, Raise: raise, Say: func(string) {}}
}

func runSmall(t testing.TB, m Mode) ModeResult {
	t.Helper()
	r, err := Run(t.Context(), small(m))
	if err != nil || len(r.Modes) != 1 || r.Modes[0].Error != "" {
		t.Errorf("%v: %+v", err, r)
		return ModeResult{Weight: &Weight{}}
	}
	return r.Modes[0]
}

// What is known to be wrong with a mirror is what is measured; and the same seed
// gives the same counts (X2).
func TestRunMeasuresKnownFaults(t *testing.T) {
	const early = 3
	var exact, off ModeResult
	var runs sync.WaitGroup
	runs.Go(func() { exact = runSmall(t, &copier{}) })
	runs.Go(func() { off = runSmall(t, &copier{early: early}) })
	runs.Wait()
	if exact.Lost != 0 || exact.Twice != 0 || exact.Disorder != 0 || exact.Superseded == 0 || len(exact.Findings) != 0 {
		t.Errorf("%+v", exact)
	}
	for _, topic := range exact.Topics {
		shifted := topic.SameOffset < topic.Copied
		if want := topic.Topic == "transactions" || topic.Topic == "compacted"; shifted != want || topic.Copied == 0 {
			t.Errorf("%+v: shifted is not %v", topic, want)
		}
	}
	for i, g := range exact.Groups {
		worse := off.Groups[i]
		if g.ReadAgain != 0 || g.NeverGiven != 0 || *g.ErrorMax != 0 || g.SwitchSeconds == nil || g.Unplaced != 0 {
			t.Errorf("%+v", g)
		}
		if *worse.ErrorMax != early || worse.ReadAgain <= 0 || worse.ReadAgain > early*int64(len(worse.Partitions)) || worse.NeverGiven != 0 {
			t.Errorf("%+v", worse)
		}
	}
	if exact.CarriedSeconds == nil || off.CarriedSeconds != nil {
		t.Errorf("carried: %v, %v", exact.CarriedSeconds, off.CarriedSeconds)
	}
	if exact.PeakMemoryBytes != nil || exact.CPUSecondsPerGB != nil {
		t.Error("what was not told is measured")
	}
	counts := exact.Counts()
	for name, n := range off.Counts() {
		if name != "current read_again" && name != "lagging read_again" && name != "rewinds read_again" && counts[name] != n {
			t.Errorf("%s: %d, the first time %d", name, n, counts[name])
		}
	}
	if len(exact.Course) == 0 || exact.LagP99Seconds == nil {
		t.Error("no lag")
	}
}

// X3.
func TestAModeThatEndsHasNoMeasures(t *testing.T) {
	broken := errors.New("broken")
	r, err := Run(t.Context(), small(&copier{fail: broken}))
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Modes[0]; m.Error == "" || m.EqualShare != nil || m.Weight != nil || len(m.Groups) != 0 || r.Kept {
		t.Errorf("%+v", m)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, o := range []Options{{Load: time.Second, Rate: 1000}, {Load: time.Minute, Rate: 1}} {
		if r, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v", r)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := small(&copier{})
	o.Say = func(string) { cancel() }
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || err.Error() != "stopped; no mode was finished" || len(r.Modes) != 0 || r.Kept {
		t.Errorf("%v: %+v", err, r)
	}
}

// What was finished before the context ended is told, and the rest named; all of it
// has ended (X5).
func TestRunThatIsStoppedTellsWhatWasFinished(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leftOver := errors.New("a topic is left")
	first := &copier{fail: errors.New("broken")}
	o := small(first, named{&copier{}, "second"}, named{&copier{}, "third"})
	o.Raise = func(ctx context.Context) (*Stage, error) {
		s, err := raise(ctx)
		if err == nil && first.cancel != nil { // of the second
			shut := s.Close
			s.Close = func() error { return errors.Join(shut(), leftOver) }
		}
		return s, err
	}
	o.Say = func(what string) {
		if strings.HasPrefix(what, "second: the mirror starts") {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	var stopped *StoppedError
	if !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) || !errors.Is(stopped.Left, leftOver) ||
		err.Error() != "stopped; finished: copier; not finished: second, third; and not all that was started could be ended: a topic is left" {
		t.Errorf("%v", err)
	}
	if len(r.Modes) != 1 || r.Modes[0].Error == "" || strings.Join(r.Unfinished, " ") != "second third" || r.Kept {
		t.Errorf("%+v", r)
	}
}

// named is a mode by another name.
type named struct {
	*copier
	name string
}

func (n named) Name() string { return n.name }
