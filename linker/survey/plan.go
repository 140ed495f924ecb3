package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/fetcher/feed"
	"klink/linker/admit"
	"klink/linker/control"
	"klink/linker/pad"
	"klink/linker/plan"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
)

// atOnce is how many partitions are looked at at the same time: enough to hide
// round trips, and few enough for the fetch budget and for other readers.
const atOnce = 8

// PlanOptions of Plan. Src, Dst, the readers and Matcher are required.
type PlanOptions struct {
	Link string
	// Group is the one on the target that the link's workers join; "" is none.
	Group string
	// Src and Dst ask the two clusters; nothing is written to either.
	Src, Dst             *kgo.Client
	SrcReader, DstReader Reader
	Matcher              *topics.Matcher
	// Topics are those of the link's mirror.
	Topics topics.PlanOptions
	// Only selects among the link's topics; nil is all.
	Only func(source, target string) bool
	// Policy is the link's; its Compaction is found out per topic.
	Policy    plan.Policy
	Otherwise Otherwise
	// Drift: the link is in checkpoint mode, where no offset is kept. Policy, Otherwise
	// and From mean nothing then.
	Drift bool
	// FollowStart: the target is trimmed to the source's log start.
	FollowStart bool
	// From is the link's start; nil is the earliest record.
	From From
	// Records are those of the target's control topic; nil is none.
	Records Records
	// Beforehand tells what a klink that starts would refuse by the records; nil is
	// nothing.
	Beforehand *admit.Beforehand
	Limits     plan.Limits
	Pace       Pace
	// Exact reads the source's logs as a whole, in place of samples.
	Exact bool
	// SampleBytes is about how much is read of all logs together; 0 is 1 GiB.
	SampleBytes int
}

// Plan looks at both clusters and says how each topic of a link would be
// mirrored. It writes nothing (S5). An error is a cluster that does not answer;
// what is wrong with a topic or partition is part of the result.
func Plan(ctx context.Context, o PlanOptions) (PlanResult, error) {
	p := &planner{o: o, r: Join(), now: time.Now()}
	p.r.AsOf = p.now.UTC()
	if err := p.look(ctx); err != nil {
		return p.r, err
	}
	for i := range p.plans {
		p.planTopic(&p.plans[i])
	}
	if err := p.readLogs(ctx); err != nil {
		return p.r, err
	}
	for i := range p.r.Topics {
		p.r.Topics[i].conclude()
	}
	p.r.Rights = rightsOf(p.rights())
	p.r.Rates = []LinkPace{{Link: o.Link, Pace: o.Pace, ExpectedMarkers: p.expectedMarkers()}}
	p.r.sort()
	return p.r, nil
}

// planner is one plan under way.
type planner struct {
	o     PlanOptions
	r     PlanResult
	now   time.Time
	plans []topics.Plan
	// src and dst are the topics that are there, by name; those of dst include the
	// control topic.
	src, dst map[string]seenTopic
	cluster  operations
	group    operations
	settings map[string]topics.Settings
	jobs     []*job
	// lacking are rights that were missed on the way.
	lacking []string
}

// job is one partition whose log is to be read.
type job struct {
	topic int // in r.Topics
	at    int // in its Partitions
	plan  *topics.Plan
	src   feed.Partition
	dst   feed.Partition
	means means
	lim   plan.Limits
	// drifts: the topic is in checkpoint mode.
	drifts bool
	// amount is set by the reading.
	amount Amount
}

// look asks the clusters for all but the logs.
func (p *planner) look(ctx context.Context) error {
	d, err := topics.Discover(ctx, p.o.Src, p.o.Matcher)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	p.passOver(d)
	var sources, targets []string
	for _, t := range topics.PlanAll(d.Topics, p.o.Topics) {
		if p.o.Only != nil && !p.o.Only(t.Source.Name, t.Target) {
			continue
		}
		p.plans = append(p.plans, t)
		sources, targets = append(sources, t.Source.Name), append(targets, t.Target)
	}
	if p.src, err = seeTopics(ctx, p.o.Src, sources); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if p.dst, err = seeTopics(ctx, p.o.Dst, append(targets, control.TopicName)); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	p.cluster = seeCluster(ctx, p.o.Dst)
	if p.group, err = p.seeGroup(ctx); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	var there []string
	for name := range p.dst {
		there = append(there, name)
	}
	if p.settings, err = seeSettings(ctx, p.o.Dst, there); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	return nil
}

