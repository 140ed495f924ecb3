package pad

import (
	"fmt"
	"time"

	"klink/fetcher/batch"
)

// Rates are what padding was measured to do on a target.
type Rates struct {
	// OffsetsPerSecond of one partition; 0 is unknown.
	OffsetsPerSecond float64
	// BytesPerOffset of pads as they lie on disk; 0 takes what BytesPerOffset
	// measures for the piece's size.
	BytesPerOffset float64
}

// Cost is what padding a partition takes. Bytes are of one replica.
type Cost struct {
	Offsets, Pieces, Trims int64
	// Written is how many bytes are written, and go between brokers, in all.
	Written int64
	// Peak is how many bytes of pads are on disk at once, at most.
	Peak int64
	// Took is how long it takes until records may be mirrored. Known is false where
	// the rate is not known.
	Took  time.Duration
	Known bool
	// Settle is how much later the partition may be ACTIVE.
	Settle time.Duration
}

// deletion is how long trimmed segments may stay on disk:
// log.retention.check.interval.ms and file.delete.delay.ms, as in stock brokers.
const deletion = 6 * time.Minute

// Estimate is the cost of padding a number of offsets.
func Estimate(offsets int64, r Rates, set Settings) (Cost, error) {
	set = set.orDefault()
	c := Cost{Offsets: max(0, offsets)}
	if c.Offsets == 0 {
		c.Known = true
		return c, nil
	}
	if r.BytesPerOffset <= 0 {
		var err error
		if r.BytesPerOffset, err = BytesPerOffset(int32(min(c.Offsets, int64(set.PieceOffsets)))); err != nil {
			return c, err
		}
	}
	chunks := (c.Offsets + set.ChunkOffsets - 1) / set.ChunkOffsets
	last := c.Offsets - (chunks-1)*set.ChunkOffsets
	c.Pieces = (chunks-1)*pieces(set.ChunkOffsets, set) + pieces(last, set)
	c.Trims = chunks
	c.Written = int64(float64(c.Offsets) * r.BytesPerOffset)
	c.Settle = set.Checkpoints
	if r.OffsetsPerSecond <= 0 {
		c.Peak = c.Written
		return c, nil
	}
	c.Known = true
	seconds := float64(c.Offsets) / r.OffsetsPerSecond
	c.Took = time.Duration(seconds * float64(time.Second))
	// The chunk that is written to, the one whose trim is under way, and what
	// waits to be deleted.
	onDisk := float64(2*set.ChunkOffsets) + r.OffsetsPerSecond*deletion.Seconds()
	c.Peak = int64(min(float64(c.Offsets), onDisk) * r.BytesPerOffset)
	return c, nil
}

func pieces(offsets int64, set Settings) int64 {
	return (offsets + int64(set.PieceOffsets) - 1) / int64(set.PieceOffsets)
}

// BytesPerOffset is what pads take on disk in batches of this many: 0.8 by the
// codec that padding uses for large ones, and more for a few.
func BytesPerOffset(piece int32) (float64, error) {
	b, err := batch.Pad(piece, batch.DefaultPadOptions())
	if err != nil {
		return 0, fmt.Errorf("measure a batch of %d pads: %w", piece, err)
	}
	return float64(len(b)) / float64(piece), nil
}
