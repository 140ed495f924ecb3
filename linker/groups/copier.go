package groups

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/remote"
	"klink/linker/state"
)

// Options are what a Copier needs.
type Options struct {
	Source, Target *kgo.Client
	// Select tells which groups are carried over, by name.
	Select func(group string) bool
	// TargetTopic gives the mirror of a source topic; false where the topic is
	// not mirrored.
	TargetTopic func(sourceTopic string) (string, bool)
	Logger      *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Copier copies committed offsets by asking for all of them in rounds. Report
// may be called at any time; Sync and Run not at the same time as each other.
type Copier struct {
	src, dst *kadm.Client
	o        Options

	// written and synced are Sync's alone.
	written map[groupPartition][]int64
	synced  map[groupPartition]time.Time

	mu     sync.Mutex // guards report
	report []state.Group
}

type groupPartition struct {
	group     string
	partition feed.Partition
}

// NewCopier returns a Copier. The clients stay the caller's.
func NewCopier(o Options) *Copier {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Copier{src: kadm.NewClient(o.Source), dst: kadm.NewClient(o.Target), o: o,
		written: make(map[groupPartition][]int64), synced: make(map[groupPartition]time.Time)}
}

// Run syncs every interval until ctx ends. A round that fails is said once and
// tried again.
func (c *Copier) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failing := false
	for {
		err := c.Sync(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			c.o.Logger.Warn("group offsets are not carried over", "err", err)
		case err == nil && failing:
			c.o.Logger.Info("group offsets are carried over again")
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Report returns the groups as the last round left them, sorted by name.
func (c *Copier) Report() []state.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.report)
}

// Sync makes one round. The error is a *remote.Fault of a cluster that could not
// be asked at all; what concerns single groups is in the report.
func (c *Copier) Sync(ctx context.Context) error {
	rounds, err := c.readSource(ctx)
	if err != nil {
		return err
	}
	if err := c.readTarget(ctx, rounds); err != nil {
		return err
	}
	report := make([]state.Group, 0, len(rounds))
	for _, r := range rounds {
		if r.err == nil {
			c.write(ctx, r)
		}
		report = append(report, c.groupReport(r))
	}
	c.mu.Lock()
	c.report = report
	c.mu.Unlock()
	return ctx.Err()
}

// round is one group in one round.
type round struct {
	group     string
	in        Input
	standings []Standing
	err       error // its offsets could not be read on either side
}

// carried tells of a listed group whether its commits are offsets of a consumer:
// share groups keep another kind of state, streams groups more than offsets.
func carried(g kadm.ListedGroup) bool {
	return g.GroupType == "" || g.GroupType == "classic" || g.GroupType == "consumer"
}

// readSource gives the selected groups that have committed on mirrored topics.
func (c *Copier) readSource(ctx context.Context) ([]*round, error) {
	listed, err := c.src.ListGroups(ctx)
	if err != nil && len(listed) == 0 {
		return nil, remote.Classify("list groups of the source", remote.Right("Describe", "group", "*"), err)
	}
	var names []string
	for _, g := range listed.Sorted() {
		if carried(g) && c.o.Select(g.Group) {
			names = append(names, g.Group)
		}
	}
	var out []*round
	for _, f := range c.src.FetchManyOffsets(ctx, names...) {
		r := &round{group: f.Group}
		if f.Err != nil {
			r.err = remote.Classify("read the source's offsets of group "+f.Group, remote.Right("Describe", "group", f.Group), f.Err)
			out = append(out, r)
			continue
		}
		f.Fetched.Each(func(o kadm.OffsetResponse) {
			target, ok := c.o.TargetTopic(o.Topic)
			if !ok || o.Err != nil {
				return
			}
			r.in.Source = append(r.in.Source, SourceOffset{Partition: feed.Partition{Topic: o.Topic, Partition: o.Partition},
				Target: feed.Partition{Topic: target, Partition: o.Partition}, Offset: o.At, Metadata: o.Metadata})
		})
		if len(r.in.Source) > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *round) int { return compareStrings(a.group, b.group) })
	return out, nil
}

func compareStrings(a, b string) int {
	return compare(feed.Partition{Topic: a}, feed.Partition{Topic: b})
}

// readTarget fills in what the target says of the groups and partitions. The
// ends are read before the commits are written and only rise, so no commit can
// be beyond them (U2).
func (c *Copier) readTarget(ctx context.Context, rounds []*round) error {
	topics := make(map[string]struct{})
	for _, r := range rounds {
		for _, s := range r.in.Source {
			topics[s.Target.Topic] = struct{}{}
		}
	}
	if len(topics) == 0 {
		return nil
	}
	bounds, err := c.bounds(ctx, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return err
	}
	listed, listErr := c.dst.ListGroups(ctx)
	var present []string
	for _, r := range rounds {
		r.in.Bounds = bounds
		g, ok := listed[r.group]
		r.in.Members = members(g, ok, listErr)
		if ok {
			present = append(present, r.group)
		}
	}
	fetched := c.dst.FetchManyOffsets(ctx, present...)
	for _, r := range rounds {
		f, ok := fetched[r.group]
		if !ok {
			continue // not there, by the list
		}
		if f.Err != nil {
			r.err = remote.Classify("read the target's offsets of group "+r.group, remote.Right("Describe", "group", r.group), f.Err)
			continue
		}
		r.in.Committed = make(map[feed.Partition]int64)
		f.Fetched.Each(func(o kadm.OffsetResponse) {
			p := feed.Partition{Topic: o.Topic, Partition: o.Partition}
			if o.Err != nil {
				// Not told: nothing may be written over it (U1).
				r.hide(p)
				return
			}
			r.in.Committed[p] = o.At
		})
	}
	return nil
}

