package app

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/config"
	"klink/fetcher/feed"
	"klink/linker"
	"klink/linker/checkpoints"
	"klink/linker/control"
	"klink/linker/state"
	"klink/translate/exact"
)

// checkpointWriter writes MirrorMaker 2's topics of a link. It implements
// linker.Checkpoints.
type checkpointWriter struct {
	*checkpoints.Task
	link string
	// endCopies ends what was begun to tell where copies lie.
	endCopies func()

	mu    sync.Mutex // guards store
	store *control.Store
}

// newCheckpointWriter returns nil where no topic of the link can be in checkpoint
// mode. The side has its clients and its sync of groups.
func newCheckpointWriter(s *side, l config.Link, lease linker.Lease, d Deps) (*checkpointWriter, error) {
	if !l.Translates() {
		return nil, nil
	}
	w := &checkpointWriter{link: l.Name, endCopies: func() {}}
	where := writtenCopies{last: func(topic string, partition int32) (exact.Run, bool) { return s.link.LastRun(topic, partition) }}
	if s.groups != nil {
		where.mapTranslator = s.groups.translator
	} else {
		where.mapTranslator, w.endCopies = newMapTranslator(l.Name, s.dst.Admin, d.Logger.With("link", l.Name))
		where.here = func(topic string, partition int32, src int64) exact.Answer {
			return s.link.Translate(topic, partition, src)
		}
		where.topic = w.topic
	}
	o := checkpoints.Options{Link: l.Name, Policy: policy(l), Client: s.dst.Checkpoints, Copies: where, Source: topicLister{s.src.Admin},
		Topics: func() []state.Topic { return s.link.Topics() }, Lease: lease,
		Interval: l.Checkpoint.Interval, Heartbeat: l.Checkpoint.HeartbeatInterval, Logger: d.Logger, Meter: d.Meter}
	if s.groups != nil {
		o.Commits = s.groups.commits
	}
	var err error
	if w.Task, err = checkpoints.New(o); err != nil {
		w.endCopies()
		return nil, err
	}
	return w, nil
}

// port is what the link is given: nil where there is none.
func (w *checkpointWriter) port() linker.Checkpoints {
	if w == nil {
		return nil
	}
	return w
}

// last writes what groups committed last on topics that are to be stopped.
func (w *checkpointWriter) last(ctx context.Context, topics []string) error {
	if w == nil {
		return nil
	}
	return w.Last(ctx, topics)
}

// use gives it the control topic.
func (w *checkpointWriter) use(s *control.Store) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store = s
}

// topic is what is on record of a source topic.
func (w *checkpointWriter) topic(source string) (control.TopicRecord, bool) {
	w.mu.Lock()
	store := w.store
	w.mu.Unlock()
	if store == nil {
		return control.TopicRecord{}, false
	}
	return store.Topic(w.link, source)
}

func (w *checkpointWriter) close() {
	if w != nil {
		w.endCopies()
	}
}

// commits are those that group sync knows of.
func (g *groupSync) commits() ([]checkpoints.Commit, bool) {
	known, ok := g.sync.Commits()
	all := make([]checkpoints.Commit, 0, len(known))
	for _, k := range known {
		all = append(all, checkpoints.Commit{Group: k.Group, Source: k.Partition, Target: k.Target, Offset: k.Offset, Metadata: k.Metadata})
	}
	return all, ok
}

// writtenCopies tells where copies lie, and the last of each partition. It implements
// checkpoints.Copies.
type writtenCopies struct {
	*mapTranslator
	// last is of partitions that this process copies.
	last func(topic string, partition int32) (exact.Run, bool)
}

// LastRun implements checkpoints.Copies.
func (c writtenCopies) LastRun(topic string, partition int32) (exact.Run, bool) {
	if r, ok := c.last(topic, partition); ok {
		return r, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.recorded(feed.Partition{Topic: topic, Partition: partition}); m != nil {
		return m.Last()
	}
	return exact.Run{}, false
}

// topicLister lists the topics of a cluster, each time from a broker and not from what
// the client saw before. It implements checkpoints.Source.
type topicLister struct{ client *kgo.Client }

// ListTopics implements checkpoints.Source.
func (l topicLister) ListTopics(ctx context.Context) ([]string, error) {
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, l.client)
	if err != nil {
		return nil, err
	}
	if len(resp.Brokers) == 0 {
		return nil, errors.New("the answer holds no brokers")
	}
	var all []string
	for _, t := range resp.Topics {
		if t.Topic != nil && kerr.ErrorForCode(t.ErrorCode) == nil {
			all = append(all, *t.Topic)
		}
	}
	return all, nil
}
