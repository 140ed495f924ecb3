package workers

import (
	"context"
	"time"
)

// Permit is the right to one write to a partition.
type Permit struct {
	m     *Members
	h     *holding
	until time.Time
	left  bool // guarded by m.mu
}

// Until is when the write must be over: no deadline may lie beyond it.
func (p *Permit) Until() time.Time { return p.until }

// Term names the assignment that the permit was given under: permits of one
// assignment have equal terms, and those of two have not, also for the same
// partition.
func (p *Permit) Term() any { return p.h }

// Inherited tells that the partition may have been held by a process that lived
// beside this one until it fell silent, and not only by one that was dead when
// this one joined.
func (p *Permit) Inherited() bool { return p.h.inherited }

// Leave ends the write: its answer is there, or nobody will carry it out any
// more. Further calls do nothing.
func (p *Permit) Leave() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if !p.left {
		p.left = true
		p.h.leave()
	}
}

// wait returns once no write of a dropped partition is under way, or none can be
// any more by what was promised, or life is over. drop has set idle.
func (h *holding) wait(life context.Context) {
	t := time.NewTimer(time.Until(h.latest))
	defer t.Stop()
	select {
	case <-h.idle:
	case <-t.C:
	case <-life.Done():
	}
}
