package leaders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MinInterval is the least time between two Metadata requests of one Map. It
// keeps a storm of NOT_LEADER answers from becoming a storm of requests and is
// still well below the time an election takes.
const MinInterval = 50 * time.Millisecond

// askTimeout bounds one Metadata request with kgo's own retries.
const askTimeout = 10 * time.Second

// causeTimeout bounds the search for the reason of a timeout.
const causeTimeout = 2 * time.Second

// patience is how long a refresh waits for the one before it. A request that
// went to a broker that answers nothing takes up to askTimeout; the next one
// is likely to reach another broker and must not wait for that.
const patience = 2 * time.Second

// ErrClosed is returned by Refresh after Close.
var ErrClosed = errors.New("leader map is closed")

// topicsPerRequest bounds the size of one Metadata request.
const topicsPerRequest = 1000

// Leader is who leads a partition, and since when.
type Leader struct {
	// Broker is the node id, -1 while there is none.
	Broker int32
	// Epoch is the leader epoch, -1 where the cluster does not tell.
	Epoch int32
}

// Topic is what the cluster last told about one topic.
type Topic struct {
	Name string
	// ID is zero on clusters without topic ids (before 2.8).
	ID [16]byte
	// Internal marks the brokers' own topics.
	Internal bool
	// Leaders is indexed by partition.
	Leaders []Leader
	// Replicas is the number of replicas of partition 0.
	Replicas int
	// Err is the answer's error for the topic, e.g. kerr.UnknownTopicOrPartition
	// or kerr.TopicAuthorizationFailed. The other fields are then the last good
	// ones.
	Err error
	// broken marks partitions without a leader of which a replica is offline at a
	// broker that runs: the log folder it lies in has failed (Metadata v5+).
	broken map[int32]bool
}

// ErrBroken is the absence of a leader whose broker runs.
var ErrBroken = fmt.Errorf("no leader: a replica's broker runs and its log folder has failed: %w", kerr.KafkaStorageError)

// Map is safe for concurrent use.
type Map struct {
	cl     *kgo.Client
	ctx    context.Context // ends with Close; flights outlive their callers
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex // guards all below; never held over a request
	closed    bool
	clusterID string
	brokers   []int32
	topics    map[string]*Topic
	names     map[[16]byte]string
	next      *flight // collects topics, not yet sent
	last      *flight // the one sent before next, or nil
	lastEnd   time.Time
}

// A flight is one refresh, shared by all who asked before it was sent.
type flight struct {
	topics map[string]struct{}
	after  *flight // sent before this one; nil for the first
	done   chan struct{}
	err    error // set before done is closed
}

// New returns an empty map that asks through cl, which stays the caller's.
func New(cl *kgo.Client) *Map {
	ctx, cancel := context.WithCancel(context.Background())
	return &Map{cl: cl, ctx: ctx, cancel: cancel,
		topics: make(map[string]*Topic), names: make(map[[16]byte]string)}
}

// Close ends requests under way and waits for them.
func (m *Map) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.wg.Wait()
}

// Leader returns the partition's leader as last learned; ok is false where it
// is unknown or there is none.
func (m *Map) Leader(topic string, partition int32) (l Leader, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil || partition < 0 || int(partition) >= len(t.Leaders) {
		return Leader{-1, -1}, false
	}
	l = t.Leaders[partition]
	return l, l.Broker >= 0
}

// Sight is what is known of one partition, without copying the whole topic.
type Sight struct {
	Leader
	// ID is the topic's id, zero where unknown.
	ID [16]byte
	// Exists is false where the last answer had no such topic or partition.
	Exists bool
	// Err is the topic's error, as in Topic.
	Err    error
	broken bool
}

// Absence says why there is no leader: ErrBroken, or kerr.LeaderNotAvailable
// where the cluster does not tell more. It is nil where there is one.
func (s Sight) Absence() error {
	switch {
	case s.Broker >= 0:
		return nil
	case s.broken:
		return ErrBroken
	default:
		return kerr.LeaderNotAvailable
	}
}

// Look returns what is known of a partition; ok is false where the cluster
// never told anything about the topic.
func (m *Map) Look(topic string, partition int32) (s Sight, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil {
		return Sight{Leader: Leader{-1, -1}}, false
	}
	s = Sight{Leader: Leader{-1, -1}, ID: t.ID, Err: t.Err}
	if partition >= 0 && int(partition) < len(t.Leaders) {
		s.Leader, s.broken = t.Leaders[partition], t.broken[partition]
		s.Exists = !errors.Is(t.Err, kerr.UnknownTopicOrPartition)
	}
	return s, true
}

// Topic returns a copy of what is known of a topic.
func (m *Map) Topic(topic string) (Topic, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil {
		return Topic{}, false
	}
	c := *t
	c.Leaders, c.broken = append([]Leader(nil), t.Leaders...), nil
	return c, true
}

// Name returns the topic that carries an id.
func (m *Map) Name(id [16]byte) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.names[id]
	return n, ok
}

// ClusterID returns the cluster's id as last learned, or "".
func (m *Map) ClusterID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusterID
}

// Brokers returns the registered node ids, sorted.
func (m *Map) Brokers() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int32(nil), m.brokers...)
}

