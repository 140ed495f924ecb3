package comparator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"klink/fetcher/leaders"
)

// PartitionName names a partition by its topic's name on the source.
type PartitionName struct {
	Topic     string
	Partition int32
}

func (n PartitionName) compare(o PartitionName) int {
	return cmp.Or(cmp.Compare(n.Topic, o.Topic), cmp.Compare(n.Partition, o.Partition))
}

// Topic is one topic by its names on both sides.
type Topic struct{ Source, Target string }

// Options say what is compared, and how thoroughly. Source, Target and Topics
// must be given.
type Options struct {
	// Link names the link in the result.
	Link string
	// Source and Target are used for reading alone, and stay the caller's.
	Source, Target *kgo.Client
	Topics         []Topic
	// FollowStart: the target is trimmed to the source's log start and deletes
	// nothing by itself, so that other starts are findings. BeginsLater: the mirror
	// was begun at a later offset than its source.
	FollowStart, BeginsLater bool
	// Since leaves out what lies before the source's first record at or after this
	// time, by ListOffsets; zero for everything.
	Since time.Time
	// Ranges narrow single partitions, e.g. to go on where a comparison was broken
	// off: From is then the To of what is compared already.
	Ranges map[PartitionName]Range
	// Keys lists keys of compacted topics whose latest value differs.
	Keys bool
	// NoDigest passes over batches that are the same bytes on both sides without
	// decoding them, and computes no digests.
	NoDigest bool
	// Groups selects consumer groups; nil for none.
	Groups func(group string) bool
	// Expected are the settings that a mirror is given of a topic with the
	// source's settings, nil where these are not known; replicas are the target
	// topic's. Without it settings are not compared.
	Expected func(src Settings, replicas int) map[string]string
	// Mode is that of the link.
	Mode Mode
	// Copies tells where the copies of a partition lie by now, nil of one whose copies
	// have the offsets of their records. Optional: then all have.
	Copies func(ctx context.Context, p CopiedPartition) (*Copied, error)
	// ACLs compares the access rules of the topics.
	ACLs bool
	// Parallel is how many partitions are compared at a time (DefaultParallel), and
	// MemoryBytes bounds what is fetched for all of them together
	// (DefaultMemoryBytes).
	Parallel    int
	MemoryBytes int64
	// Limit bounds the bytes a second that are read from the source, where it is not
	// nil.
	Limit *rate.Limiter
	// Resume is what Keep was told by a comparison that was broken off: what it has
	// compared is taken over; nil for nothing. Keep is told how far the comparison
	// is, one call at a time, at times and where it does not come to its end; optional.
	Resume *Saved
	Keep   func(Saved)
	// MaxKeys is that of MergeOptions, per partition.
	MaxKeys int
	every   int64 // instead of markEvery, where it is not 0
	// Progress is told how far the comparison is, one call at a time, at most ten
	// times a second; optional.
	Progress func(Progress)
}

const (
	// DefaultParallel keeps two cores busy with two sides each.
	DefaultParallel = 2
	// DefaultMemoryBytes is the default of klink's limits.fetch_memory.
	DefaultMemoryBytes = 16 << 20
	// answersHeld are the Fetch answers of one side that are in memory at a time: one
	// that is compared, one that is ahead, one that is fetched and one on its way.
	answersHeld = 4
	leastRead   = 64 << 10
	mostRead    = 16 << 20
)

func (o *Options) parallel() int {
	if o.Parallel <= 0 {
		return DefaultParallel
	}
	return o.Parallel
}

func (o *Options) markEvery() int64 { return cmp.Or(o.every, markEvery) }

func (o *Options) starts() startRule { return startRule{follows: o.FollowStart, later: o.BeginsLater} }

// readBytes is what one Fetch asks for.
func (o *Options) readBytes() int32 {
	memory := o.MemoryBytes
	if memory <= 0 {
		memory = DefaultMemoryBytes
	}
	return int32(max(leastRead, min(mostRead, memory/int64(2*answersHeld*o.parallel()))))
}

