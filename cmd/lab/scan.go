package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Batch is a batch as it lies in a log, or one message of the formats before
// batches (magic 0 and 1). It is read from the header alone, except for what a
// marker says.
type Batch struct {
	Magic        int8
	Base, Last   int64 // of a compressed old message both are its last inner offset
	Count        int32 // records that are there; -1 for a compressed old message
	Codec        int8  // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
	AppendTime   bool
	Horizon      bool // the base timestamp is when the cleaner may drop tombstones (KIP-534)
	ProducerID   int64
	Transaction  bool
	Control      bool
	Commit       bool // of a marker that still has its record
	MaxTimestamp int64
	Bytes        int
}

// Width is how many offsets the batch covers.
func (b Batch) Width() int64 { return b.Last - b.Base + 1 }

// Holes says whether records were taken out of the batch, but not all.
func (b Batch) Holes() bool { return b.Count > 0 && int64(b.Count) < b.Width() }

// Scan reads what a partition's leader stores from the log's start to its high
// watermark by raw Fetch: nothing is filtered, and nothing is decompressed.
func Scan(ctx context.Context, c Cluster, p Partition) ([]Batch, Bounds, error) {
	all, err := ReadBounds(ctx, c, ReadUncommitted, p.Topic)
	if err != nil {
		return nil, Bounds{}, err
	}
	bounds, ok := all[p]
	if !ok {
		return nil, Bounds{}, fmt.Errorf("scan %s: no such partition", p)
	}
	client, err := adminClient(c)
	if err != nil {
		return nil, bounds, err
	}
	defer client.Close()
	tick := time.NewTicker(servePoll)
	defer tick.Stop()
	var batches []Batch
	for next := bounds.Start; next < bounds.End; {
		answer, err := fetchRaw(ctx, client, p, ReadUncommitted, next)
		if err == nil && answer.ErrorCode != 0 && !kerr.IsRetriable(kerr.ErrorForCode(answer.ErrorCode)) {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		var part []Batch
		if err == nil {
			part, err = parseBatches(answer.RecordBatches)
		}
		if err != nil {
			return batches, bounds, fmt.Errorf("scan %s at offset %d: %w", p, next, err)
		}
		if len(part) > 0 {
			batches, next = append(batches, part...), part[len(part)-1].Last+1
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			last := kerr.ErrorForCode(answer.ErrorCode)
			return batches, bounds, fmt.Errorf("scan %s at offset %d of %d: %w (last answer: %w)", p, next, bounds.End, ctx.Err(), last)
		}
	}
	return batches, bounds, nil
}

// Sizes of what precedes the content in both kinds of log entries.
const (
	entryBytes = 12 // base offset and length
	oldBytes   = 18 // of an old message, up to its attributes
)

// parseBatches reads the headers of a fetched piece of log, whose last entry may
// be cut short.
func parseBatches(raw []byte) ([]Batch, error) {
	var batches []Batch
	for len(raw) >= oldBytes {
		size := int64(binary.BigEndian.Uint32(raw[8:])) + entryBytes
		if size > int64(len(raw)) {
			break
		}
		b, err := parseEntry(raw[:size])
		if err != nil {
			return batches, err
		}
		batches, raw = append(batches, b), raw[size:]
	}
	return batches, nil
}

func parseEntry(raw []byte) (Batch, error) {
	b := Batch{Magic: int8(raw[16]), Base: int64(binary.BigEndian.Uint64(raw)), Bytes: len(raw), ProducerID: -1, MaxTimestamp: -1}
	switch {
	case b.Magic == 0 || b.Magic == 1:
		b.Last, b.Count, b.Codec = b.Base, 1, int8(raw[17]&7)
		b.AppendTime = raw[17]&8 != 0
		if b.Codec != 0 {
			b.Count = -1
		}
		if b.Magic == 1 && len(raw) >= oldBytes+8 {
			b.MaxTimestamp = int64(binary.BigEndian.Uint64(raw[oldBytes:]))
		}
		return b, nil
	case b.Magic != 2:
		return b, fmt.Errorf("a batch of magic %d at offset %d", b.Magic, b.Base)
	case len(raw) < batchBytes:
		return b, errors.New("a batch shorter than its header")
	}
	attributes := binary.BigEndian.Uint16(raw[21:])
	b.Last = b.Base + int64(int32(binary.BigEndian.Uint32(raw[23:])))
	b.MaxTimestamp = int64(binary.BigEndian.Uint64(raw[35:]))
	b.ProducerID = int64(binary.BigEndian.Uint64(raw[43:]))
	b.Count = int32(binary.BigEndian.Uint32(raw[57:]))
	b.Codec, b.AppendTime = int8(attributes&7), attributes&8 != 0
	b.Transaction, b.Control, b.Horizon = attributes&16 != 0, attributes&32 != 0, attributes&64 != 0
	b.Commit = b.Control && b.Count > 0 && markerType(raw[batchBytes:]) == 1
	return b, nil
}

// markerType reads a control record's key (version, type): 0 aborts, 1 commits;
// -1 is unreadable.
func markerType(record []byte) int {
	_, n := binary.Varint(record) // length
	at := n + 1                   // attributes
	for range 3 {                 // timestamp delta, offset delta, key length
		if n <= 0 || at >= len(record) {
			return -1
		}
		_, n = binary.Varint(record[at:])
		at += n
	}
	if n <= 0 || at+4 > len(record) {
		return -1
	}
	return int(binary.BigEndian.Uint16(record[at+2:]))
}