// offsetsTopic is where brokers keep what groups commit. Asking for the
// coordinator of any group makes it.
const offsetsTopic = "__consumer_offsets"

// seeGroup returns the operations on the workers' group; noOperations where the
// cluster has not had a group yet as far as can be seen, since asking would make a
// topic.
func (p *planner) seeGroup(ctx context.Context) (operations, error) {
	if p.o.Group == "" {
		return noOperations, nil
	}
	if _, mirrored := p.dst[control.TopicName]; !mirrored {
		all, err := seeTopics(ctx, p.o.Dst, []string{offsetsTopic})
		if t, ok := all[offsetsTopic]; err != nil || !ok || t.err != nil {
			return noOperations, err
		}
	}
	return seeGroup(ctx, p.o.Dst, p.o.Group), nil
}

// passOver says what is not mirrored.
func (p *planner) passOver(d topics.Discovered) {
	for _, m := range d.Missing {
		if target := p.o.Matcher.Target(m.Name); p.o.Only == nil || p.o.Only(m.Name, target) {
			p.r.Topics = append(p.r.Topics, refusedTopic(p.o.Link, m.Name, target, onSource+m.Detail))
			if m.Reason == state.NoPermission {
				p.lacking = append(p.lacking, onSource+remote.Right("Describe", "topic", m.Name))
			}
		}
	}
	if p.o.Only != nil {
		return
	}
	for _, s := range d.Skipped {
		p.r.Notes = append(p.r.Notes, fmt.Sprintf("%s is not mirrored: %s", s.Name, s.Why))
	}
	for _, pattern := range d.Unmatched {
		if slices.ContainsFunc(d.Missing, func(m topics.Missing) bool { return m.Name == pattern }) {
			continue // told as a topic
		}
		p.r.Notes = append(p.r.Notes, fmt.Sprintf("the pattern %q selects nothing", pattern))
	}
}

// planTopic judges what needs no look into logs, and prepares that.
func (p *planner) planTopic(t *topics.Plan) {
	dst, there := p.dst[t.Target]
	have := p.settings[t.Target]
	if !there {
		have = nil
	}
	if why := p.refusal(t, have); why != "" {
		p.r.Topics = append(p.r.Topics, refusedTopic(p.o.Link, t.Source.Name, t.Target, why))
		return
	}
	want := topics.PlanConfigs(topics.ConfigInput{Source: t.Source.Configs, Known: knownKeys(p.settings), Overrides: t.Overrides,
		Replicas: int(t.Replicas), CopyRetention: t.CopyRetention})
	if !there || have != nil {
		for _, d := range differences(t.Source.Configs, want, have, t.Overrides) {
			d.Link, d.SourceTopic, d.TargetTopic = p.o.Link, t.Source.Name, t.Target
			p.r.Configs = append(p.r.Configs, d)
		}
	}
	topic := TopicPlan{Link: p.o.Link, SourceTopic: t.Source.Name, TargetTopic: t.Target, Verdict: Raw, Reasons: append([]string{}, want.Notes...), Partitions: []PartitionPlan{}}
	m := means{policy: p.o.Policy, otherwise: p.o.Otherwise, mark: mayMark(p.cluster), trim: dst.ops.allow(deleteOp),
		compacted: strings.Contains(t.Source.Configs["cleanup.policy"].Value, "compact")}
	if !there {
		m.trim = Unknown
	}
	m.mirrored = there && p.mirrored(t)
	drifts := p.o.Drift || p.driftsOnRecord(t.Source.Name)
	lim := p.o.Limits
	lim.MaxBatchBytes = maxBatch(want, have)
	for n := range t.Partitions {
		p.jobs = append(p.jobs, &job{topic: len(p.r.Topics), at: int(n), plan: t, means: m, lim: lim, drifts: drifts,
			src: feed.Partition{Topic: t.Source.Name, Partition: n}, dst: feed.Partition{Topic: t.Target, Partition: n}})
		topic.Partitions = append(topic.Partitions, PartitionPlan{Partition: n, Verdict: Raw, Reasons: []string{}})
	}
	p.r.Topics = append(p.r.Topics, topic)
}