// Hint takes over a leader that a broker named in an error answer (see L1).
func (m *Map) Hint(topic string, partition int32, l Leader) {
	if l.Broker < 0 || l.Epoch < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil || partition < 0 || int(partition) >= len(t.Leaders) {
		return
	}
	if l.Epoch > t.Leaders[partition].Epoch {
		t.Leaders[partition] = l
	}
}

// Refresh asks the cluster for the named topics and returns when the answer is
// in the map. An error means the cluster gave no answer; errors of single
// topics are in Topic.Err.
func (m *Map) Refresh(ctx context.Context, topics ...string) error {
	if err := ctx.Err(); err != nil {
		return err // else an answer that comes at once would be one of two ways to end
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	f := m.next
	if f == nil {
		f = &flight{topics: make(map[string]struct{}), after: m.last, done: make(chan struct{})}
		m.next, m.last = f, f
		m.wg.Add(1)
		go m.fly(f)
	}
	for _, t := range topics {
		f.topics[t] = struct{}{}
	}
	m.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Map) fly(f *flight) {
	defer m.wg.Done()
	defer close(f.done)
	m.awaitTurn(f)
	m.mu.Lock()
	m.next = nil
	names := make([]string, 0, len(f.topics))
	for t := range f.topics {
		names = append(names, t)
	}
	m.mu.Unlock()
	sort.Strings(names)

	for first := true; first || len(names) > 0; first = false {
		n := min(len(names), topicsPerRequest)
		if f.err = m.ask(names[:n]); f.err != nil {
			break
		}
		names = names[n:]
	}
	m.mu.Lock()
	m.lastEnd = time.Now()
	m.mu.Unlock()
}

// awaitTurn returns when the refresh before f ended and MinInterval has passed
// since, or patience ran out (L2).
func (m *Map) awaitTurn(f *flight) {
	if f.after != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-f.after.done:
		case <-timer.C:
		case <-m.ctx.Done():
		}
		f.after = nil
	}
	m.mu.Lock()
	wait := time.Until(m.lastEnd.Add(MinInterval))
	m.mu.Unlock()
	timer := time.NewTimer(max(0, wait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.ctx.Done():
	}
}

func (m *Map) ask(names []string) error {
	ctx, cancel := context.WithTimeout(m.ctx, askTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{} // none, not all
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, m.cl)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = m.cause(err)
		}
		return fmt.Errorf("ask for metadata: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if resp.ClusterID != nil {
		m.clusterID = *resp.ClusterID
	}
	m.brokers = m.brokers[:0]
	for _, b := range resp.Brokers {
		m.brokers = append(m.brokers, b.NodeID)
	}
	sort.Slice(m.brokers, func(i, j int) bool { return m.brokers[i] < m.brokers[j] })
	for i := range resp.Topics {
		m.applyLocked(&resp.Topics[i])
	}
	return nil
}

// cause finds out why brokers give no answer: kgo tries them in turn until ctx
// ends and then returns the error of ctx, which helps nobody.
func (m *Map) cause(unknown error) error {
	ctx, cancel := context.WithTimeout(m.ctx, causeTimeout)
	defer cancel()
	for _, b := range append(m.cl.SeedBrokers(), m.cl.DiscoveredBrokers()...) {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		_, err := b.Request(ctx, req)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return unknown
}

// runsLocked reports whether a broker was among those of the last answer.
func (m *Map) runsLocked(broker int32) bool { return slices.Contains(m.brokers, broker) }

func (m *Map) applyLocked(a *kmsg.MetadataResponseTopic) {
	if a.Topic == nil {
		return
	}
	name := *a.Topic
	old := m.topics[name]
	if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
		if old == nil {
			old = &Topic{Name: name}
			m.topics[name] = old
		}
		old.Err = err
		if errors.Is(err, kerr.UnknownTopicOrPartition) && m.names[old.ID] == name {
			delete(m.names, old.ID)
		}
		return
	}
	t := &Topic{Name: name, ID: a.TopicID, Internal: a.IsInternal,
		Leaders: make([]Leader, len(a.Partitions))}
	for i := range t.Leaders {
		t.Leaders[i] = Leader{-1, -1}
	}
	same := old != nil && old.ID == t.ID
	for _, p := range a.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(t.Leaders) {
			continue
		}
		l := Leader{Broker: p.Leader, Epoch: p.LeaderEpoch}
		if errors.Is(kerr.ErrorForCode(p.ErrorCode), kerr.LeaderNotAvailable) {
			l.Broker = -1
		}
		if same && int(p.Partition) < len(old.Leaders) && old.Leaders[p.Partition].Epoch > l.Epoch {
			l = old.Leaders[p.Partition]
		}
		t.Leaders[p.Partition] = l
		if l.Broker < 0 && slices.ContainsFunc(p.OfflineReplicas, m.runsLocked) {
			if t.broken == nil {
				t.broken = make(map[int32]bool)
			}
			t.broken[p.Partition] = true
		}
		if p.Partition == 0 {
			t.Replicas = len(p.Replicas)
		}
	}
	if old != nil && old.ID != t.ID {
		delete(m.names, old.ID)
	}
	m.topics[name] = t
	if t.ID != [16]byte{} {
		m.names[t.ID] = name
	}
}
