package drift

import (
	"klink/fetcher/batch"
	"klink/linker/plan"
)

// Plan decides what to do with the first of entries where next is the source offset
// to be copied next. Entries are in log order and are those of a read_committed
// fetch (feed.F1). The kinds are Wait (nothing given), Drop (already copied, or
// nothing a consumer sees), Append, Merge and Recode; Base and End are source offsets.
// A Recode becomes batches without holes; see Pack. A Halt tells of offsets that are
// missing on a source whose cleaner never ran.
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
	return plan.Next(max(next, base), entries, pol, lim)
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

// Pack writes one source entry anew from opt.From on, as batches without holes,
// however many its offsets have. A *batch.RecordTooLargeError names the record by its
// source offset. The batches have memory of their own.
func Pack(raw []byte, opt batch.RecodeOptions) ([]Packed, error) {
	var offsets []int64
	dense := func(yield func(batch.Record, error) bool) {
		for r, err := range batch.Records(raw, opt.Limits) {
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

// spansOf joins rising offsets to rows.
func spansOf(offsets []int64) (all []Span) {
	for _, o := range offsets {
		if n := len(all); n > 0 && all[n-1].End() == o {
			all[n-1].Count++
			continue
		}
		all = append(all, Span{Src: o, Count: 1})
	}
	return all
}
