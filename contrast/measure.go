package contrast

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Entry is a record that the source has acknowledged.
type Entry struct {
	Serial    int64 // its number among the records of its partition, from 0 on
	Offset    int64
	Key       string
	Sent      time.Time
	Committed bool // consumers at read_committed see it
	Timed     bool // it was sent while the mirror ran, so that its delay counts
}

// Copy is a record as a consumer of the target was given it.
type Copy struct {
	Serial int64
	Offset int64
	At     time.Time // when the consumer had it
}

// Weight is what came of the records of a partition, or of several.
type Weight struct {
	Acked  int64 `json:"source_records"` // that consumers may see
	Copied int64 `json:"target_records"`
	// SameOffset of the copied ones stand at the source's offset.
	SameOffset int64 `json:"offsets_equal"`
	// Lost lie before the last record that was copied, and were not; Superseded are
	// those of them that compaction may take.
	Lost       int64 `json:"records_lost"`
	Superseded int64 `json:"compacted"`
	// Twice counts further copies of records that have one, and what is no copy;
	// Revealed copies of records of aborted transactions, which no consumer of the
	// source may see; Disorder copies that stand behind one of a later record.
	Twice    int64 `json:"copied_twice"`
	Revealed int64 `json:"aborted_shown"`
	Disorder int64 `json:"out_of_order"`
	// Behind lie after the last record that was copied: no copy of them existed when
	// the source died.
	Behind int64 `json:"never_mirrored"`
}

func (w Weight) plus(o Weight) Weight {
	return Weight{w.Acked + o.Acked, w.Copied + o.Copied, w.SameOffset + o.SameOffset, w.Lost + o.Lost, w.Superseded + o.Superseded,
		w.Twice + o.Twice, w.Revealed + o.Revealed, w.Disorder + o.Disorder, w.Behind + o.Behind}
}

// Weigh sets the copies of a partition against its records. Entries are by serial,
// each at its own index, copies by offset.
func Weigh(entries []Entry, copies []Copy, compacted bool) Weight {
	var w Weight
	copied, last := map[int64]bool{}, int64(-1)
	for _, c := range copies {
		switch {
		case copied[c.Serial] || c.Serial < 0 || c.Serial >= int64(len(entries)):
			w.Twice++
			continue
		case !entries[c.Serial].Committed:
			w.Revealed++
			copied[c.Serial] = true
			continue
		case entries[c.Serial].Offset == c.Offset:
			w.SameOffset++
		}
		if c.Serial < last {
			w.Disorder++
		}
		copied[c.Serial], last = true, max(last, c.Serial)
		w.Copied++
	}
	later := map[string]bool{} // keys of later records
	for _, e := range slices.Backward(entries) {
		if !e.Committed {
			continue
		}
		w.Acked++
		switch {
		case copied[e.Serial]:
		case e.Serial > last:
			w.Behind++
		case compacted && later[e.Key]:
			w.Superseded++
		default:
			w.Lost++
		}
		later[e.Key] = true
	}
	return w
}

func acknowledged(entries []Entry, serial int64) bool {
	return serial >= 0 && serial < int64(len(entries)) && entries[serial].Committed
}

// Standing is where a group goes on, beside where it stopped.
type Standing struct {
	// Known is whether it was told where to go on; else it begins at the start, as
	// with auto.offset.reset=earliest.
	Known bool
	// Again are the copies that lie before its commit and that it is given again,
	// Skipped those that lie behind it and that it is never given.
	Again, Skipped int64
}

// Error is how far the group was set off, in records.
func (s Standing) Error() int64 { return s.Again + s.Skipped }

// Stand tells what resuming at an offset of the target means for a group that had
// committed an offset of the source; -1 is no place to go on.
func Stand(entries []Entry, copies []Copy, commit, resume int64) Standing {
	s := Standing{Known: resume >= 0}
	for _, c := range copies {
		if !acknowledged(entries, c.Serial) {
			continue
		}
		before := entries[c.Serial].Offset < commit
		switch {
		case before && c.Offset >= resume:
			s.Again++
		case !before && c.Offset < resume:
			s.Skipped++
		}
	}
	return s
}

// Delays are the times from when each record was sent until a consumer of the
// target first had it.
func Delays(entries []Entry, copies []Copy) []time.Duration {
	var all []time.Duration
	seen := map[int64]bool{}
	for _, c := range copies {
		if !acknowledged(entries, c.Serial) || seen[c.Serial] || !entries[c.Serial].Timed {
			continue
		}
		seen[c.Serial] = true
		all = append(all, c.At.Sub(entries[c.Serial].Sent))
	}
	return all
}

// Quantile is the smallest value that at least a share q of all do not exceed;
// nil of none.
func Quantile(all []time.Duration, q float64) *time.Duration {
	if len(all) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(all))
	d := sorted[max(0, min(len(sorted), int(math.Ceil(q*float64(len(sorted)))))-1)]
	return &d
}

// Point is one moment of a run.
type Point struct {
	Seconds float64 `json:"seconds"` // since the load began
	// DelaySeconds is the longest delay of a copy that arrived around then, Shift the
	// largest distance of a copy from its record's offset, of all partitions.
	DelaySeconds float64 `json:"lag_seconds"`
	Shift        int64   `json:"offset_difference"`
}

// step is how much time a Point is about.
const step = 500 * time.Millisecond

// Course puts the copies of partitions, with their entries, in the order of time.
// Moments in which nothing arrived have no point.
func Course(began time.Time, entries [][]Entry, copies [][]Copy) []Point {
	at := map[int64]Point{}
	for i := range entries {
		for _, c := range copies[i] {
			if !acknowledged(entries[i], c.Serial) || !entries[i][c.Serial].Timed || c.At.Before(began) {
				continue
			}
			e := entries[i][c.Serial]
			n := int64(c.At.Sub(began) / step)
			p := at[n]
			p.Seconds = (time.Duration(n) * step).Seconds()
			p.DelaySeconds = max(p.DelaySeconds, c.At.Sub(e.Sent).Seconds())
			p.Shift = max(p.Shift, distance(c.Offset, e.Offset))
			at[n] = p
		}
	}
	var all []Point
	for _, p := range at {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Point) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return all
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
