package takeover

import (
	"context"
	"crypto/sha256"
)

// Unknown stands for an offset that is not known.
const Unknown = int64(-1)

// Sync says that the record at source offset Up lies at target offset Down.
type Sync struct{ Up, Down int64 }

// Bounds are those of a log; End is exclusive.
type Bounds struct{ Start, End int64 }

func (b Bounds) holds(offset int64) bool { return b.Start <= offset && offset < b.End }

// Facts are what is on record of a partition, and the bounds of its logs.
type Facts struct {
	// Connect is the source offset of the last record that MirrorMaker 2 committed as
	// copied, Unknown where it has none on record.
	Connect int64
	// Syncs are those of the partition, in the order of their topic.
	Syncs []Sync
	// Src and Dst are the logs, up to their high watermarks.
	Src, Dst Bounds
	// Cleaned: a cleaner may have removed records from the target's log.
	Cleaned bool
	// Oldest is the lowest source offset that the map should tell of, Unknown for
	// none.
	Oldest int64
	// Depth is how far below the target's end the map may begin, in offsets.
	Depth int64
}

// Record is one record of a log.
type Record struct {
	Offset int64
	// Sum is equal for equal records, whatever their offsets.
	Sum Sum
	// Aborted: it belongs to an aborted transaction. MirrorMaker 2 copies such records
	// unless its consumer is set to read_committed.
	Aborted bool
}

// Sum is a digest of a record without its offset.
type Sum [sha256.Size]byte

// Log reads a partition.
type Log interface {
	// Begin makes the record at or above an offset the next one.
	Begin(offset int64)
	// Next returns records in order, those that a reader sees: no markers. ok is false
	// at the end of the log as it was when its bounds were read.
	Next(ctx context.Context) (r Record, ok bool, err error)
}