// TopicResult is one topic on both sides.
type TopicResult struct {
	Link        string `json:"link"`
	SourceTopic string `json:"source_topic"`
	TargetTopic string `json:"target_topic"`
	// Mode is that of its partitions.
	Mode Mode `json:"mode"`
	// SourceID and TargetID are the ids of the topics that were compared; zero where a
	// cluster has none.
	SourceID   [16]byte          `json:"-"`
	TargetID   [16]byte          `json:"-"`
	Compacted  bool              `json:"compacted"`
	Partitions []PartitionResult `json:"partitions"`
	// Differences are sentences about the topics themselves: one that is not there,
	// partition counts.
	Differences []string `json:"differences"`
	// Error is why nothing of the topic could be compared.
	Error string `json:"error"`
}

// Result is what a comparison found.
type Result struct {
	AsOf time.Time `json:"as_of"`
	// ResumedFrom is when a comparison began that this one went on from.
	ResumedFrom *time.Time `json:"resumed_from,omitempty"`
	// Equal is true where there is no difference and all was compared.
	Equal   bool               `json:"equal"`
	Topics  []TopicResult      `json:"topics"`
	Groups  []GroupResult      `json:"groups"`
	Configs []ConfigDifference `json:"configs"`
	// ACLs are absent where they were not to be compared.
	ACLs []ACLResult `json:"acls,omitempty"`
	// Differences counts findings of every sort, Failed what could not be compared.
	Differences int64   `json:"differences"`
	Failed      int     `json:"failed"`
	Bytes       int64   `json:"read_bytes"`
	Seconds     float64 `json:"seconds"`
}

// comparison is one run.
type comparison struct {
	opt      *Options
	sides    [2]*cluster
	printer  *Printer
	progress *progress
	saver    *saver
	configs  [2]map[string]Settings
}

// Compare compares two clusters. An error is a cluster that does not answer, or
// the end of ctx; what is wrong with a topic or partition is part of the result.
func Compare(ctx context.Context, o Options) (r Result, err error) {
	c := &comparison{opt: &o, printer: NewPrinter()}
	for side, cl := range []*kgo.Client{o.Source, o.Target} {
		m := leaders.New(cl)
		defer m.Close()
		c.sides[side] = &cluster{side: Side(side), cl: cl, leaders: m}
		if Side(side) == Source {
			c.sides[side].limit = o.Limit
		}
	}
	r = Result{AsOf: time.Now().UTC(), Groups: []GroupResult{}, Configs: []ConfigDifference{}, Topics: []TopicResult{}}
	if err := c.learn(ctx); err != nil {
		return r, err
	}
	pairs := c.pairs(ctx, &r)
	if err := c.goOn(pairs, &r); err != nil {
		return r, err
	}
	defer func() {
		if err != nil || r.Failed > 0 {
			c.saver.tell() // another one may bring it to its end
		}
	}()
	if err := c.run(ctx, pairs); err != nil {
		return r, err
	}
	for _, p := range pairs {
		t := &r.Topics[p.topic]
		t.Partitions = append(t.Partitions, p.sorted())
		t.Mode = cmp.Or(p.res.Mode, t.Mode)
	}
	c.checkIDs(&r)
	if o.Groups != nil {
		look := &groupLook{src: o.Source, dst: o.Target, wanted: o.Groups, names: c.names(), copies: copiesOf(pairs)}
		groups, err := look.compareGroups(ctx)
		if err != nil {
			return r, err
		}
		for i := range groups {
			groups[i].Link = o.Link
		}
		r.Groups = groups
	}
	c.compareConfigs(&r)
	if o.ACLs {
		r.ACLs = []ACLResult{c.compareACLs(ctx)}
	}
	r.Bytes, r.Seconds = c.progress.now.Bytes, time.Since(r.AsOf).Seconds()
	r.sum()
	return r, ctx.Err()
}

// names returns, for each side, the source's name of each topic.
func (c *comparison) names() (names [2]map[string]string) {
	names[Source], names[Target] = make(map[string]string), make(map[string]string)
	for _, t := range c.opt.Topics {
		names[Source][t.Source], names[Target][t.Target] = t.Source, t.Source
	}
	return names
}

