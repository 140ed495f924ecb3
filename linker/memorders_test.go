package linker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
)

// memOrders are the commands and acknowledgements of a control topic in memory.
type memOrders struct {
	ordMu    sync.Mutex // guards all below
	commands []intent.Command
	changed  chan struct{}
	acks     []control.AckRecord
	ackErr   error
	cuts     []control.CutRecord
}

func (m *memOrders) Cuts(_, switchID string) (all []control.CutRecord) {
	m.ordMu.Lock()
	defer m.ordMu.Unlock()
	for _, c := range m.cuts {
		if c.Switch == switchID {
			all = append(all, c)
		}
	}
	return all
}

func (m *memOrders) Commands(string) []intent.Command {
	m.ordMu.Lock()
	defer m.ordMu.Unlock()
	return slices.Clone(m.commands)
}

func (m *memOrders) Intents(link string) intent.Intents { return intent.Fold(m.Commands(link)) }

func (m *memOrders) Changed() <-chan struct{} {
	m.ordMu.Lock()
	defer m.ordMu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// change tells those who wait. The lock is held.
func (m *memOrders) change() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *memOrders) PutCommand(_ context.Context, c intent.Command) error {
	m.ordMu.Lock()
	defer m.ordMu.Unlock()
	for _, first := range m.commands {
		if first.Number == c.Number {
			return &control.LostError{Winner: first}
		}
	}
	m.commands = append(m.commands, c)
	m.change()
	return nil
}

func (m *memOrders) PutAck(_ context.Context, r control.AckRecord) error {
	m.ordMu.Lock()
	defer m.ordMu.Unlock()
	if m.ackErr != nil {
		return m.ackErr
	}
	m.acks = slices.DeleteFunc(m.acks, func(o control.AckRecord) bool { return o.Topic == r.Topic && o.Worker == r.Worker })
	m.acks = append(m.acks, r)
	m.change()
	return nil
}

func (m *memOrders) Acks(_, topic string) (all []control.AckRecord) {
	m.ordMu.Lock()
	defer m.ordMu.Unlock()
	for _, r := range m.acks {
		if r.Topic == topic {
			all = append(all, r)
		}
	}
	return all
}

// give writes a command for the link, or for topics of it, and returns it.
func (m *memOrders) give(t *testing.T, c intent.Command) intent.Command {
	t.Helper()
	in := m.Intents("l")
	c.Link, c.Number, c.ID, c.At, c.By = "l", in.Next(), "id", time.Now(), "ann@desk"
	if err := in.Admits(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if err := m.PutCommand(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// lastAck is a worker's acknowledgement for a topic.
func (m *memOrders) lastAck(topic, worker string) (last control.AckRecord) {
	for _, r := range m.Acks("l", topic) {
		if r.Worker == worker {
			last = r
		}
	}
	return last
}
