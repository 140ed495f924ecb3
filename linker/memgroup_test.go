package linker

import (
	"context"
	"sync"
	"time"

	"klink/linker/appender"
	"klink/linker/workers"
)

// memGroup is the group of a link on the target in memory: a test assigns.
type memGroup struct {
	mu      sync.Mutex // guards all below
	members map[string]*memMember
	terms   int
}

// memMember is the Lease of one process.
type memMember struct {
	group   *memGroup
	changed chan struct{}
	giveUp  func(context.Context, []workers.Partition)

	// guarded by the group's lock
	mine   map[workers.Partition]int // the term of each
	heard  map[string]bool
	joined bool
}

func (g *memGroup) member(name string) *memMember {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members == nil {
		g.members = map[string]*memMember{}
	}
	m := &memMember{group: g, changed: make(chan struct{}, 1), mine: map[workers.Partition]int{}, heard: map[string]bool{}}
	g.members[name] = m
	return m
}

// assign gives partitions of a topic to one process, once whoever has them has
// given them up. Of the others' they are not.
func (g *memGroup) assign(to, topic string, partitions ...int32) {
	var ps []workers.Partition
	for _, n := range partitions {
		ps = append(ps, workers.Partition{Topic: topic, Partition: n})
	}
	g.mu.Lock()
	revoked := map[*memMember][]workers.Partition{}
	for name, m := range g.members {
		for _, p := range ps {
			if _, has := m.mine[p]; has && name != to {
				delete(m.mine, p)
				revoked[m] = append(revoked[m], p)
			}
		}
	}
	g.mu.Unlock()
	for m, gone := range revoked {
		if m.giveUp != nil {
			m.giveUp(context.Background(), gone)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range ps {
		g.terms++
		g.members[to].mine[p] = g.terms
		g.members[to].heard[topic] = true
	}
	for _, m := range g.members {
		m.joined = true
		poke(m.changed)
	}
}

func (m *memMember) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (m *memMember) Watch([]string)                {}
func (m *memMember) Trouble() error                { return nil }
func (m *memMember) Changed() <-chan struct{}      { return m.changed }

func (m *memMember) BeforeGivingUp(f func(context.Context, []workers.Partition)) { m.giveUp = f }

func (m *memMember) Share(topic string, partition int32) workers.Share {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	_, mine := m.mine[workers.Partition{Topic: topic, Partition: partition}]
	return workers.Share{Mine: mine, Heard: m.heard[topic], Joined: m.joined}
}

func (m *memMember) Held(topic string, partition int32) (time.Time, bool) {
	return time.Now().Add(time.Hour), m.Share(topic, partition).Mine
}

func (m *memMember) Enter(topic string, partition int32) (Permit, bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	term, mine := m.mine[workers.Partition{Topic: topic, Partition: partition}]
	return memTerm{term: term}, mine
}

type memTerm struct {
	memPermit
	term int
}

func (p memTerm) Term() any { return p.term }

// watched is the Target of one process, and counts what it appends.
type watched struct {
	*world
	mu       sync.Mutex // guards all below
	appended map[int32]int
	refused  int
}

func (w *watched) Begin(ctx context.Context, t appender.Target, b appender.Batch) *appender.Pending {
	under := w.world.Begin(ctx, t, b)
	p, settle := appender.Promise()
	followed(p, under)
	go func() {
		r := under.Wait(context.Background())
		w.mu.Lock()
		if r.Outcome == appender.Appended {
			w.appended[t.Partition]++
		} else {
			w.refused++
		}
		w.mu.Unlock()
		settle(r)
	}()
	return p
}

// followed lets appends follow one that stands for another.
func followed(p, under *appender.Pending) {
	if f, ok := memFlights.LoadAndDelete(under); ok {
		memFlights.Store(p, f)
	}
}

// counts returns how many batches landed in a partition, and how many did not land
// anywhere.
func (w *watched) counts(partition int32) (appended, refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.appended[partition], w.refused
}
