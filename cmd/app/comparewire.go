package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/comparator"
	"klink/linker/groups"
	"klink/linker/topics"
)

// compareLinks compares the clusters of all links of a configuration, one after
// the other.
func compareLinks(ctx context.Context, cfg *config.Config, req CompareRequest) (comparator.Result, error) {
	var all []comparator.Result
	for _, l := range cfg.Links {
		r, err := compareLink(ctx, l, cfg.Limits.FetchMemory, req)
		if err != nil {
			return comparator.Result{}, fmt.Errorf("link %s: %w", l.Name, err)
		}
		all = append(all, r)
	}
	return comparator.Join(all...), nil
}

func compareLink(ctx context.Context, l config.Link, memory config.Bytes, req CompareRequest) (r comparator.Result, err error) {
	matcher, err := newMatcher(l)
	if err != nil {
		return r, &UsageError{Command: "compare", What: fmt.Sprintf("topics.%v", err)}
	}
	o := kafka.Options{Link: l, FetchMemory: memory, Version: Version()}
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
	co := comparator.Options{Link: l.Name, Source: src.Admin, Target: dst.Admin, FollowStart: l.FollowStart, BeginsLater: l.Start != config.StartEarliest,
		Keys: req.Keys, NoDigest: req.NoDigest, ACLs: req.ACLs, Expected: expectedSettings(l), MemoryBytes: int64(memory), Progress: req.Progress,
		Limit: limiter(l.Limits.BytesPerSecond)}
	co.Mode = comparedModes[l.Mode]
	lie, err := newComparedCopies(ctx, l, dst, memory)
	if err != nil {
		return r, fmt.Errorf("target: %w", err)
	}
	defer lie.close()
	co.Copies = lie.of
	if req.Keep != nil {
		co.Resume, co.Keep = req.Saved(l.Name), func(s comparator.Saved) { req.Keep(l.Name, s) }
	}
	if req.Last > 0 {
		co.Since = time.Now().Add(-req.Last)
	}
	if len(l.Groups.Include) > 0 {
		filter, err := groups.NewFilter(l.Groups.Include, l.Groups.Exclude)
		if err != nil {
			return r, &UsageError{Command: "compare", What: fmt.Sprintf("groups.%v", err)}
		}
		co.Groups = filter.Selects
	}
	found, err := topics.Discover(ctx, src.Admin, matcher)
	if err != nil {
		return r, fmt.Errorf("source: %w", err)
	}
	if len(found.Topics)+len(found.Missing) == 0 {
		// Nothing compared must not read like nothing found.
		return r, errors.New("topics.include selects no topic on the source")
	}
	co.Topics = comparedTopics(found, matcher, req.Only)
	return comparator.Compare(ctx, co)
}

// comparedTopics are the topics that a link mirrors, or should.
func comparedTopics(found topics.Discovered, m *topics.Matcher, only func(source, target string) bool) (out []comparator.Topic) {
	add := func(source, target string) {
		if only == nil || only(source, target) {
			out = append(out, comparator.Topic{Source: source, Target: target})
		}
	}
	for _, t := range found.Topics {
		add(t.Name, t.Target)
	}
	for _, t := range found.Missing {
		add(t.Name, m.Target(t.Name))
	}
	return out
}

// expectedSettings are those that the link gives to the mirror of a topic.
func expectedSettings(l config.Link) func(comparator.Settings, int) map[string]string {
	return func(src comparator.Settings, replicas int) map[string]string {
		var known topics.Settings
		if src != nil {
			known = make(topics.Settings, len(src))
			for key, s := range src {
				known[key] = topics.Setting{Value: s.Value, Explicit: s.Explicit}
			}
		}
		p := topics.PlanConfigs(topics.ConfigInput{Source: known, Overrides: l.Topics.Configs, Replicas: replicas, CopyRetention: copiesRetention(l)})
		out := make(map[string]string, len(p.Set))
		for _, s := range p.Set {
			out[s.Key] = s.Value
		}
		return out
	}
}
