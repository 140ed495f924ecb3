package app

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker"
	"klink/linker/admit"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/survey"
	"klink/linker/topics"
)

// planLinks plans all links of a configuration, one after the other.
func planLinks(ctx context.Context, cfg *config.Config, req PlanRequest) (survey.PlanResult, error) {
	budget := fetcher.NewBudget(int64(cfg.Limits.FetchMemory))
	var all []survey.PlanResult
	for _, l := range cfg.Links {
		r, err := planLink(ctx, linkPlan{link: l, memory: cfg.Limits.FetchMemory, budget: budget, req: req})
		if err != nil {
			return survey.PlanResult{}, fmt.Errorf("link %s: %w", l.Name, err)
		}
		all = append(all, r)
	}
	return survey.Join(all...), nil
}

// linkPlan is what a plan of one link needs.
type linkPlan struct {
	link   config.Link
	memory config.Bytes
	budget *fetcher.Budget
	req    PlanRequest
}

func planLink(ctx context.Context, p linkPlan) (r survey.PlanResult, err error) {
	matcher, err := newMatcher(p.link)
	if err != nil {
		return r, &UsageError{Command: "plan", What: fmt.Sprintf("topics.%v", err)}
	}
	o := kafka.Options{Link: p.link, FetchMemory: p.memory, Version: Version()}
	src, err := kafka.OpenSource(o)
	if err != nil {
		return r, err
	}
	defer src.Close()
	dst, err := kafka.OpenTarget(o)
	if err != nil {
		return r, err
	}
	defer dst.Close()
	if err := reach(ctx, src.Ping); err != nil {
		return r, fmt.Errorf("source: %w", err)
	}
	if err := reach(ctx, dst.Ping); err != nil {
		return r, fmt.Errorf("target: %w", err)
	}
	srcMap, dstMap := leaders.New(src.Admin), leaders.New(dst.Admin)
	defer srcMap.Close()
	defer dstMap.Close()
	so := planOptions(p.link)
	so.Src, so.Dst, so.Matcher, so.Only, so.Exact = src.Admin, dst.Admin, matcher, p.req.Only, p.req.Exact
	log := fetcher.NewLogReader(src.Admin, srcMap, p.budget)
	so.SrcReader, so.From = &pacedReader{reader{log}, limiter(p.link.Limits.BytesPerSecond)}, startFrom{p.link.Start, log}
	so.DstReader = reader{fetcher.NewLogReader(dst.Admin, dstMap, p.budget)}
	var notes []string
	note := func(text string) {
		if text != "" {
			notes = append(notes, text)
		}
	}
	view, text := readRecords(ctx, dst)
	note(text)
	if so.Beforehand, text, err = beforehand(ctx, p.link, planSides{src, dst, look{srcMap, src.Ping}, look{dstMap, dst.Ping}, view}); err != nil {
		return r, err
	}
	note(text)
	if view != nil {
		so.Records, so.Beforehand.Record = view, view
	}
	if p.req.Measure {
		so.Pace, text = measurePace(ctx, p, dst)
		note(text)
	}
	if r, err = survey.Plan(ctx, so); err == nil {
		r.Notes = append(notes, r.Notes...)
	}
	return r, err
}

// planOptions are those that follow from the configuration alone.
func planOptions(l config.Link) survey.PlanOptions {
	return survey.PlanOptions{Link: l.Name, Group: workersGroup(l.Name), Policy: plan.Policy{Gaps: gapWays[l.GapFill], Overrun: overrunWays[l.OnRetentionOverrun], PadLimit: l.PadLimit},
		Otherwise: survey.Otherwise(l.OnUnmirrorable), Drift: l.Mode == config.ModeCheckpoint, FollowStart: !copiesRetention(l), Limits: plan.DefaultLimits(), Pace: survey.Assumed(),
		Topics: topics.PlanOptions{ReplicationFactor: l.Topics.ReplicationFactor, Overrides: l.Topics.Configs, CopyRetention: copiesRetention(l)}}
}

// copiesRetention tells whether target topics delete by themselves: where they do
// not follow the source's log start, and in checkpoint mode, where they cannot.
func copiesRetention(l config.Link) bool { return !l.FollowStart || l.Mode == config.ModeCheckpoint }

// planSides are both clusters, which they are, and the target's record, nil for none.
type planSides struct {
	src            *kafka.Source
	dst            *kafka.Target
	source, target look
	view           *control.View
}

// beforehand gathers what klink run would refuse topics by. The error is what it would
// refuse the link as a whole for; the note says what could not be looked at.
func beforehand(ctx context.Context, l config.Link, s planSides) (*admit.Beforehand, string, error) {
	var now, was topics.Clusters
	var trouble *linker.Trouble
	if now.Source, trouble = s.source.id(ctx, "source"); trouble == nil {
		now.Target, trouble = s.target.id(ctx, "target")
	}
	if trouble != nil {
		return nil, "", trouble
	}
	if s.view != nil {
		r, _ := s.view.Link(l.Name)
		was = topics.Clusters{Source: r.SourceClusterID, Target: r.TargetClusterID}
	}
	if err := topics.CheckClusters(now, was); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	reader := control.NewInflowReader(s.src.Admin)
	defer reader.Close()
	in, err := reader.Inflows(ctx)
	note := ""
	if err != nil {
		note = fmt.Sprintf("whether topics of the source are mirrors of the target cannot be seen, but by their names (Describe and Read on %s of the source): %v", control.TopicName, err)
	}
	return &admit.Beforehand{Link: l.Name, Inflows: in, TargetCluster: now.Target, Drifts: l.Mode == config.ModeCheckpoint}, note, nil
}

// readRecords reads what is on record of mirrors on the target; without the
// control topic that is nil. The note says why it could not be read.
func readRecords(ctx context.Context, dst *kafka.Target) (*control.View, string) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	view, err := control.Read(ctx, dst.Control)
	switch {
	case err == nil:
		return view, ""
	case remote.ReasonOf(err) == state.TopicMissing:
		return nil, ""
	default:
		return nil, fmt.Sprintf("what klink has on record on the target could not be read, so that mirrors that are under way may look like new ones: %v", err)
	}
}

// measurePace measures the target's rates on a scratch topic; where that fails
// they are assumed, and the note says why.
func measurePace(ctx context.Context, p linkPlan, dst *kafka.Target) (survey.Pace, string) {
	r, err := probeWith(ctx, p.link, dst, p.budget)
	switch {
	case err != nil:
		return survey.Assumed(), "the target's rates could not be measured: " + probeError(r, err).Error()
	case !r.TopicRemoved:
		return survey.Measured(r, time.Now()), leftBehind(r)
	case r.Trouble != "":
		return survey.Measured(r, time.Now()), "not all of the target's rates could be measured: " + r.Trouble
	}
	return survey.Measured(r, time.Now()), ""
}

// pacedReader keeps within limits.bytes_per_second.
type pacedReader struct {
	reader
	limit *rate.Limiter
}

// Read waits after each read for as long as its bytes are worth.
func (r *pacedReader) Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	c, err := r.reader.Read(ctx, p, id, from, maxBytes)
	if err != nil || r.limit == nil {
		return c, err
	}
	for left := c.Bytes; left > 0; {
		n := min(left, r.limit.Burst())
		if err := r.limit.WaitN(ctx, n); err != nil {
			c.Release()
			return nil, err
		}
		left -= n
	}
	return c, nil
}
