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
	"klink/linker/plan"
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
	matcher, err := newMatcher(p.link.Topics)
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
	so.SrcReader = &pacedReader{reader{fetcher.NewLogReader(src.Admin, srcMap, p.budget)}, limiter(p.link.Limits.BytesPerSecond)}
	so.DstReader = reader{fetcher.NewLogReader(dst.Admin, dstMap, p.budget)}
	var notes []string
	if p.req.Measure {
		var note string
		if so.Pace, note = measurePace(ctx, p, dst); note != "" {
			notes = append(notes, note)
		}
	}
	if r, err = survey.Plan(ctx, so); err == nil {
		r.Notes = append(notes, r.Notes...)
	}
	return r, err
}

// planOptions are those that follow from the configuration alone.
func planOptions(l config.Link) survey.PlanOptions {
	gaps := map[config.GapFill]plan.GapWay{config.GapFillAuto: plan.FillMarkers, config.GapFillMarkers: plan.FillMarkers, config.GapFillRecords: plan.FillRecords}
	o := survey.PlanOptions{Link: l.Name, Policy: plan.Policy{Gaps: gaps[l.GapFill], PadLimit: l.PadLimit},
		Otherwise: survey.Otherwise(l.OnUnmirrorable), FollowStart: l.FollowStart, Limits: plan.DefaultLimits(), Pace: survey.Assumed(),
		Topics: topics.PlanOptions{ReplicationFactor: l.Topics.ReplicationFactor, Overrides: l.Topics.Configs, CopyRetention: !l.FollowStart}}
	if l.OnRetentionOverrun == config.OverrunPad {
		o.Policy.Overrun = plan.PadOverrun
	}
	switch l.Start {
	case config.StartEarliest:
	case config.StartLatest:
		o.Start.Latest = true
	default:
		// Checked when the configuration was loaded.
		o.Start.At, _ = time.Parse(time.RFC3339, string(l.Start))
	}
	return o
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