// hide takes a partition's bounds away, so that it is not decided on.
func (r *round) hide(p feed.Partition) {
	r.in.Bounds = maps.Clone(r.in.Bounds)
	delete(r.in.Bounds, p)
}

// members reads the list of the target's groups. A group that is not listed has
// no members only if all brokers answered (U1).
func members(g kadm.ListedGroup, listed bool, err error) Members {
	switch {
	case listed && (g.State == "Empty" || g.State == "Dead"):
		return NoMembers
	case listed && g.State != "":
		return HasMembers
	case !listed && err == nil:
		return NoMembers
	default:
		return MembersUnknown
	}
}

func (c *Copier) bounds(ctx context.Context, topics []string) (map[feed.Partition]Bounds, error) {
	ends, err := c.dst.ListEndOffsets(ctx, topics...)
	if err != nil && len(ends) == 0 {
		return nil, remote.Classify("list ends on the target", remote.Right("Describe", "topic", "*"), err)
	}
	starts, err := c.dst.ListStartOffsets(ctx, topics...)
	if err != nil && len(starts) == 0 {
		return nil, remote.Classify("list starts on the target", remote.Right("Describe", "topic", "*"), err)
	}
	out := make(map[feed.Partition]Bounds)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil || o.Partition < 0 {
			return
		}
		b := Bounds{Start: feed.Unknown, HighWatermark: o.Offset}
		if s, ok := starts.Lookup(o.Topic, o.Partition); ok && s.Err == nil {
			b.Start = s.Offset
		}
		out[feed.Partition{Topic: o.Topic, Partition: o.Partition}] = b
	})
	return out, nil
}

// write commits what Decide says, and corrects the standings by the answers.
func (c *Copier) write(ctx context.Context, r *round) {
	r.in.Written = make(map[feed.Partition][]int64)
	for _, s := range r.in.Source {
		if w := c.written[groupPartition{r.group, s.Target}]; w != nil {
			r.in.Written[s.Target] = w
		}
	}
	var commits []Commit
	commits, r.standings = Decide(r.in)
	if len(commits) == 0 {
		return
	}
	refused := c.commit(ctx, r, commits)
	var again []Commit
	for _, cm := range commits {
		if errors.Is(refused[cm.Partition], kerr.OffsetMetadataTooLarge) {
			cm.Metadata = ""
			again = append(again, cm)
		}
	}
	if len(again) == 0 {
		return
	}
	// The offset matters more than the string (shown as METADATA_DROPPED).
	second := c.commit(ctx, r, again)
	for _, cm := range again {
		if second[cm.Partition] == nil {
			r.judge(cm.Partition, MetadataDropped, cm.Offset)
		}
	}
}

// commit writes one request for one group, as an administrator: without member
// and generation, which the coordinator refuses while the group has members.
func (c *Copier) commit(ctx context.Context, r *round, commits []Commit) map[feed.Partition]error {
	offsets := make(kadm.Offsets)
	for _, cm := range commits {
		offsets.Add(kadm.Offset{Topic: cm.Partition.Topic, Partition: cm.Partition.Partition, At: cm.Offset,
			LeaderEpoch: feed.NoEpoch, Metadata: cm.Metadata})
		k := groupPartition{r.group, cm.Partition}
		if w := c.written[k]; !slices.Contains(w, cm.Offset) {
			c.written[k] = append(w, cm.Offset) // U4
		}
	}
	answers, err := c.dst.CommitOffsets(ctx, r.group, offsets)
	refused := make(map[feed.Partition]error)
	for _, cm := range commits {
		why := err
		if a, ok := answers.Lookup(cm.Partition.Topic, cm.Partition.Partition); ok {
			why = a.Err
		}
		if why != nil {
			refused[cm.Partition] = why
			r.judge(cm.Partition, verdictOf(why), feed.Unknown)
			continue
		}
		c.written[groupPartition{r.group, cm.Partition}] = []int64{cm.Offset}
	}
	return refused
}

func verdictOf(err error) Verdict {
	switch {
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.RebalanceInProgress),
		errors.Is(err, kerr.StaleMemberEpoch), errors.Is(err, kerr.NonEmptyGroup):
		return GroupActive // joined since it was listed
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return TargetUnknown
	case remote.ReasonOf(err) == state.NoPermission:
		return NoPermission
	default:
		return Failed
	}
}

// judge replaces a partition's verdict; target is what is committed there, or
// feed.Unknown for what was there before the round.
func (r *round) judge(p feed.Partition, v Verdict, target int64) {
	for i := range r.standings {
		st := &r.standings[i]
		if st.Source.Target != p {
			continue
		}
		st.Verdict, st.Target = v, target
		if have, ok := r.in.Committed[p]; ok && target == feed.Unknown {
			st.Target = have
		}
	}
}
