package survey

import (
	"context"

	"klink/fetcher/feed"
	"klink/linker/plan"
)

const (
	// places is at how many evenly spaced offsets a log is read. Sixteen follow a
	// log whose nature changed a few times in its life.
	places = 16
	// mostPlaceBytes suffices to see how small batches would be merged.
	mostPlaceBytes  = 256 << 10
	leastPlaceBytes = 16 << 10
	// sampleBytes is what is read of all partitions together, where that does not
	// ask for less than leastPlaceBytes at a place.
	sampleBytes = 1 << 30
	// exactBytes is one read where all is read.
	exactBytes = 1 << 20
)

// placeBytes shares what may be read among partitions.
func placeBytes(all, partitions int) int32 {
	return int32(min(max(all/places/max(1, partitions), leastPlaceBytes), mostPlaceBytes))
}

// sampler reads of a source log what is needed to estimate it.
type sampler struct {
	reader Reader
	limits plan.Limits
	// bytes of one read; exact reads everything.
	bytes int32
	exact bool
}

// read returns the strata of [begin, end) of a partition. Each read is of whole
// batches from an offset on, as many as fit.
func (s *sampler) read(ctx context.Context, p feed.Partition, id feed.TopicID, begin, end int64) ([]stratum, error) {
	if s.exact {
		return s.readAll(ctx, p, id, begin, end)
	}
	var out []stratum
	step := max(1, (end-begin)/places)
	contiguous := true
	for from := begin; from < end; {
		next := min(begin+((from-begin)/step+1)*step, end)
		t, err := s.readPlace(ctx, p, id, place{from: from, next: next, contiguous: contiguous})
		if err != nil {
			return nil, err
		}
		if t.End <= from { // nothing at or above it: a gap up to the end
			return append(out, stratum{From: from, End: end}), nil
		}
		st := stratum{From: from, End: min(max(next, t.End), end), Seen: t}
		out = append(out, st)
		from, contiguous = st.End, st.End == t.End
	}
	return out, nil
}

// place is where a log is read in the middle, up to the next place at most.
type place struct {
	from, next int64
	// contiguous: all before it was read.
	contiguous bool
}

// readPlace reads as many bytes as a place is worth. One read may bring less,
// since it ends with a segment of the log.
func (s *sampler) readPlace(ctx context.Context, p feed.Partition, id feed.TopicID, at place) (Tally, error) {
	all := Tally{From: at.from, End: at.from}
	for bytes := 0; all.End < at.next && bytes < int(s.bytes); {
		t, n, err := s.look(ctx, p, id, place{from: all.End, contiguous: at.contiguous})
		if err != nil {
			return all, err
		}
		if t.End <= all.End {
			break
		}
		all.add(t)
		bytes, at.contiguous = bytes+n, true
	}
	return all, nil
}

// readAll reads one stretch after the other.
func (s *sampler) readAll(ctx context.Context, p feed.Partition, id feed.TopicID, begin, end int64) ([]stratum, error) {
	all := stratum{From: begin, End: begin}
	for all.End < end {
		t, _, err := s.look(ctx, p, id, place{from: all.End, contiguous: true})
		if err != nil {
			return nil, err
		}
		if t.End <= all.End {
			return []stratum{all, {From: all.End, End: end}}, nil
		}
		all.Seen.add(t)
		all.End = t.End
	}
	return []stratum{all}, nil
}

// look reads once, and says how many bytes that were. What is read for a place in
// the middle is counted from its first batch on, since that a place lies within a
// batch says nothing about the log.
func (s *sampler) look(ctx context.Context, p feed.Partition, id feed.TopicID, at place) (Tally, int, error) {
	from := at.from
	c, err := s.reader.Read(ctx, p, id, from, s.bytes)
	if err != nil {
		return Tally{}, 0, err
	}
	defer c.Release()
	entries, err := plan.ReadEntries(nil, c.Batches, c.Aborted)
	if err != nil {
		return Tally{}, 0, feed.NewFault(feed.Corrupt, p, from, err)
	}
	if len(entries) == 0 {
		return Tally{From: from, End: from}, 0, nil
	}
	if !at.contiguous {
		from = min(from, baseOf(entries[0]))
	}
	return count(from, entries, s.limits), c.Bytes, nil
}

func baseOf(e plan.Entry) int64 {
	if e.Old {
		return e.OldBase
	}
	return e.Header.BaseOffset
}
