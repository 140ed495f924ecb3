package survey

import (
	"context"
	"encoding/binary"
	"sort"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/plan"
)

// memLog serves the batches of a log, so many at each read, as a log of short
// segments does.
type memLog struct {
	batches [][]byte
	ends    []int64
	each    int
	read    int // bytes so far
}

func (m *memLog) write(n int) {
	b := plainBatch(n, time.UnixMilli(1000))
	base := int64(0)
	if len(m.ends) > 0 {
		base = m.ends[len(m.ends)-1]
	}
	binary.BigEndian.PutUint64(b, uint64(base))
	m.batches, m.ends = append(m.batches, b), append(m.ends, base+int64(n))
}

func (m *memLog) end() int64 { return m.ends[len(m.ends)-1] }

func (m *memLog) Bounds(context.Context, feed.Partition, feed.TopicID) (feed.Bounds, error) {
	return bounds(0, m.end()), nil
}

func (m *memLog) Read(_ context.Context, _ feed.Partition, _ feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error) {
	c := &feed.Chunk{Next: from}
	at := sort.Search(len(m.ends), func(i int) bool { return m.ends[i] > from })
	for _, b := range m.batches[at:min(at+m.each, len(m.batches))] {
		if c.Bytes > 0 && c.Bytes+len(b) > int(maxBytes) {
			break
		}
		c.Batches, c.Bytes = append(c.Batches, b), c.Bytes+len(b)
	}
	m.read += c.Bytes
	return c, nil
}

// A small log is read as a whole, however little one read brings; of a large one
// not more than what each place is worth.
func TestSampler(t *testing.T) {
	for _, each := range []int{1, 3, 1000} {
		for _, batches := range []int{1, 2, 20, 200, 20_000} {
			log := &memLog{each: each}
			for i := range batches {
				log.write(1 + i%7)
			}
			total := 0
			for _, b := range log.batches {
				total += len(b)
			}
			s := &sampler{reader: log, limits: plan.DefaultLimits(), bytes: 20_000}
			strata, err := s.read(t.Context(), feed.Partition{}, feed.TopicID{}, 0, log.end())
			if err != nil {
				t.Fatal(err)
			}
			next := int64(0)
			for _, x := range strata {
				if x.From != next || x.End <= x.From {
					t.Fatalf("%d batches, %d at a read: strata %+v", batches, each, strata)
				}
				next = x.End
			}
			a := extrapolate(strata, 0)
			if next != log.end() || a.GapOffsets() != 0 || a.Estimated != (total > places*40_000) {
				t.Errorf("%d batches of %d bytes in all, %d at a read: up to %d of %d, %+v", batches, total, each, next, log.end(), a)
			}
			if most := places * 40_000; log.read > most {
				t.Errorf("%d batches, %d at a read: %d bytes were read", batches, each, log.read)
			}
			if ratio := float64(a.Bytes) / float64(total); ratio < 0.8 || ratio > 1.25 || !a.Estimated && ratio != 1 {
				t.Errorf("%d batches, %d at a read: %d bytes, in truth %d", batches, each, a.Bytes, total)
			}
			s.exact = true
			strata, err = s.read(t.Context(), feed.Partition{}, feed.TopicID{}, 0, log.end())
			if a = extrapolate(strata, 0); err != nil || len(strata) != 1 || a.Estimated || a.Bytes != int64(total) {
				t.Errorf("%d batches, %d at a read, exact: %v, %+v", batches, each, err, a)
			}
			// From the middle of a batch on.
			if strata, err = s.read(t.Context(), feed.Partition{}, feed.TopicID{}, log.end()-1, log.end()); err != nil || len(strata) != 1 || !strata[0].whole() {
				t.Errorf("%d batches, %d at a read: the last offset: %v, %+v", batches, each, err, strata)
			}
		}
	}
}
