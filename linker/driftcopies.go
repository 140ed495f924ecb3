package linker

import (
	"sync"

	"klink/translate/exact"
)

// copies is the map of what has landed, for its partition's goroutine and for
// readers.
type copies struct {
	mu sync.Mutex // guards m
	m  *exact.Map
}

func (c *copies) set(m *exact.Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m = m
}

// own tells whether this mirror ever copied anything, as far as is known; what it
// took over from another one is none of its own.
func (c *copies) own() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m != nil && ownEnd(c.m) > 0
}

// ownEnd is the target offset after the last copy of this mirror's own, 0 for none.
func ownEnd(m *exact.Map) int64 {
	if r, ok := m.Last(); ok && r.DstEnd() > m.Adopted() {
		return r.DstEnd()
	}
	return 0
}

// landed adds copies.
func (c *copies) landed(r exact.Run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.Add(r)
}

// passed tells up to where the source was looked at.
func (c *copies) passed(src int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Advance(src)
}

// prune forgets copies below a target offset, and tells how many runs are gone. The last
// one stays: it knows the next sequence.
func (c *copies) prune(below int64) (runs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.m.Last()
	if !ok {
		return 0
	}
	before := c.m.Len()
	c.m.Prune(min(below, last.Dst))
	return before - c.m.Len()
}

// settled notes that the map went on record, with what is to be copied next: of what
// landed before, nothing has to be written again.
func (c *copies) settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Settled()
}

func (c *copies) clone() *exact.Map {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return &exact.Map{}
	}
	return c.m.Clone()
}

// end is the target offset after the last copy, none where there is none.
func (c *copies) end(none int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.m.Last(); ok {
		return r.DstEnd()
	}
	return none
}

func (c *copies) toTarget(src int64) exact.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return exact.Answer{}
	}
	return c.m.ToTarget(src)
}

// last is the last run, not ok where nothing was copied.
func (c *copies) last() (exact.Run, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		return exact.Run{}, false
	}
	return c.m.Last()
}