func (t Topic) on(side Side) string {
	if side == Source {
		return t.Source
	}
	return t.Target
}

// learn asks both clusters for the topics and their settings.
func (c *comparison) learn(ctx context.Context) error {
	for side, cluster := range c.sides {
		names := make([]string, len(c.opt.Topics))
		for i, t := range c.opt.Topics {
			names[i] = t.on(Side(side))
		}
		if err := cluster.leaders.Refresh(ctx, names...); err != nil {
			return fmt.Errorf("%s: %w", Side(side), err)
		}
		var err error
		if c.configs[side], err = describe(ctx, cluster.cl, names); err != nil {
			return fmt.Errorf("%s: %w", Side(side), err)
		}
	}
	return nil
}

// pairs makes the result's topics and returns the partitions that are on both
// sides.
func (c *comparison) pairs(ctx context.Context, r *Result) []*pair {
	var pairs []*pair
	now := time.Now().UnixMilli()
	for i, t := range c.opt.Topics {
		res := TopicResult{Mode: cmp.Or(c.opt.Mode, Mirror), Link: c.opt.Link, SourceTopic: t.Source, TargetTopic: t.Target, Partitions: []PartitionResult{}, Differences: []string{}}
		src, dst := c.configs[Source][t.Source], c.configs[Target][t.Target]
		res.Compacted = src.compacted() || dst.compacted()
		res.SourceID, res.TargetID = c.sides[Source].topicID(t.Source), c.sides[Target].topicID(t.Target)
		counts, err := c.counts(t)
		if err != nil {
			res.Error = err.Error()
		} else {
			res.Differences = append(res.Differences, contrastCounts(counts)...)
		}
		for n := range min(counts[Source], counts[Target]) {
			pairs = append(pairs, &pair{opt: c.opt, printer: c.printer, compacted: res.Compacted, topic: i,
				src:   &log{cluster: c.sides[Source], topic: t.Source, partition: n},
				dst:   &log{cluster: c.sides[Target], topic: t.Target, partition: n},
				rules: [2]tombstoneRule{{src.keepMillis(), now}, {dst.keepMillis(), now}},
				res:   PartitionResult{Partition: n}})
		}
		r.Topics = append(r.Topics, res)
	}
	c.guess(ctx, pairs)
	return pairs
}

// counts returns how many partitions a topic has on each side, 0 where it is not
// there.
func (c *comparison) counts(t Topic) (n [2]int32, err error) {
	for side, cluster := range c.sides {
		seen, known := cluster.leaders.Topic(t.on(Side(side)))
		switch {
		case known && seen.Err == nil:
			n[side] = int32(len(seen.Leaders))
		case known && missing(seen.Err):
		default:
			return [2]int32{}, fmt.Errorf("%s: %w", Side(side), errors.Join(seen.Err))
		}
	}
	return n, nil
}

// checkIDs finds topics that were made anew while they were read: leaders learned
// their ids again then, and what was found is of two topics.
func (c *comparison) checkIDs(r *Result) {
	for i := range r.Topics {
		t := &r.Topics[i]
		now := [2][16]byte{c.sides[Source].topicID(t.SourceTopic), c.sides[Target].topicID(t.TargetTopic)}
		for side, id := range [2][16]byte{t.SourceID, t.TargetID} {
			if id != now[side] && t.Error == "" && len(t.Partitions) > 0 {
				t.Error = fmt.Sprintf("%s: %v", Side(side), ErrReplaced)
			}
		}
	}
}

// contrastCounts puts partition counts that differ into words.
func contrastCounts(n [2]int32) []string {
	there := func(n int32) string {
		if n == 0 {
			return "has no such topic"
		}
		return fmt.Sprintf("has %d partitions", n)
	}
	if n[Source] == n[Target] && n[Source] > 0 {
		return nil
	}
	return []string{fmt.Sprintf("the source %s, the target %s", there(n[Source]), there(n[Target]))}
}

