package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher"
	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/groups"
	"klink/translate/mm2"
	"klink/translate/takeover"
)

func newTakeoverSide(cl *kgo.Client, budget *fetcher.Budget) takeoverSide {
	m := leaders.New(cl)
	return takeoverSide{leaders: m, log: fetcher.NewLogReader(cl, m, budget)}
}

// each reads all partitions of a topic; ok is false where it is not there.
func (s takeoverSide) each(ctx context.Context, topic string, take func(batch.Record)) (ok bool, err error) {
	if err := s.leaders.Refresh(ctx, topic); err != nil {
		return false, err
	}
	there, known := s.leaders.Topic(topic)
	switch {
	case !known || errors.Is(there.Err, kerr.UnknownTopicOrPartition):
		return false, nil
	case there.Err != nil:
		return false, fmt.Errorf("topic %s: %w", topic, there.Err)
	}
	for n := range there.Leaders {
		p := feed.Partition{Topic: topic, Partition: int32(n)}
		b, err := s.log.Bounds(ctx, p, there.ID)
		if err != nil {
			return false, err
		}
		read := pieces{log: s.log, at: p, id: there.ID, next: b.LogStart, end: b.HighWatermark}
		if err := read.all(ctx, take); err != nil {
			return false, err
		}
	}
	return true, nil
}

// takeoverFacts are what a MirrorMaker 2 has on record, and where groups stand.
type takeoverFacts struct {
	connect map[feed.Partition]int64
	syncs   map[feed.Partition][]takeover.Sync
	oldest  map[feed.Partition]int64
	cleaned map[string]bool
}

// of are those of one partition, but for the logs' bounds.
func (f takeoverFacts) of(topic string, n int32, depth int64) takeover.Facts {
	p := feed.Partition{Topic: topic, Partition: n}
	out := takeover.Facts{Connect: takeover.Unknown, Syncs: f.syncs[p], Cleaned: f.cleaned[topic], Oldest: takeover.Unknown, Depth: depth}
	if at, ok := f.connect[p]; ok {
		out.Connect = at
	}
	if at, ok := f.oldest[p]; ok {
		out.Oldest = at
	}
	return out
}

// facts reads them. What is missing is noted, unless nothing can be told without it.
func (t *taker) facts(ctx context.Context, req TakeoverRequest, r *TakeoverResult) (f takeoverFacts, err error) {
	if f.connect, err = t.connectOffsets(ctx, req.Connector, r); err != nil {
		return f, err
	}
	f.syncs = map[feed.Partition][]takeover.Sync{}
	if err := t.offsetSyncs(ctx, f.syncs, r); err != nil {
		return f, err
	}
	if f.oldest, err = t.oldestCommits(ctx); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("where groups stand on the source is not known, so their offsets are translated from near the end only: %v", err))
	}
	f.cleaned, err = t.cleanedTopics(ctx, r.Topics)
	return f, err
}

// connectOffsets reads the positions of the connector that copies from the source.
func (t *taker) connectOffsets(ctx context.Context, connector string, r *TakeoverResult) (map[feed.Partition]int64, error) {
	all := map[string]map[feed.Partition]int64{}
	var clusters []string
	ok, err := t.dst.each(ctx, r.OffsetsTopic, func(rec batch.Record) {
		o, err := mm2.DecodeConnectOffset(rec.Key, rec.Value)
		if err != nil {
			return // another connector's, as a rule
		}
		if o.Cluster != t.names.Source {
			clusters = append(clusters, o.Cluster)
			return
		}
		of := all[o.Connector]
		if of == nil {
			of = map[feed.Partition]int64{}
			all[o.Connector] = of
		}
		if p := (feed.Partition{Topic: o.Topic, Partition: o.Partition}); o.Deleted {
			delete(of, p)
		} else {
			of[p] = o.Last
		}
	})
	if err != nil {
		return nil, fmt.Errorf("target: read %s: %w", r.OffsetsTopic, err)
	}
	if !ok {
		return nil, &UsageError{Command: "adopt", What: fmt.Sprintf("the target has no topic %s: name the one of the Connect cluster with --%s, or set checkpoint.source_alias to the source's alias", r.OffsetsTopic, flagOffsetsTopic)}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		if connector == "" || connector == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 1:
		r.Connector = &names[0]
		return all[names[0]], nil
	case len(names) > 1:
		return nil, &UsageError{Command: "adopt", What: fmt.Sprintf("%s holds offsets of several connectors for source %s: choose with --%s one of %s", r.OffsetsTopic, t.names.Source, flagConnector, strings.Join(names, ", "))}
	case len(clusters) > 0 && connector == "":
		slices.Sort(clusters)
		return nil, &UsageError{Command: "adopt", What: fmt.Sprintf("%s holds offsets of the sources %s, and none of %s: set checkpoint.source_alias", r.OffsetsTopic, strings.Join(slices.Compact(clusters), ", "), t.names.Source)}
	case connector != "":
		return nil, &UsageError{Command: "adopt", What: fmt.Sprintf("%s holds no offsets of connector %s for source %s", r.OffsetsTopic, connector, t.names.Source)}
	}
	r.Notes = append(r.Notes, r.OffsetsTopic+" holds no offsets: MirrorMaker 2 has not committed any")
	return nil, nil
}

