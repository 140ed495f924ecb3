package comparator

import (
	"cmp"
	"slices"
)

// Lookahead is how many records of each side a shift is searched in. One by
// more records than this is not recognised: it shows as changed records.
const Lookahead = 8192

// A shift is believed when so many neighbouring records agree with it; at the
// end of both logs, where no more are left, shiftLeast do.
const (
	shiftRun   = 8
	shiftLeast = 2
)

// tries is how many places of equal records are tried for each record.
const tries = 8

// shift is where records begin to stand at another distance: those at src of
// the source's window equal those at dst of the target's, By further on.
type shift struct {
	src, dst int
	by       int64
}

// findShift looks for the first record of the source's window from which on the
// records stand at a distance other than now on the target. src and dst are
// the records that were not compared yet; ended says that no more follow on
// either side.
func findShift(src, dst []Print, now int64, ended bool) (shift, bool) {
	places := make(map[uint64][]int32, len(dst))
	for j, p := range dst {
		if at := places[p.Sum]; len(at) < tries {
			places[p.Sum] = append(at, int32(j))
		}
	}
	limit := len(src)
	if !ended {
		limit = min(limit, max(1, len(src)/2)) // the other half is met again with more to look at
	}
	for i := range limit {
		for _, j := range places[src[i].Sum] {
			s := shift{src: i, dst: int(j), by: dst[j].Offset - src[i].Offset}
			if s.by != now && s.holds(src, dst, now, ended) {
				return s, true
			}
		}
	}
	return shift{}, false
}

// holds reports whether a run of records agrees with the shift, and not as well
// with the distance of now: equal neighbours agree with many.
func (s shift) holds(src, dst []Print, now int64, ended bool) bool {
	a, b := src[s.src:], dst[s.dst:]
	run := 0
	for run < min(shiftRun, len(a), len(b)) {
		if a[run].Sum != b[run].Sum || b[run].Offset-a[run].Offset != s.by {
			return false
		}
		run++
	}
	if run < shiftRun && (!ended || run < shiftLeast) {
		return false
	}
	return 2*alignedIn(a[:run], dst, now) <= run
}

// alignedIn counts the records that have their equal at the distance of now.
func alignedIn(run, dst []Print, now int64) (n int) {
	for _, p := range run {
		j, found := slices.BinarySearchFunc(dst, p.Offset+now, func(d Print, o int64) int { return cmp.Compare(d.Offset, o) })
		if found && dst[j].Sum == p.Sum {
			n++
		}
	}
	return n
}
