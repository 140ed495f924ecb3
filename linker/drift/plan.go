package drift

import (
	"klink/fetcher/batch"
	"klink/linker/plan"
)

// Plan decides what to do with the first of entries where next is the source offset
// to be copied next. Entries are in log order and are those of a read_committed
// fetch (feed.F1). The kinds are Wait (nothing given), Drop (already copied, or
// nothing a consumer sees), Append, Merge and Recode; Base and End are source offsets.
// A Recode becomes batches without holes, of all its entries together; see Pack. A Halt
// tells of offsets that are missing on a source whose cleaner never ran.
func Plan(next int64, entries []plan.Entry, c plan.Compaction, lim plan.Limits) plan.Step {
	if len(entries) == 0 {
		return plan.Step{Kind: plan.Wait, Base: next, End: next}
	}
	e := &entries[0]
	base, end := extent(e)
	if end <= next || unseen(e) {
		return plan.Step{Kind: plan.Drop, Entries: 1, Base: base, End: max(next, end)}
	}
	pol := plan.Policy{Gaps: plan.FillMarkers, Compaction: c}
	if s := plan.Next(next, entries, pol, lim); s.Kind == plan.Halt {
		return s
	}
	// At its own offset an entry is carried the way a mirror carries it.
	s := plan.Next(max(next, base), entries, pol, lim)
	if s.Kind == plan.Append || s.Kind == plan.Merge {
		return gather(s, entries, lim)
	}
	return s
}

// gather takes small entries along that stand behind what no consumer sees: the
// records of many short transactions go as one batch, without the markers between
// them. Where offsets are missing it ends, so that these are decided about.
func gather(s plan.Step, entries []plan.Entry, lim plan.Limits) plan.Step {
	sum, next, into := 0, s.Base, lim.Into()
	taken, end := 0, s.Base
	for i := range entries {
		e := &entries[i]
		base, after := extent(e)
		if base != next {
			break
		}
		if !unseen(e) {
			if sum += e.SizeBytes; sum > into || !lim.Joins(e, &entries[0]) {
				break
			}
			taken, end = i+1, after
		}
		next = after
	}
	if taken > s.Entries {
		s.Kind, s.Entries, s.End = plan.Recode, taken, end
	}
	return s
}

// extent is the offsets an entry covers, end exclusive.
func extent(e *plan.Entry) (base, end int64) {
	if e.Old {
		return e.OldBase, e.OldLast + 1
	}
	return e.Header.BaseOffset, e.Header.NextOffset()
}

// unseen tells of an entry without a record that a read_committed consumer sees.
func unseen(e *plan.Entry) bool {
	return !e.Old && (e.Header.IsControl() || e.Aborted || e.Header.Count == 0)
}

// Span is a row of neighbouring source offsets.
type Span struct{ Src, Count int64 }

// End is the offset after the row.
func (s Span) End() int64 { return s.Src + s.Count }

// Packed is a batch without holes, ready for batch.Patch, and where its records
// stand on the source.
type Packed struct {
	Bytes []byte
	Spans []Span
}

// Pack writes the records of source entries that a consumer sees anew, from opt.From
// on, as batches without holes, however many their offsets have. raw are the entries'
// bytes. A *batch.RecordTooLargeError names the record by its source offset. The batches
// have memory of their own.
func Pack(entries []plan.Entry, raw [][]byte, opt batch.RecodeOptions) ([]Packed, error) {
	var offsets []int64
	dense := func(yield func(batch.Record, error) bool) {
		for i := range entries {
			if unseen(&entries[i]) {
				continue
			}
			for r, err := range batch.Records(raw[i], opt.Limits) {
				if err == nil {
					if r.Offset < opt.From {
						continue
					}
					offsets = append(offsets, r.Offset)
					r.Offset = int64(len(offsets) - 1)
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
	own := opt
	own.From, own.Repeat = 0, batch.RepeatNone
	made, err := batch.Encode(dense, own)
	if err != nil {
		return nil, atSource(err, offsets)
	}
	out := make([]Packed, len(made))
	for i, m := range made {
		out[i] = Packed{Bytes: m.Bytes, Spans: spansOf(offsets[m.Base : m.Base+int64(m.Count)])}
	}
	return out, nil
}

// SpansOf are the source offsets of the records that a consumer sees in entries
// without holes.
func SpansOf(entries []plan.Entry) (all []Span) {
	for i := range entries {
		if e := &entries[i]; !unseen(e) {
			base, end := extent(e)
			all = joined(all, Span{Src: base, Count: end - base})
		}
	}
	return all
}

// spansOf joins rising offsets to rows.
func spansOf(offsets []int64) (all []Span) {
	for _, o := range offsets {
		all = joined(all, Span{Src: o, Count: 1})
	}
	return all
}

// joined appends a row, or makes the last one longer where it goes on.
func joined(all []Span, s Span) []Span {
	if n := len(all); n > 0 && all[n-1].End() == s.Src {
		all[n-1].Count += s.Count
		return all
	}
	return append(all, s)
}
