package comparator

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Mode tells how a partition was mirrored, and so what is compared with what.
type Mode string

// The modes.
const (
	// Mirror: a record and its copy have the same offset.
	Mirror Mode = "mirror"
	// Checkpoint: copies lie where a map says, in the order of their records, among
	// records of others.
	Checkpoint Mode = "checkpoint"
)

// Run is a row of copies: those of the source's records at Source to
// Source+Records-1 lie at Target to Target+Records-1.
type Run struct{ Source, Target, Records int64 }

// Copied tells where the copies of a partition lie that is mirrored in checkpoint
// mode.
type Copied struct {
	// Runs are in order: on both sides each begins at or behind the end of the one
	// before.
	Runs []Run
	// Begins is the source offset below which it is not known what was copied: another
	// mirror did that. Nothing is said of it; 0 where all is known.
	Begins int64
	// Next is the source offset up to which all is copied that is to be.
	Next int64
	// Producer is the id of the mirror's batches on the target: whatever of them is in
	// no run is a duplicate.
	Producer int64
}

// errMap: what is said of where copies lie contradicts itself.
var errMap = errors.New("the map of copies is not in order")

// check reports whether the runs are such.
func (c *Copied) check() error {
	var source, target int64
	for i, r := range c.Runs {
		if r.Records < 1 || r.Source < source || r.Target < target || r.Records > math.MaxInt64-max(r.Source, r.Target) {
			return fmt.Errorf("%w at run %d: %+v", errMap, i, r)
		}
		source, target = r.Source+r.Records, r.Target+r.Records
	}
	return nil
}

// bySource and byTarget are the first run that ends behind an offset.
func (c *Copied) bySource(offset int64) int {
	i, _ := slices.BinarySearchFunc(c.Runs, offset, func(r Run, o int64) int { return cmp.Or(cmp.Compare(r.Source+r.Records, o), -1) })
	return i
}

func (c *Copied) byTarget(offset int64) int {
	i, _ := slices.BinarySearchFunc(c.Runs, offset, func(r Run, o int64) int { return cmp.Or(cmp.Compare(r.Target+r.Records, o), -1) })
	return i
}

// target is where the copy of a source record lies; ok is false where there is none,
// and target that of the next one, or the end of all.
func (c *Copied) target(source int64) (target int64, ok bool) {
	i := c.bySource(source)
	switch {
	case i == len(c.Runs):
		return c.targetEnd(), false
	case source < c.Runs[i].Source:
		return c.Runs[i].Target, false
	default:
		return c.Runs[i].Target + source - c.Runs[i].Source, true
	}
}

// source is the record that a target offset holds the copy of; ok is false where it
// holds none, and source that of the next copy, or Next.
func (c *Copied) source(target int64) (source int64, ok bool) {
	return c.sourceIn(c.byTarget(target), target)
}

// sourceIn is source, given byTarget.
func (c *Copied) sourceIn(i int, target int64) (source int64, ok bool) {
	switch {
	case i == len(c.Runs):
		return c.Next, false
	case target < c.Runs[i].Target:
		return c.Runs[i].Source, false
	default:
		return c.Runs[i].Source + target - c.Runs[i].Target, true
	}
}

// behind is the target offset after the copy of the last record below a source
// offset. From there to target, no copy lies.
func (c *Copied) behind(source int64) int64 {
	i := c.bySource(source)
	switch {
	case i < len(c.Runs) && c.Runs[i].Source < source:
		return c.Runs[i].Target + source - c.Runs[i].Source
	case i > 0:
		return c.Runs[i-1].Target + c.Runs[i-1].Records
	case i < len(c.Runs):
		return c.Runs[i].Target
	default:
		return 0
	}
}

// targetEnd is the target offset after the last copy.
func (c *Copied) targetEnd() int64 {
	if n := len(c.Runs); n > 0 {
		return c.Runs[n-1].Target + c.Runs[n-1].Records
	}
	return 0
}

// floor is the source offset from which on copies are still there, given where the
// target's log starts. Where it lost none that is whatever comes first.
func (c *Copied) floor(targetStart int64) int64 {
	if len(c.Runs) == 0 || targetStart <= c.Runs[0].Target {
		return 0
	}
	source, _ := c.source(targetStart)
	return source
}

// span is where the copies of a source range lie on the target, with what lies among
// them.
func (c *Copied) span(source Range) Range {
	r := Range{From: c.behind(source.From), To: c.behind(source.To)}
	r.To = max(r.From, r.To)
	return r
}

// reads reports whether a group that goes on at a target offset reads the same next
// copy as one that goes on at a source offset. Where the answer was made while less
// was copied, records of others may lie in between.
func (c *Copied) reads(target, source int64) bool {
	next, _ := c.target(source)
	return target >= c.behind(source) && target <= max(next, c.behind(source))
}
