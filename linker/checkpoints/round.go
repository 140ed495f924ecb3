package checkpoints

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/state"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// round looks at all groups and partitions, and writes what is new of them.
func (t *Task) round(ctx context.Context, until time.Time) result {
	working, cancel := within(ctx, until, roundTimeout)
	defer cancel()
	now := t.o.Now()
	topics := t.topics()
	commits, known := t.commits(topics)
	tips := t.tips(topics)
	// After what is known of copies: an end that is older would cut it off (P2).
	bounds := t.bounds(working, targetsOf(commits, tips), below(commits))
	err := t.writeCheckpoints(working, now, commits, bounds)
	t.outcome(ctx, t.checkpoints.topic, err)
	if err == nil && known {
		t.shown.looked(now, len(t.book.last))
	}
	syncsErr := t.writeSyncs(working, now, tips, bounds)
	t.outcome(ctx, t.offsets.topic, syncsErr)
	t.shown.others(t.checkpoints.topic, t.checkpoints.strangers)
	t.shown.others(t.offsets.topic, t.offsets.strangers)
	return result{known: known, unbounded: unbounded(commits, bounds), errs: []error{err, syncsErr}}
}

// unbounded are the source topics of commits whose copies' ends are not known.
func unbounded(commits []Located, bounds map[feed.Partition]Bounds) map[string]bool {
	out := make(map[string]bool)
	for _, c := range commits {
		if _, ok := bounds[c.place()]; !ok {
			out[c.Source.Topic] = true
		}
	}
	return out
}

// topics are the link's in checkpoint mode, by their names on the source. Offsets of
// others need no translation.
func (t *Task) topics() map[string]state.Topic {
	all := make(map[string]state.Topic)
	for _, topic := range t.o.Topics() {
		if topic.Mode == checkpointMode {
			all[topic.SourceTopic] = topic
		}
	}
	return all
}

// checkpointMode is the mode's name in reports.
const checkpointMode = "checkpoint"

// commits are those that groups have, with where they lie.
func (t *Task) commits(topics map[string]state.Topic) (all []Located, known bool) {
	if t.o.Commits == nil {
		return nil, false
	}
	commits, known := t.o.Commits()
	for _, c := range commits {
		if _, ok := topics[c.Source.Topic]; ok {
			all = append(all, Located{c, t.o.Copies.Translate(c.Source.Topic, c.Source.Partition, c.Offset)})
		}
	}
	return all, known
}

// below tells whether any group is below all that is known to be copied: then the
// target's log starts matter.
func below(commits []Located) bool {
	return slices.ContainsFunc(commits, func(c Located) bool { return c.Lies.Kind == exact.BelowMap })
}

// tip is a partition and the last of its copies.
type tip struct {
	src feed.Partition
	dst feed.Partition
	run exact.Run
}

// tips are those of partitions of which anything was copied.
func (t *Task) tips(topics map[string]state.Topic) (all []tip) {
	for source, topic := range topics {
		for _, p := range topic.Partitions {
			if r, ok := t.o.Copies.LastRun(source, p.Partition); ok {
				all = append(all, tip{feed.Partition{Topic: source, Partition: p.Partition},
					feed.Partition{Topic: topic.TargetTopic, Partition: p.Partition}, r})
			}
		}
	}
	return all
}

// targetsOf are the target topics whose ends matter.
func targetsOf(commits []Located, tips []tip) (topics []string) {
	for _, c := range commits {
		topics = append(topics, c.Target)
	}
	for _, p := range tips {
		topics = append(topics, p.dst.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// writeCheckpoints writes those of commits that say more than what is there.
func (t *Task) writeCheckpoints(ctx context.Context, now time.Time, commits []Located, bounds map[feed.Partition]Bounds) error {
	if err := t.checkpoints.catchUp(ctx); err != nil {
		return err
	}
	r := t.book.Decide(commits, bounds)
	t.shown.tally(r.Tally)
	records := make([]*kgo.Record, 0, len(r.Write))
	for _, c := range r.Write {
		key, value, err := c.Encode()
		if err != nil {
			return err
		}
		records = append(records, record(key, value, now))
	}
	written, err := t.checkpoints.write(ctx, records)
	for _, r := range written {
		t.takeCheckpoint(r)
	}
	if n := int64(len(written)); n > 0 {
		t.shown.wrote(now, n)
		t.count.checkpoints.Add(ctx, n, t.count.whole)
	}
	return err
}

// writeSyncs writes those of partitions whose copies went on.
func (t *Task) writeSyncs(ctx context.Context, now time.Time, tips []tip, bounds map[feed.Partition]Bounds) error {
	if err := t.offsets.catchUp(ctx); err != nil {
		return err
	}
	var records []*kgo.Record
	for _, p := range tips {
		b, ok := bounds[p.dst]
		if !ok {
			continue
		}
		at := func(src int64) exact.Answer { return t.o.Copies.Translate(p.src.Topic, p.src.Partition, src) }
		for _, y := range t.syncs.Next(p.src, Tip{Run: p.run, HighWatermark: b.HighWatermark, At: at}) {
			key, value, err := y.Encode()
			if err != nil {
				return err
			}
			records = append(records, record(key, value, now))
		}
	}
	written, err := t.offsets.write(ctx, records)
	for _, r := range written {
		t.takeSync(r)
	}
	if n := int64(len(written)); n > 0 {
		t.count.syncs.Add(ctx, n, t.count.whole)
	}
	return err
}

// takeCheckpoint takes in what is in the topic. What no reader can read counts for
// nothing.
func (t *Task) takeCheckpoint(r *kgo.Record) {
	if c, err := mm2.DecodeCheckpoint(r.Key, r.Value); err == nil {
		t.book.Load(c)
	}
}

func (t *Task) takeSync(r *kgo.Record) {
	if y, err := mm2.DecodeSync(r.Key, r.Value); err == nil {
		t.syncs.Load(y)
	}
}
