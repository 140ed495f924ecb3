package control

import (
	"context"
	"time"

	"klink/linker/state"
)

// Every Put returns when the cluster has acknowledged the record, or with an
// error: ErrLost, ErrNewer, or a *Fault after which the record may or may not be
// on record (C2). None gives up before ctx ends while the cluster is down.

// PutLink writes a link as applied now.
func (s *Store) PutLink(ctx context.Context, r LinkRecord) error {
	k, v := encodeLink(r)
	return s.put(ctx, k, v)
}

// PutLinkState writes the state of a link as a whole.
func (s *Store) PutLinkState(ctx context.Context, r LinkStateRecord) error {
	k, v := encodeLinkState(r)
	return s.put(ctx, k, v)
}

// PutWorker makes a process the last one that started on its link.
func (s *Store) PutWorker(ctx context.Context, r WorkerRecord) error {
	k, v := encodeWorker(r)
	return s.put(ctx, k, v)
}

// DropWorker takes a process off the record as it ends, if it is still the one
// on record.
func (s *Store) DropWorker(ctx context.Context, link, worker string) error {
	if r, ok := s.Worker(link); !ok || r.Worker != worker {
		return nil
	}
	return s.put(ctx, Key{Kind: KindWorker, Link: link}, nil)
}

// Worker returns the process of a link that started last.
func (s *Store) Worker(link string) (WorkerRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Worker(link)
}

// PutTopic ties a source topic to a target topic. The first mirror to name a
// target topic owns it; all others get ErrOwned with the owner's name, and only
// what they had on record before stays. It needs Run to be running.
func (s *Store) PutTopic(ctx context.Context, r TopicRecord) error {
	s.mu.Lock()
	taken := s.view.Owned(r)
	before, had := s.view.topics[topicKey{r.Link, r.SourceTopic}]
	s.mu.Unlock()
	if taken != nil {
		return taken
	}
	var since *int64
	if had && before.TargetTopic == r.TargetTopic {
		since = &before.since
	}
	k, v := encodeTopic(r, since)
	p, err := s.send(ctx, k, v)
	if err != nil {
		return err
	}
	w, err := s.settle(ctx, p)
	if err != nil {
		return err
	}
	// Only the log tells who was first; what stands before our record is known
	// when the follower has passed it.
	if err := s.waitFor(ctx, w.offset); err != nil {
		return err
	}
	s.mu.Lock()
	taken = s.view.Owned(r)
	s.mu.Unlock()
	if taken == nil {
		return nil
	}
	var undo any
	if had {
		_, undo = encodeTopic(before.TopicRecord, &before.since)
	}
	if err := s.put(ctx, k, undo); err != nil {
		return err
	}
	return taken
}

func (r TopicRecord) sameMirror(o TopicRecord) bool {
	return r.Link == o.Link && r.SourceTopic == o.SourceTopic
}

func (r TopicRecord) owns(target string) error {
	return &OwnedError{Target: target, Link: r.Link, SourceTopic: r.SourceTopic}
}

// PutEpoch writes one step of a partition's lineage. It returns at once where
// the same step is on record already.
func (s *Store) PutEpoch(ctx context.Context, r EpochRecord) error {
	s.mu.Lock()
	first, ok := s.view.epoch(r)
	s.mu.Unlock()
	if ok && first == r.First && s.failure() == nil {
		return nil
	}
	k, v := encodeEpoch(r)
	return s.put(ctx, k, v)
}

// PutState writes the state of one topic, in several records where it has many
// partitions.
func (s *Store) PutState(ctx context.Context, r StateRecord) error {
	var b batch
	keys, values := encodeState(r)
	for i := range keys {
		b.add(keys[i], values[i])
	}
	return s.putAll(ctx, b)
}

// Link returns a link as last applied.
func (s *Store) Link(name string) (LinkRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Link(name)
}

// Topic returns what is on record of a source topic.
func (s *Store) Topic(link, sourceTopic string) (TopicRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Topic(link, sourceTopic)
}

// Topics returns all topics of a link, sorted by source name.
func (s *Store) Topics(link string) []TopicRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Topics(link)
}

// TopicOwner returns the link that owns a target topic.
func (s *Store) TopicOwner(targetTopic string) (link string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.view.TopicOwner(targetTopic)
	return r.Link, ok
}

// Epochs returns the lineage of a source partition, sorted by epoch; see
// View.Epochs.
func (s *Store) Epochs(link, sourceTopic string, partition int32) []Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Epochs(link, sourceTopic, partition)
}

// States returns the last reported states of a link's topics.
func (s *Store) States(link string) []StateRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.States(link)
}

// Recorded returns the states as they were recorded, as View.Recorded does.
func (s *Store) Recorded(link string) []StateRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Recorded(link)
}

// Report builds a status report from what is on record.
func (s *Store) Report() state.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Report()
}

// LastRecordAt is the time of the newest record.
func (s *Store) LastRecordAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.LastRecordAt()
}

// Problems tells of records that could not be read.
func (s *Store) Problems() Problems {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.Problems()
}