// offsetSyncs reads them where they are: on the target, or on the source.
func (t *taker) offsetSyncs(ctx context.Context, into map[feed.Partition][]takeover.Sync, r *TakeoverResult) error {
	take := func(rec batch.Record) {
		if s, err := mm2.DecodeSync(rec.Key, rec.Value); err == nil {
			p := feed.Partition{Topic: s.Topic, Partition: s.Partition}
			into[p] = append(into[p], takeover.Sync{Up: s.Up, Down: s.Down})
		}
	}
	for _, at := range []struct {
		side  takeoverSide
		topic string
	}{{t.dst, t.names.OffsetSyncsOnTarget()}, {t.src, t.names.OffsetSyncsOnSource()}} {
		ok, err := at.side.each(ctx, at.topic, take)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			r.Notes = append(r.Notes, fmt.Sprintf("offset syncs could not be read from %s: %v", at.topic, err))
			return nil
		case ok && len(into) > 0:
			r.SyncsTopic = &at.topic
			return nil
		}
	}
	r.Notes = append(r.Notes, fmt.Sprintf("there are no offset syncs, neither in %s on the target nor in %s on the source", t.names.OffsetSyncsOnTarget(), t.names.OffsetSyncsOnSource()))
	return nil
}

// oldestCommits are the lowest offsets that the link's groups have committed.
func (t *taker) oldestCommits(ctx context.Context) (map[feed.Partition]int64, error) {
	if t.srcCluster.Groups == nil {
		return nil, nil
	}
	filter, err := groups.NewFilter(t.link.Groups.Include, t.link.Groups.Exclude)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(t.srcCluster.Groups)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	selected := slices.DeleteFunc(listed.Groups(), func(g string) bool { return !filter.Selects(g) })
	out := map[feed.Partition]int64{}
	for _, g := range admin.FetchManyOffsets(ctx, selected...) {
		if g.Err != nil {
			return out, g.Err
		}
		g.Fetched.Each(func(o kadm.OffsetResponse) {
			p := feed.Partition{Topic: o.Topic, Partition: o.Partition}
			if low, ok := out[p]; o.At >= 0 && (!ok || o.At < low) {
				out[p] = o.At
			}
		})
	}
	return out, nil
}

// cleanedTopics are the source topics whose copies on the target a cleaner may work on.
func (t *taker) cleanedTopics(ctx context.Context, all []TakeoverTopic) (map[string]bool, error) {
	by := map[string]string{}
	var names []string
	for _, x := range all {
		if x.OK && !x.Adopted {
			by[x.TargetTopic] = x.SourceTopic
			names = append(names, x.TargetTopic)
		}
	}
	out := map[string]bool{}
	if len(names) == 0 {
		return out, nil
	}
	configs, err := kadm.NewClient(t.dstCluster.Admin).DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("target: describe topics: %w", err)
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			if kv.Key == "cleanup.policy" && kv.Value != nil && strings.Contains(*kv.Value, "compact") {
				out[by[c.Name]] = true
			}
		}
	}
	return out, nil
}

// heartbeatsTopic is where MirrorMaker 2 writes on the target each second.
const heartbeatsTopic = mm2.HeartbeatsTopic

// watch notes where all ends that MirrorMaker 2 moves. What it returns waits, and
// fails where one of them moved.
func (t *taker) watch(ctx context.Context, r *TakeoverResult) (still func(ctx context.Context, wait time.Duration) error, err error) {
	names := []string{r.OffsetsTopic, t.names.OffsetSyncsOnTarget()}
	for _, x := range r.Topics {
		names = append(names, x.TargetTopic)
	}
	before, err := t.ends(ctx, names)
	if err != nil {
		return nil, err
	}
	beats, err := t.ends(ctx, []string{heartbeatsTopic})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, wait time.Duration) error {
		timer := time.NewTimer(max(0, wait))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := t.ends(ctx, names)
		if err != nil {
			return err
		}
		for p, end := range after {
			if end != before[p] {
				return stillWritten(fmt.Sprintf("%s/%d on the target grew from %d to %d", p.Topic, p.Partition, before[p], end))
			}
		}
		return t.noHeartbeat(ctx, beats)
	}, t.nobodyRuns(ctx)
}

func stillWritten(what string) error {
	return &InUseError{What: "MirrorMaker 2, or somebody else, writes still: " + what, Hint: "stop it, and give the command again"}
}

// ends are the log ends of the target topics that are there.
func (t *taker) ends(ctx context.Context, names []string) (map[feed.Partition]int64, error) {
	listed, err := kadm.NewClient(t.dstCluster.Admin).ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("target: list end offsets: %w", err)
	}
	out := map[feed.Partition]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			out[feed.Partition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
		}
	})
	return out, nil
}

// noHeartbeat fails where a heartbeat of the source's flow came behind some ends.
// Others' flows may write there.
func (t *taker) noHeartbeat(ctx context.Context, since map[feed.Partition]int64) error {
	now, err := t.ends(ctx, []string{heartbeatsTopic})
	if err != nil {
		return err
	}
	came := false
	for p, end := range now {
		read := pieces{log: t.dst.log, at: p, next: since[p], end: end}
		err = errors.Join(err, read.all(ctx, func(rec batch.Record) {
			h, err := mm2.DecodeHeartbeat(rec.Key, rec.Value)
			came = came || err == nil && h.Source == t.names.Source && h.Target == t.names.Target
		}))
	}
	if came {
		return stillWritten("a heartbeat from " + t.names.Source + " to " + t.names.Target + " came")
	}
	return err
}
