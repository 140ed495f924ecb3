package ledger

import (
	"iter"
	"slices"
)

// MaxWindows bounds an Index: some 50 bytes each keep its record near 12 KB, so
// that those of a thousand partitions can be written again and again.
const MaxWindows = 256

// squeezeTo is how many windows a full index is brought down to, so that the
// work is shared by all the additions until it is full again.
const squeezeTo = MaxWindows * 3 / 4

// Index is what of one partition is not a copy. The zero value is that of an
// empty log. It is not safe for concurrent use.
type Index struct {
	end     int64
	windows []Window
}

// End is where the index ends (exclusive): what lies below is complete.
func (x *Index) End() int64 { return x.end }

// Advance moves the end: all that is not a copy below it was added. A lower end
// changes nothing.
func (x *Index) Advance(end int64) { x.end = max(x.end, end) }

// Add takes in a range, or the part of it that is not below the end (L2), and
// moves the end behind it.
func (x *Index) Add(r Range) {
	r.From = max(r.From, x.end)
	if r.End <= r.From {
		return
	}
	x.end = r.End
	if n := len(x.windows); n > 0 {
		last := &x.windows[n-1]
		if last.End == r.From && last.Exact() && last.Counts[0].Reason == r.Reason {
			last.End = r.End
			last.Counts[0].Offsets += r.End - r.From
			return
		}
	}
	x.windows = append(x.windows, Window{From: r.From, End: r.End, Counts: []Count{{r.Reason, r.End - r.From}}})
	if len(x.windows) > MaxWindows {
		x.windows = squeeze(x.windows, squeezeTo)
	}
}

// Accept enters a range in place of what was entered above its beginning, as its
// offsets count for nothing else any more. A window that begins below and ends
// within makes it begin with that window, since it is not known which of the
// window's offsets lie below. It moves the end behind the range.
func (x *Index) Accept(r Range) {
	kept := x.windows[:0:0]
	for _, w := range x.windows {
		switch {
		case w.End <= r.From:
			kept = append(kept, w)
		case w.From < r.From && w.Exact():
			n := r.From - w.From
			kept = append(kept, Window{From: w.From, End: r.From, Counts: []Count{{w.Counts[0].Reason, n}}})
		case w.From < r.From:
			r.From = w.From
		}
	}
	x.windows, x.end = kept, min(x.end, r.From)
	x.Add(r)
}

// Accepted is the end (exclusive) of the last accepted range.
func (x *Index) Accepted() (end int64, ok bool) {
	for _, w := range slices.Backward(x.windows) {
		if w.has(Accepted) {
			return w.End, true
		}
	}
	return 0, false
}

// FromMarkers takes in what the log shows: the offset and coordinator epoch of
// each filler marker, in the log's order. To rebuild what a crash left out, give
// it the markers from End on, and Advance to the log end when all are read. The
// log shows them until its cleaner removes them, delete.retention.ms after its
// first pass on a compacted topic; and it never shows what was padded, recoded
// or split.
func (x *Index) FromMarkers(markers iter.Seq2[int64, int32]) {
	for offset, epoch := range markers {
		_, reason := SplitEpoch(epoch)
		x.Add(Range{From: offset, End: offset + 1, Reason: reason})
	}
}

// Totals is how many offsets have which reason; exact (L3). Reasons without any
// are left out.
func (x *Index) Totals() map[Reason]int64 {
	out := make(map[Reason]int64)
	for _, w := range x.windows {
		for _, c := range w.Counts {
			out[c.Reason] += c.Offsets
		}
	}
	return out
}

// Windows lists where the offsets are, by rising offset.
func (x *Index) Windows() []Window {
	out := slices.Clone(x.windows)
	for i := range out {
		out[i].Counts = slices.Clone(out[i].Counts)
	}
	return out
}