// refusal is why a topic as a whole would not be mirrored, in the order in which klink
// run looks; "" where it would.
func (p *planner) refusal(t *topics.Plan, have topics.Settings) string {
	dst, there := p.dst[t.Target]
	if t.Reason == "" && p.o.Beforehand != nil {
		m := admit.Mirror{SourceTopic: t.Source.Name, SourceID: t.Source.ID, Target: t.Target, There: there, TargetID: dst.id}
		if why := p.o.Beforehand.Refusal(m); why != "" {
			return why
		}
	}
	return unfit(t, dst, have)
}

// unfit is why a topic as a whole cannot be mirrored, "" where it can.
func unfit(t *topics.Plan, dst seenTopic, have topics.Settings) string {
	src, known := t.Source.Configs["cleanup.policy"]
	compacts := func(policy string) bool { return strings.Contains(policy, "compact") }
	switch {
	case t.Reason != "":
		return fmt.Sprintf("%s: %s", t.Reason, t.Detail)
	case dst.err != nil:
		return onTarget + dst.err.Error()
	case dst.partitions > t.Partitions:
		return fmt.Sprintf("the target topic has %d partitions and the source topic %d: keyed records would not lie where consumers look for them", dst.partitions, t.Partitions)
	case known && compacts(have["cleanup.policy"].Value) && !compacts(src.Value):
		return fmt.Sprintf("the target topic's cleanup.policy is %q and the source's %q: the target would remove records that the source keeps", have["cleanup.policy"].Value, src.Value)
	}
	return ""
}

// readLogs reads the ends of all logs, and samples of what is to be mirrored.
func (p *planner) readLogs(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	bytes := placeBytes(cmp.Or(p.o.SampleBytes, sampleBytes), len(p.jobs))
	if p.o.Exact {
		bytes = exactBytes
	}
	for _, j := range p.jobs {
		g.Go(func() error {
			err := p.readLog(gctx, j, &sampler{reader: p.o.SrcReader, limits: j.lim, bytes: bytes, exact: p.o.Exact})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // one partition's trouble is no other's
				out := p.partition(j)
				out.Verdict, out.Reasons = Refuse, append(out.Reasons, err.Error())
			}
			return nil
		})
	}
	return g.Wait()
}

// partition is written by the goroutine of its job alone.
func (p *planner) partition(j *job) *PartitionPlan { return &p.r.Topics[j.topic].Partitions[j.at] }

func (p *planner) readLog(ctx context.Context, j *job, s *sampler) error {
	out := p.partition(j)
	src, err := p.o.SrcReader.Bounds(ctx, j.src, j.plan.Source.ID)
	if err != nil {
		return sided(onSource, err)
	}
	pos := position{src: src, from: src.LogStart, goal: feed.Unknown}
	if p.o.From != nil {
		if pos.from, err = p.o.From.Offset(ctx, j.src, j.plan.Source.ID, src); err != nil {
			return sided(onSource, err)
		}
	}
	if dst, ok := p.dst[j.dst.Topic]; ok && j.dst.Partition < dst.partitions {
		b, err := p.o.DstReader.Bounds(ctx, j.dst, dst.id)
		if err != nil {
			return sided(onTarget, err)
		}
		pos.dstStart, pos.dstEnd = b.LogStart, max(b.LogEnd, b.HighWatermark)
		p.recall(&pos, j.src, dst.id)
		if !j.drifts && !j.means.mirrored && pos.goal == feed.Unknown && p.o.Otherwise == OtherwiseCheckpoint {
			if pos.unlike, err = p.unlike(ctx, j, pos, dst.id); err != nil {
				return err
			}
		}
	}
	b := begin(pos, j.means.policy)
	if j.drifts {
		b = drifting(pos)
	}
	if b.obstacle == "" {
		strata, err := s.read(ctx, j.src, j.plan.Source.ID, b.at, src.LastStable)
		if err != nil {
			return sided(onSource, err)
		}
		j.amount = extrapolate(strata, p.now.UnixMilli())
	}
	if j.drifts {
		j.amount = j.amount.withoutGaps()
		out.Verdict, out.Reasons = Checkpoint, b.reasons()
	} else {
		out.Verdict, out.Reasons = judge(b, j.amount, j.means)
	}
	out.Reasons = append([]string{}, out.Reasons...)
	out.describe(pos, b, j.amount, p.o.Pace)
	return nil
}