// guess asks for the size of all partitions, for the progress. Who does not
// answer is asked again when its turn comes.
func (c *comparison) guess(ctx context.Context, pairs []*pair) {
	const atATime = 16 // ListOffsets that are in flight on a connection
	g := new(errgroup.Group)
	g.SetLimit(atATime)
	for _, p := range pairs {
		g.Go(func() error {
			if b, err := p.src.bounds(ctx); err == nil && c.opt.Since.IsZero() {
				p.guess = b.LastStable - b.Start
			}
			return nil
		})
	}
	_ = g.Wait() // no guess is an error
	var total int64
	for _, p := range pairs {
		total += p.guess
	}
	c.progress = newProgress(c.opt.Progress, len(pairs), total)
}

// goOn looks up what was compared before.
func (c *comparison) goOn(pairs []*pair, r *Result) error {
	c.saver = newSaver(c.opt, r.AsOf)
	if c.opt.Resume != nil {
		r.ResumedFrom = &c.opt.Resume.AsOf
	}
	for _, p := range pairs {
		var err error
		if p.part, err = c.opt.saved(p); err != nil {
			return err
		}
		p.saver = c.saver
	}
	return nil
}

// run compares the partitions, a few at a time.
func (c *comparison) run(ctx context.Context, pairs []*pair) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.opt.parallel())
	for _, p := range pairs {
		g.Go(func() error {
			p.progress = c.progress
			if p.part != nil && p.part.Whole {
				p.res = p.part.Result
				c.progress.finished(p)
				return nil
			}
			err := p.compare(ctx)
			if err == nil {
				p.saveWhole()
			}
			c.progress.finished(p)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				p.res.Error = err.Error()
			}
			return nil
		})
	}
	return g.Wait()
}

func (c *comparison) compareConfigs(r *Result) {
	if c.opt.Expected == nil {
		return
	}
	for _, t := range c.opt.Topics {
		dst := c.configs[Target][t.Target]
		if dst == nil {
			continue // not there, or not ours to see
		}
		seen, _ := c.sides[Target].leaders.Topic(t.Target)
		src := c.configs[Source][t.Source]
		for _, d := range differences(src, dst, c.opt.Expected(src, seen.Replicas)) {
			d.Link, d.SourceTopic, d.TargetTopic = c.opt.Link, t.Source, t.Target
			r.Configs = append(r.Configs, d)
		}
	}
}

// sum counts what was found.
func (r *Result) sum() {
	r.Differences, r.Failed = int64(len(r.Configs)), 0
	for i := range r.Topics {
		t := &r.Topics[i]
		r.Differences += int64(len(t.Differences))
		r.Failed += failed(t.Error)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			r.Failed += failed(p.Error)
			for _, n := range p.Counts {
				r.Differences += n
			}
			if p.KeysDiffering != nil {
				r.Differences += *p.KeysDiffering
			}
		}
	}
	for _, g := range r.Groups {
		r.Failed += failed(g.Error)
		r.Differences += int64(len(g.Partitions))
	}
	for _, a := range r.ACLs {
		r.Failed += failed(a.Error)
		r.Differences += int64(len(a.Differences))
	}
	r.Equal = r.Differences == 0 && r.Failed == 0
}

func failed(text string) int {
	if strings.TrimSpace(text) == "" {
		return 0
	}
	return 1
}

// Join makes one result of those of several links; as of the oldest.
func Join(all ...Result) Result {
	out := Result{Topics: []TopicResult{}, Groups: []GroupResult{}, Configs: []ConfigDifference{}}
	for _, r := range all {
		if out.AsOf.IsZero() || r.AsOf.Before(out.AsOf) {
			out.AsOf = r.AsOf
		}
		if r.ResumedFrom != nil && (out.ResumedFrom == nil || r.ResumedFrom.Before(*out.ResumedFrom)) {
			out.ResumedFrom = r.ResumedFrom
		}
		out.Topics = append(out.Topics, r.Topics...)
		out.Groups = append(out.Groups, r.Groups...)
		out.Configs = append(out.Configs, r.Configs...)
		out.ACLs = append(out.ACLs, r.ACLs...)
		out.Bytes += r.Bytes
		out.Seconds += r.Seconds
	}
	out.sum()
	return out
}
