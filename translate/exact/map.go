package exact

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// Map tells where the copies of a partition's records lie. The zero value is
// empty. It is not safe for concurrent use; Clone gives a reader its own.
type Map struct {
	runs []Run
	// src is the end of what was looked at on the source: at or above the end of the
	// last run, since what followed it may be no record to be copied.
	src int64
	// changed is the lowest source offset at which a run began that is not what it was
	// when Settled was called; math.MaxInt64 is none. Stored by its distance from
	// there, so that the zero value has none.
	changed uint64
	// floor and adopted are what Adopt was told.
	floor, adopted int64
}

// Adopt says that the mirror did not begin with an empty map: copies below target
// offset dst are another one's, so that no sequence tells of them; and below source
// offset floor there are copies of which the map does not tell.
func (m *Map) Adopt(floor, dst int64) { m.floor, m.adopted = floor, dst }

// Adopted is the target offset below which copies are another mirror's, 0 where all
// are this one's.
func (m *Map) Adopted() int64 { return m.adopted }

// Floor is the source offset below which copies are not known; 0 for none.
func (m *Map) Floor() int64 { return m.floor }

// ChangedFrom tells where the map differs from what it was when Settled was called:
// all runs that end at or below src are what they were, or were pruned.
func (m *Map) ChangedFrom() (src int64, changed bool) {
	return math.MaxInt64 - int64(m.changed), m.changed != 0
}

// Settled makes the map as it is the one that ChangedFrom compares with.
func (m *Map) Settled() { m.changed = 0 }

// touch notes that the run at src is not what it was.
func (m *Map) touch(src int64) { m.changed = max(m.changed, uint64(math.MaxInt64-src)) }

// Clone returns a copy that shares nothing with m.
func (m *Map) Clone() *Map {
	c := *m
	c.runs = slices.Clone(m.runs)
	return &c
}

// Len is the number of runs.
func (m *Map) Len() int { return len(m.runs) }

// Runs gives the runs in order.
func (m *Map) Runs() iter.Seq[Run] { return slices.Values(m.runs) }

// Last is the last run.
func (m *Map) Last() (Run, bool) {
	if len(m.runs) == 0 {
		return Run{}, false
	}
	return m.runs[len(m.runs)-1], true
}

// End is the end of what was copied: the source offset after everything that was
// looked at, and the target offset after the last copy. Both are 0 on an empty map
// that was never advanced.
func (m *Map) End() (src, dst int64) {
	if r, ok := m.Last(); ok {
		dst = r.DstEnd()
	}
	return m.src, dst
}

// Add appends a run. What the map holds at or above its source offset was copied
// again, and what it holds at or above its target offset is not there any more:
// both are cut off (E4). An error means that the run is none.
func (m *Map) Add(r Run) error {
	if err := r.check(); err != nil {
		return err
	}
	m.CutDst(r.Dst)
	m.CutSrc(r.Src)
	if n := len(m.runs); n > 0 && m.runs[n-1].continues(r) {
		m.touch(m.runs[n-1].Src)
		m.runs[n-1].Count += r.Count
	} else {
		m.touch(r.Src)
		m.runs = append(m.runs, r)
	}
	m.src = r.SrcEnd()
	return nil
}

// Advance tells that up to a source offset nothing more is to be copied. A lower
// one than is known changes nothing.
func (m *Map) Advance(src int64) { m.src = max(m.src, src) }

// CutSrc forgets what is known of source offsets at or above next.
func (m *Map) CutSrc(next int64) {
	m.src = min(m.src, next)
	i := sort.Search(len(m.runs), func(i int) bool { return m.runs[i].SrcEnd() > next })
	m.cut(i, func(r Run) int64 { return next - r.Src })
}

// CutDst forgets what is known of target offsets at or above end: the target's log
// was cut off there. What is known of the source is cut off behind the last copy
// that is left, unless nothing had to go.
func (m *Map) CutDst(end int64) {
	i := sort.Search(len(m.runs), func(i int) bool { return m.runs[i].DstEnd() > end })
	if i == len(m.runs) {
		return
	}
	src := m.runs[i].Src + max(0, end-m.runs[i].Dst)
	m.cut(i, func(r Run) int64 { return end - r.Dst })
	m.src = min(m.src, src)
}

// cut keeps of run i what keep says, and nothing of those behind it.
func (m *Map) cut(i int, keep func(Run) int64) {
	if i == len(m.runs) {
		return
	}
	m.touch(m.runs[i].Src)
	if n := keep(m.runs[i]); n > 0 {
		m.runs[i].Count = n
		i++
	}
	m.runs = m.runs[:i]
}

// Prune forgets copies below dstStart, which the target does not hold any more.
// What the source does not hold any more stays: a group may have committed there
// and find its records on the target still.
func (m *Map) Prune(dstStart int64) {
	i := sort.Search(len(m.runs), func(i int) bool { return m.runs[i].DstEnd() > dstStart })
	m.runs = slices.Delete(m.runs, 0, i)
	if len(m.runs) > 0 && m.runs[0].Dst < dstStart {
		m.runs[0] = m.runs[0].from(dstStart - m.runs[0].Dst)
	}
}

// BySeq is the source offset of the record that was copied with a sequence, or of
// the one to be copied next, where the sequence is the one after the last run. Of
// several that are 2^31 apart it is the nearest to the end.
func (m *Map) BySeq(seq int32) (src int64, ok bool) {
	r, some := m.Last()
	if !some {
		return 0, false
	}
	if seq == r.SeqEnd() {
		return r.SrcEnd(), true
	}
	for i := len(m.runs) - 1; i >= 0; i-- {
		r := m.runs[i]
		if behind := int64(addSeq(r.SeqEnd(), -int64(seq))); behind > 0 && behind <= r.Count {
			return r.SrcEnd() - behind, true
		}
	}
	return 0, false
}
