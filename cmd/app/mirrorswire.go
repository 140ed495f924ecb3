package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher"
	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/maps"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/linker/topics"
)

const (
	// deleteTimeout is how long the controller may take to delete a topic.
	deleteTimeout = 15 * time.Second
	// tailBytes is enough for the last batch, which comes whole in any case.
	tailBytes = 1 << 20
	// mostGenerations is how many generations of a mirror are tried to tell whose a
	// batch is: each counts one time that it was begun anew.
	mostGenerations = 64
)

// errNoRecord is about a topic that the link has no mirror of on record.
var errNoRecord = errors.New("no mirror of it is on record")

// Tails implements Mirrors.
func (c *console) Tails(ctx context.Context, sourceTopic string) ([]Tail, error) {
	rec, ok := c.view.Topic(c.name, sourceTopic)
	if !ok || rec.TargetID.IsZero() {
		return nil, errNoRecord
	}
	link, _ := c.view.Link(c.name)
	m := leaders.New(c.dst.Admin)
	defer m.Close()
	log := fetcher.NewLogReader(c.dst.Admin, m, fetcher.NewBudget(tailBytes))
	var out []Tail
	for n := range rec.Partitions {
		t, err := readTail(ctx, log, feed.Partition{Topic: rec.TargetTopic, Partition: n}, rec.TargetID)
		if err != nil {
			return nil, err
		}
		for g := range int32(mostGenerations) {
			t.Own = t.Own || t.Producer == appender.ProducerID(link.SourceClusterID, rec.SourceID, n, g)
		}
		out = append(out, t)
	}
	return out, nil
}

// readTail reads the last batch of a log.
func readTail(ctx context.Context, log *fetcher.LogReader, p feed.Partition, id feed.TopicID) (Tail, error) {
	t := Tail{Partition: p.Partition, Producer: feed.Unknown, Epoch: -1}
	b, err := log.Bounds(ctx, p, id)
	if err != nil {
		return t, err
	}
	if t.Start, t.End = b.LogStart, b.LogEnd; t.End <= t.Start {
		return t, nil
	}
	if b.HighWatermark < b.LogEnd {
		return t, fmt.Errorf("%s/%d: offsets %d to %d are not on all replicas yet", p.Topic, p.Partition, b.HighWatermark, b.LogEnd-1)
	}
	chunk, err := log.Read(ctx, fetcher.ReadRequest{Partition: p, ID: id, From: b.LogEnd - 1, MaxBytes: tailBytes})
	if err != nil {
		return t, err
	}
	defer chunk.Release()
	for _, raw := range chunk.Batches {
		h, err := batch.ParseHeader(raw)
		if err == nil && h.LastOffset() == b.LogEnd-1 {
			t.Producer, t.Epoch = h.ProducerID, h.ProducerEpoch
		}
	}
	return t, nil
}

// Adopt implements Mirrors.
func (c *console) Adopt(ctx context.Context, sourceTopic string, ends map[int32]int64) error {
	rec, ok := c.view.Topic(c.name, sourceTopic)
	if !ok {
		return errNoRecord
	}
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	return c.store.PutAdopt(ctx, control.AdoptRecord{Link: c.name, Topic: sourceTopic, SourceID: rec.SourceID, Ends: ends, By: operator(), At: time.Now().UTC()})
}

// Deletable implements Mirrors.
func (c *console) Deletable(ctx context.Context, sourceTopic string) error {
	_, err := c.target(ctx, sourceTopic)
	return err
}

// Delete implements Mirrors. The id is looked at first, and decides where brokers
// delete by it (DeleteTopics v6, KIP-516).
func (c *console) Delete(ctx context.Context, sourceTopic string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*deleteTimeout)
	defer cancel()
	there, err := c.target(ctx, sourceTopic)
	if err != nil || !there {
		return err
	}
	rec, _ := c.view.Topic(c.name, sourceTopic)
	return deleteTopic(ctx, c.dst.Admin, rec)
}

// target tells whether a mirror's target topic is there; another one in its place
// is an error.
func (c *console) target(ctx context.Context, sourceTopic string) (there bool, err error) {
	rec, ok := c.view.Topic(c.name, sourceTopic)
	if !ok || rec.TargetID.IsZero() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	m := leaders.New(c.dst.Admin)
	defer m.Close()
	if err := m.Refresh(ctx, rec.TargetTopic); err != nil {
		return false, fmt.Errorf("look at topic %s: %w", rec.TargetTopic, err)
	}
	switch sight, _ := m.Look(rec.TargetTopic, 0); {
	case !sight.Exists:
		return false, nil
	case feed.TopicID(sight.ID) != rec.TargetID:
		return false, fmt.Errorf("topic %s has id %s now and not %s as on record: it is another one, and is left alone", rec.TargetTopic, feed.TopicID(sight.ID), rec.TargetID)
	}
	return true, nil
}

func deleteTopic(ctx context.Context, cl *kgo.Client, rec control.TopicRecord) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = int32(deleteTimeout.Milliseconds()), []string{rec.TargetTopic}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.TopicID = rec.TargetID
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Topics) != 1 {
		err = errors.New("the answer does not hold the topic")
	}
	if err == nil {
		err = remote.WithMessage(kerr.ErrorForCode(resp.Topics[0].ErrorCode), resp.Topics[0].ErrorMessage)
	}
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	return remote.Classify("delete topic "+rec.TargetTopic, remote.Right("Delete", "topic", rec.TargetTopic), err)
}

// Forget implements Mirrors.
func (c *console) Forget(ctx context.Context, sourceTopic string) (notes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	if rec, ok := c.view.Topic(c.name, sourceTopic); ok && !rec.TargetID.IsZero() {
		if notes, err = c.restore(ctx, rec); err != nil {
			return notes, fmt.Errorf("the source's settings are not in force: %w", err)
		}
	}
	if err := c.forgetMaps(ctx, sourceTopic); err != nil {
		return notes, err
	}
	return notes, c.store.DropTopic(ctx, c.name, sourceTopic)
}

// forgetMaps takes off the record where the topic's copies lie. Where nothing is, as
// in mirror mode, the topic of maps is neither made nor written to.
func (c *console) forgetMaps(ctx context.Context, sourceTopic string) error {
	v, err := maps.Read(ctx, c.dst.Admin)
	switch {
	case remote.ReasonOf(err) == state.TopicMissing:
		return nil
	case err != nil:
		return err
	case !slices.ContainsFunc(v.Places(c.name), func(p maps.Place) bool { return p.Topic == sourceTopic }):
		return nil
	}
	s, err := maps.Open(ctx, maps.Options{Client: c.dst.Control, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Drop(ctx, c.name, sourceTopic)
}

// restore brings the source's settings into force. A topic that is gone needs none.
func (c *console) restore(ctx context.Context, rec control.TopicRecord) (notes []string, err error) {
	var source topics.Settings // nil where they are not on record
	for k, v := range rec.SourceConfigs.All() {
		if source == nil {
			source = topics.Settings{}
		}
		source[k] = topics.Setting{Value: v.Value, Explicit: v.Explicit}
	}
	target := topics.NewTarget(c.dst.Admin, control.TopicName)
	for _, r := range target.Restore(ctx, []topics.Restoration{{Target: rec.TargetTopic, Source: source}}) {
		if r.Err != nil && remote.ReasonOf(r.Err) != state.TopicMissing {
			return notes, r.Err
		}
		notes = append(notes, r.Notes...)
	}
	return notes, nil
}

// ForgetLink implements Mirrors.
func (c *console) ForgetLink(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, giveTimeout)
	defer cancel()
	return c.store.DropLink(ctx, c.name)
}
