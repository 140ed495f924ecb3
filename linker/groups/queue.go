package groups

import (
	"slices"
	"time"
)

// Pace is how fast things go. All are above 0.
type Pace struct {
	// Gather is how long changes of a group are gathered before it is looked at.
	Gather time.Duration
	// RetryMax bounds the pauses after failures, ClampMax those before an offset
	// that the mirror has not reached is looked at again. Both begin with Gather
	// and double.
	RetryMax, ClampMax time.Duration
	// Verify is how often a group is looked at where nothing changed.
	Verify time.Duration
	// ListedFor is how old the target's listing may be.
	ListedFor time.Duration
}

// DefaultPace leaves, of the quarter of a second in which a commit is to reach the
// target, more than half for the cycle that writes it.
func DefaultPace() Pace {
	return Pace{Gather: 80 * time.Millisecond, RetryMax: 2 * time.Second, ClampMax: time.Second,
		Verify: 10 * time.Second, ListedFor: 10 * time.Second}
}

// waiting is where a group is between two looks.
type waiting struct {
	// dirty is since when something waits to be looked at; it lies ahead where an
	// offset waits for the mirror. after is the earliest time for the look.
	dirty, after time.Time
	// busy: a look is under way; again: something changed meanwhile.
	busy, again bool
	// pause is the last one before a retry.
	pause time.Duration
	// looked is when the last look began, since that one that is under way.
	looked, since time.Time
	// wrote: that look changed an offset on the target, or tried to.
	wrote bool
}

// mark has a group looked at.
func (d *Desk) mark(e *entry, now time.Time) {
	switch {
	case e.wait.busy:
		e.wait.again = true
	case e.wait.dirty.IsZero() || e.wait.dirty.After(now):
		e.wait.dirty = now
		d.queue[e] = struct{}{}
	}
}

// Verify has groups looked at whose last look is long ago. It is called every so
// often and spreads them, so that those with news do not wait behind all others.
func (d *Desk) Verify(now time.Time, every time.Duration) {
	left := 50 + int(float64(len(d.groups))*every.Seconds()/d.pace.Verify.Seconds())
	for _, e := range d.groups {
		if left > 0 && e.carried && !e.foreign && len(e.facts) > 0 && now.Sub(e.wait.looked) >= d.pace.Verify {
			d.mark(e, now)
			left--
		}
	}
}

// Force has all groups that the function picks looked at without delay, and
// returns them.
func (d *Desk) Force(now time.Time, pick func(group string, topics map[string]bool) bool) (names []string) {
	for _, e := range d.groups {
		topics := make(map[string]bool)
		for p := range e.facts {
			topics[p.Topic] = true
		}
		if !e.carried || e.foreign || !pick(e.name, topics) {
			continue
		}
		names = append(names, e.name)
		d.mark(e, now)
		e.wait.after, e.wait.pause = time.Time{}, 0
		if !e.wait.busy {
			e.wait.dirty = now.Add(-d.pace.Gather)
		}
	}
	return names
}

// Rest is what a round left to be done for some topics.
type Rest struct {
	// Looked: all groups were looked at. A group that is gone has been.
	Looked bool
	// Writes: something was written, and is still to be read back.
	Writes bool
	// Passing: something stood in the way that passes; Clamped: an offset is beyond
	// what the mirror has.
	Passing, Clamped bool
}

// Rest tells what is left to be done for topics of the named groups, by the looks
// that began at since or later.
func (d *Desk) Rest(names, topics []string, since time.Time) Rest {
	r := Rest{Looked: true}
	for _, n := range names {
		e := d.groups[n]
		if e == nil {
			continue
		}
		if e.wait.busy || e.wait.looked.Before(since) {
			return Rest{}
		}
		r.Writes = r.Writes || e.wait.wrote
		for p, f := range e.facts {
			if slices.Contains(topics, p.Topic) && f.verdict.passes() {
				r.Clamped = r.Clamped || f.verdict == Clamped
				r.Passing = r.Passing || f.verdict != Clamped
			}
		}
	}
	return r
}

// Busy reports whether any look is under way that began before a time.
func (d *Desk) Busy(before time.Time) bool {
	for _, e := range d.groups {
		if e.wait.busy && !e.wait.since.After(before) {
			return true
		}
	}
	return false
}

// Due takes the groups that are to be looked at now, by their coordinator on the
// target, and tells when the next one will be; the zero time where none waits.
// free tells of a coordinator how many groups it may be given.
func (d *Desk) Due(now time.Time, free func(coordinator int32) int) (due map[int32][]string, next time.Time) {
	due = make(map[int32][]string)
	for e := range d.queue {
		if !e.carried || e.foreign {
			continue // until it is listed
		}
		at := e.wait.dirty.Add(d.pace.Gather)
		if e.wait.after.After(at) {
			at = e.wait.after
		}
		if at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		c := e.coordinator
		if len(due[c]) >= free(c) {
			continue // the end of a cycle there wakes the writer
		}
		due[c] = append(due[c], e.name)
		delete(d.queue, e)
		e.wait.dirty, e.wait.busy, e.wait.again, e.wait.since = time.Time{}, true, false, now
	}
	return due, next
}

// Postpone ends a look that Due began and that was not made.
func (d *Desk) Postpone(group string, now time.Time, pause time.Duration) {
	if e := d.groups[group]; e != nil {
		e.wait.busy = false
		d.mark(e, now)
		e.wait.after = now.Add(pause)
	}
}

// Done ends a look that Due began; wrote says that it changed an offset on the
// target, or tried to.
func (d *Desk) Done(group string, wrote bool, now time.Time) {
	e := d.groups[group]
	if e == nil {
		return
	}
	passes, clamped := e.passing()
	e.wait.busy, e.wait.looked = false, e.wait.since
	e.wait.wrote = wrote
	e.wait.after = time.Time{}
	switch {
	case passes && clamped: // a new commit does not wait for it
		e.wait.pause = min(max(2*e.wait.pause, d.pace.Gather), d.pace.ClampMax)
		d.mark(e, now.Add(e.wait.pause))
	case passes:
		e.wait.pause = min(max(2*e.wait.pause, d.pace.Gather), d.pace.RetryMax)
		e.wait.after = now.Add(e.wait.pause)
		d.mark(e, now)
	default:
		e.wait.pause = 0
	}
	if e.wait.again {
		d.mark(e, now)
	}
}

// passing tells whether anything about a group is to be tried again soon, and
// whether that is for nothing but offsets that the mirror has not reached.
func (e *entry) passing() (passes, clamped bool) {
	clamped = true
	for _, f := range e.facts {
		if f.verdict.passes() {
			passes = true
			clamped = clamped && f.verdict == Clamped
		}
	}
	return passes, clamped
}
