package exact

import (
	"fmt"
	"math"
)

// Run is a row of copied records: those at source offsets Src to Src+Count-1 lie at
// target offsets Dst to Dst+Count-1.
type Run struct {
	Src, Dst int64
	// Count is at least 1 in a Map.
	Count int64
	// Seq is the number of the first one among all records that were ever copied to
	// the partition, modulo 2^31: the sequence with which it was produced
	// (DefaultRecordBatch.incrementSequence).
	Seq int32
}

// SrcEnd is the source offset after the run.
func (r Run) SrcEnd() int64 { return r.Src + r.Count }

// DstEnd is the target offset after the run.
func (r Run) DstEnd() int64 { return r.Dst + r.Count }

// SeqEnd is the sequence after the run.
func (r Run) SeqEnd() int32 { return addSeq(r.Seq, r.Count) }

// addSeq counts modulo 2^31; n may be negative.
func addSeq(seq int32, n int64) int32 { return int32((int64(seq) + n) & math.MaxInt32) }

// continues tells whether next is of one piece with r.
func (r Run) continues(next Run) bool {
	return r.SrcEnd() == next.Src && r.DstEnd() == next.Dst && r.SeqEnd() == next.Seq
}

// from returns the run without its first n records.
func (r Run) from(n int64) Run {
	return Run{Src: r.Src + n, Dst: r.Dst + n, Count: r.Count - n, Seq: addSeq(r.Seq, n)}
}

func (r Run) check() error {
	switch {
	case r.Count < 1:
		return fmt.Errorf("a run of %d records", r.Count)
	case r.Src < 0 || r.Dst < 0 || r.Seq < 0:
		return fmt.Errorf("a run at source offset %d, target offset %d, sequence %d", r.Src, r.Dst, r.Seq)
	case r.Count > math.MaxInt64-max(r.Src, r.Dst):
		return fmt.Errorf("a run of %d records ends beyond the highest offset", r.Count)
	}
	return nil
}