// recall takes over what is on record of a mirror.
func (p *planner) recall(pos *position, src feed.Partition, dst feed.TopicID) {
	if p.o.Records == nil {
		return
	}
	pos.mirrored = len(p.o.Records.Epochs(p.o.Link, src.Topic, src.Partition)) > 0
	if r, ok := p.o.Records.Pad(p.o.Link, src.Topic, src.Partition); ok && r.TargetID == dst {
		pos.goal, pos.padded = r.Goal, pad.Record{Stage: pad.Stage(r.Stage), Done: r.Done}.Ready()
	}
}

// mirrored tells whether this link mirrored anything of a topic, so that it is too late
// for another mode.
func (p *planner) mirrored(t *topics.Plan) bool {
	if p.o.Records == nil {
		return false
	}
	for n := range t.Partitions {
		_, padded := p.o.Records.Pad(p.o.Link, t.Source.Name, n)
		if padded || len(p.o.Records.Epochs(p.o.Link, t.Source.Name, n)) > 0 {
			return true
		}
	}
	return false
}

// driftsOnRecord tells whether a topic was found to be for checkpoint mode.
func (p *planner) driftsOnRecord(source string) bool {
	if p.o.Records == nil {
		return false
	}
	r, ok := p.o.Records.Topic(p.o.Link, source)
	return ok && r.Mode == control.ModeCheckpoint
}

// sided puts the side before an error of a reader.
func sided(side string, err error) error {
	var f *feed.Fault
	if errors.As(err, &f) && f.Kind == feed.Unauthorized {
		return fmt.Errorf("%smissing right: Read on topic %s: %w", side, f.Partition.Topic, err)
	}
	return fmt.Errorf("%s%w", side, err)
}

// expectedMarkers adds up how fast gaps have been coming; nil where it is known
// of no partition.
func (p *planner) expectedMarkers() *float64 {
	var sum float64
	known := false
	for _, j := range p.jobs {
		if g := j.amount.GapsPerSecond; g >= 0 && j.amount.Gaps != nil {
			sum, known = sum+g, true
		}
	}
	if !known {
		return nil
	}
	return &sum
}

// rights gathers what the needed rights follow from.
func (p *planner) rights() rightsInput {
	in := rightsInput{src: map[string]operations{}, dst: map[string]operations{}, cluster: p.cluster, group: p.o.Group, onGroup: p.group, trims: p.o.FollowStart,
		marks: p.o.Policy.Gaps == plan.FillMarkers && !p.o.Drift, lacking: p.lacking}
	for i := range p.plans {
		t := &p.plans[i]
		if s, ok := p.src[t.Source.Name]; ok {
			in.src[t.Source.Name] = s.ops
		}
		d, ok := p.dst[t.Target]
		switch {
		case !ok && t.Reason == "":
			in.create = append(in.create, t.Target)
		case ok && !in.lacks(d.err):
			in.dst[t.Target] = d.ops
			if d.partitions < t.Partitions {
				in.grows = append(in.grows, t.Target)
			}
		}
	}
	switch c, ok := p.dst[control.TopicName]; {
	case !ok:
		in.create = append(in.create, control.TopicName)
	case !in.lacks(c.err):
		in.control = c.ops
	}
	return in
}

// lacks notes the right that an answer about a target topic was refused for.
func (in *rightsInput) lacks(err error) bool {
	var f *remote.Fault
	if !errors.As(err, &f) || f.Right == "" {
		return false
	}
	in.lacking = append(in.lacking, onTarget+f.Right)
	return true
}
