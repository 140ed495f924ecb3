package linker

import (
	"context"
	"time"

	"klink/linker/workers"
)

// Lease is membership in the link's group: the right to what no sequence
// guards, which are markers, pads and trims, and who mirrors which partition.
// Obligations: those of workers.Members (W1 to W9).
type Lease interface {
	// Run stays a member until ctx ends.
	Run(ctx context.Context) error
	// Watch tells which target topics are shared.
	Watch(topics []string)
	// Held tells whether a target partition may be written to, and until when.
	Held(topic string, partition int32) (until time.Time, ok bool)
	// Enter begins a write to a partition that is held.
	Enter(topic string, partition int32) (Permit, bool)
	// Trouble is why nothing is held, nil where nothing stands in the way.
	Trouble() error
	// Share tells who mirrors a target partition, as far as is known.
	Share(topic string, partition int32) workers.Share
	// BeforeGivingUp sets what is done before partitions go to another process.
	BeforeGivingUp(f func(ctx context.Context, ps []workers.Partition))
	// Changed gets a value when Share or Held may tell something else.
	Changed() <-chan struct{}
}

// Permit is the right to one write.
type Permit interface {
	// Until is when the write must be over.
	Until() time.Time
	// Term tells assignments apart: another one, another term.
	Term() any
	// Inherited tells that somebody else who lived beside this process may have
	// held the partition until it came here.
	Inherited() bool
	Leave()
}

// Membership makes a Lease of a membership.
func Membership(m *workers.Members) Lease { return membership{m} }

type membership struct{ *workers.Members }

func (m membership) Enter(topic string, partition int32) (Permit, bool) {
	p, ok := m.Members.Enter(topic, partition)
	if !ok {
		return nil, false
	}
	return p, true
}
