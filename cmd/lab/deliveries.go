package lab

import (
	"context"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Deliveries is what the members of a group have been given, at any cluster and
// over any number of restarts: to tell what was read twice and what never. The
// zero value is ready, and may be shared by consumers.
type Deliveries struct {
	mu         sync.Mutex // guards what is below
	partitions map[Partition]*delivered
}

// delivered is the offsets of one partition that were given out at least once,
// as disjoint ranges in order.
type delivered struct {
	ranges []Range
	count  int64 // with repetitions
	twice  int64 // given out although given out before
}

// Range is offsets from From up to, without, To.
type Range struct{ From, To int64 }

// Note records that the record at offset was delivered.
func (d *Deliveries) Note(p Partition, offset int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.partitions == nil {
		d.partitions = map[Partition]*delivered{}
	}
	if d.partitions[p] == nil {
		d.partitions[p] = &delivered{}
	}
	d.partitions[p].note(offset)
}

func (d *delivered) note(offset int64) {
	d.count++
	// The first range that begins beyond offset; the one before may hold it.
	i, _ := slices.BinarySearchFunc(d.ranges, offset+1, func(r Range, at int64) int {
		if r.From < at {
			return -1
		}
		return 1
	})
	if i > 0 && offset < d.ranges[i-1].To {
		d.twice++
		return
	}
	joinsLeft := i > 0 && d.ranges[i-1].To == offset
	joinsRight := i < len(d.ranges) && d.ranges[i].From == offset+1
	switch {
	case joinsLeft && joinsRight:
		d.ranges[i-1].To = d.ranges[i].To
		d.ranges = slices.Delete(d.ranges, i, i+1)
	case joinsLeft:
		d.ranges[i-1].To++
	case joinsRight:
		d.ranges[i].From--
	default:
		d.ranges = slices.Insert(d.ranges, i, Range{offset, offset + 1})
	}
}

// Records counts deliveries, repetitions too, over all partitions.
func (d *Deliveries) Records() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.partitions {
		n += p.count
	}
	return n
}

// Twice counts deliveries of records that had been delivered before, by
// partition; those without any are left out.
func (d *Deliveries) Twice() map[Partition]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	twice := map[Partition]int64{}
	for p, seen := range d.partitions {
		if seen.twice > 0 {
			twice[p] = seen.twice
		}
	}
	return twice
}

// Ranges are the offsets of a partition that were delivered at least once, as
// disjoint ranges in order.
func (d *Deliveries) Ranges(p Partition) []Range {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.partitions[p] == nil {
		return nil
	}
	return slices.Clone(d.partitions[p].ranges)
}

// Lost reads the range of a partition that o names, and counts the records in
// it that nobody was given. first is the offset of the first of them, -1 if
// there are none.
func (d *Deliveries) Lost(ctx context.Context, c Cluster, p Partition, o ReadOptions) (lost, first int64, err error) {
	seen := d.Ranges(p)
	first = -1
	_, err = readRange(ctx, c, p, o, func(r *kgo.Record) {
		offset := r.Offset
		for len(seen) > 0 && seen[0].To <= offset {
			seen = seen[1:]
		}
		if len(seen) > 0 && seen[0].From <= offset {
			return
		}
		if lost++; first < 0 {
			first = offset
		}
	})
	return lost, first, err
}
