package batch

import (
	"errors"
	"fmt"
)

// The errors callers tell apart with errors.Is.
var (
	// ErrMalformed: lengths, counts or varints do not hold together.
	ErrMalformed = errors.New("malformed batch")
	// ErrCRC: the payload is not the one the checksum was made for.
	ErrCRC = errors.New("batch checksum mismatch")
	// ErrOldFormat: a message set of magic 0 or 1 where a v2 batch is needed.
	// Records and Recode take both.
	ErrOldFormat = errors.New("message set of magic 0 or 1")
	// ErrCodec: a compression codec this package does not know.
	ErrCodec = errors.New("unknown compression codec")
	// ErrLimit: decompression was stopped at Limits.MaxUncompressedBytes.
	ErrLimit = errors.New("batch uncompresses beyond the limit")
	// ErrControl: a control batch where a data batch is needed.
	ErrControl = errors.New("control batch")
	// ErrNotMarker: a batch of anything but a transaction's end where a
	// transaction marker is needed.
	ErrNotMarker = errors.New("not a transaction marker")
	// ErrNotContiguous: records given to Encode skip or repeat an offset.
	ErrNotContiguous = errors.New("records are not contiguous")
	// ErrRecordTooLarge is what a RecordTooLargeError is.
	ErrRecordTooLarge = errors.New("record too large")
	// ErrNotMergeable is what a NotMergeableError is.
	ErrNotMergeable = errors.New("batches cannot be merged")
)

// RecordTooLargeError tells of a record that does not fit a batch of its own.
type RecordTooLargeError struct {
	// Offset of the record on the source.
	Offset int64
	// Bytes is the size of the batch that holds this record alone, as encoded
	// (header and compression included).
	Bytes int
	// MaxBytes is the limit it exceeds.
	MaxBytes int
}

// Error names the record, its size and the limit.
func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("record at offset %d needs a batch of %d bytes, above the limit of %d", e.Offset, e.Bytes, e.MaxBytes)
}

// Is makes errors.Is(err, ErrRecordTooLarge) true.
func (e *RecordTooLargeError) Is(target error) bool { return target == ErrRecordTooLarge }

// Obstacle is the reason why a batch cannot be merged with its neighbours.
type Obstacle int

// The obstacles to a merge.
const (
	// TooFew: fewer than two batches were given.
	TooFew Obstacle = iota + 1
	// Old: a message set of magic 0 or 1.
	Old
	// Control: a control batch.
	Control
	// Empty: a batch without records, as compaction leaves them (KIP-98 header only).
	Empty
	// Holes: offsets missing inside the batch.
	Holes
	// Gap: the batch does not begin where its predecessor ends.
	Gap
	// NoRoom: the first two batches together exceed MaxBytes or the limits.
	NoRoom
)

var obstacleNames = map[Obstacle]string{
	TooFew: "fewer than two batches", Old: "old format", Control: "control batch", Empty: "no records",
	Holes: "holes inside", Gap: "not the neighbour of its predecessor", NoRoom: "together above the limit",
}

// String returns the obstacle in words.
func (o Obstacle) String() string {
	if s, ok := obstacleNames[o]; ok {
		return s
	}
	return fmt.Sprintf("obstacle %d", int(o))
}

// NotMergeableError tells which batch stands in the way of a merge, and why.
type NotMergeableError struct {
	// Index of the batch among those given.
	Index int
	// Base is its base offset, -1 where it has none.
	Base     int64
	Obstacle Obstacle
}

// Error names the batch and the obstacle.
func (e *NotMergeableError) Error() string {
	return fmt.Sprintf("batch %d (base offset %d) cannot be merged: %s", e.Index, e.Base, e.Obstacle)
}

// Is makes errors.Is(err, ErrNotMergeable) true.
func (e *NotMergeableError) Is(target error) bool { return target == ErrNotMergeable }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// batchError adds to err the batch it is about.
func batchError(h *Header, err error) error {
	return fmt.Errorf("batch at offset %d (%s): %w", h.BaseOffset, h.Codec(), err)
}

// What is wrong inside a record; always wrapped with its place.
var (
	errVarint        = errors.New("truncated or overflowing varint")
	errLength        = errors.New("length out of bounds")
	errTrailing      = errors.New("bytes after the last header")
	errNullHeaderKey = errors.New("null header key")
)
