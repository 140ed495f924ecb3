package groups

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"klink/linker/control"
	"klink/linker/groups/commits"
	"klink/linker/intent"
)

// memStore is a control topic in memory.
type memStore struct {
	mu       sync.Mutex
	topics   []control.TopicRecord
	commands []intent.Command
	groups   map[string]control.GroupRecord
	acks     []control.AckRecord
	looks    int // how often acknowledgements were asked for
	puts     int
	changed  chan struct{}
	// refuse is what CatchUp answers, refusePuts what PutGroups does.
	refuse, refusePuts error
	// caught is called by each CatchUp.
	caught func()
}

func newMemStore(topics ...control.TopicRecord) *memStore {
	return &memStore{topics: topics, groups: make(map[string]control.GroupRecord), changed: make(chan struct{})}
}

func (m *memStore) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memStore) Topics(string) []control.TopicRecord { return m.topics }

func (m *memStore) Commands(string) []intent.Command {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

func (m *memStore) Intents(link string) intent.Intents { return intent.Fold(m.Commands(link)) }

// command gives a command the next number.
func (m *memStore) command(c intent.Command) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Link, c.ID, c.Number = "l", "id", int32(len(m.commands)+1)
	m.commands = append(m.commands, c)
	m.change()
	return c.Number
}

func (m *memStore) CatchUp(context.Context) error {
	if m.caught != nil {
		m.caught()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refuse
}

func (m *memStore) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *memStore) Group(_, group string) (control.GroupRecord, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.groups[group]
	return r, ok
}

func (m *memStore) Groups(string) (out []control.GroupRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.groups {
		out = append(out, r)
	}
	return out
}

func (m *memStore) PutGroups(_ context.Context, rs []control.GroupRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusePuts != nil {
		return m.refusePuts
	}
	for _, r := range rs {
		m.groups[r.Group] = r
		m.puts++
	}
	m.change()
	return nil
}

func (m *memStore) DropGroup(_ context.Context, _, group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, group)
	return nil
}

func (m *memStore) Acks(string, string) []control.AckRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return slices.Clone(m.acks)
}

func (m *memStore) looked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks
}

func (m *memStore) PutAck(_ context.Context, r control.AckRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acks = append(m.acks, r)
	m.change()
	return nil
}

var errDown = errors.New("down")

// memLease is held unless it is taken away.
type memLease struct {
	mu   sync.Mutex
	away bool
}

func (l *memLease) Held(topic string, partition int32) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(time.Minute), !l.away && topic == control.TopicName && partition == 0
}

func (l *memLease) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// memTail tells what a test sends.
type memTail struct{ out chan commits.Batch }

func (m memTail) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (m memTail) Batches() <-chan commits.Batch { return m.out }

func (m memTail) Status() commits.Status { return commits.Status{State: commits.Following} }
