package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// HeaderLen is the size in bytes of a v2 batch header, up to the first record.
const HeaderLen = 61

// Positions of the header's fields (KIP-98). Everything from attributesAt on
// lies under the CRC; base offset, length, leader epoch and magic do not.
const (
	baseOffsetAt      = 0
	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21
	lastOffsetDeltaAt = 23
	firstTimestampAt  = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	countAt           = 57
)

const (
	// entryOverhead is what Length does not count: base offset and Length itself.
	entryOverhead = 12
	minV2Length   = HeaderLen - entryOverhead
	currentMagic  = int8(2)
)

// maxBaseOffset leaves room for the offset after a batch.
const maxBaseOffset = math.MaxInt64 - 1 - math.MaxInt32

// Attribute bits of a v2 batch (KIP-98, KIP-32; delete horizon: KIP-534).
const (
	codecMask        = 0x07
	logAppendTimeBit = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
)

// What stands for nothing in a batch that no broker has stored yet.
const (
	noTimestamp     = int64(-1)
	noProducerID    = int64(-1)
	noProducerEpoch = int16(-1)
	noSequence      = int32(-1)
	noLeaderEpoch   = int32(-1)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the header of a v2 record batch, field by field.
type Header struct {
	// BaseOffset is the offset that the records' offset deltas count from.
	BaseOffset int64
	// Length counts the bytes after this field.
	Length      int32
	LeaderEpoch int32
	Magic       int8
	// CRC is the CRC32C of all bytes from Attributes to the end.
	CRC        uint32
	Attributes int16
	// LastOffsetDelta leads from BaseOffset to the last offset, which
	// compaction keeps even where it removes that record.
	LastOffsetDelta int32
	// FirstTimestamp in milliseconds is what the records' timestamp deltas
	// count from; with HasDeleteHorizon it is the horizon instead (the deltas
	// are then relative to the horizon).
	FirstTimestamp int64
	// MaxTimestamp in milliseconds; with LogAppendTime it is every record's
	// timestamp.
	MaxTimestamp  int64
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	// Count is the number of records; 0 for a batch that compaction emptied.
	Count int32
}

// ParseHeader returns the header of b, which must be one whole v2 batch as
// Split returns it. Message sets of magic 0 and 1 give ErrOldFormat, everything
// else that does not hold together ErrMalformed. The CRC is not checked.
func ParseHeader(b []byte) (h Header, err error) {
	err = h.Parse(b)
	return h, err
}

// Parse is ParseHeader into h, for those who read many: to hand a header on by
// value costs more than to parse it. With an error h is empty.
func (h *Header) Parse(b []byte) error {
	if len(b) < HeaderLen {
		*h = Header{}
		if m := Magic(b); m == 0 || m == 1 {
			return ErrOldFormat
		}
		return malformed("%d bytes, a header has %d", len(b), HeaderLen)
	}
	be := binary.BigEndian
	h.BaseOffset = int64(be.Uint64(b[baseOffsetAt:]))
	h.Length = int32(be.Uint32(b[lengthAt:]))
	h.LeaderEpoch = int32(be.Uint32(b[leaderEpochAt:]))
	h.Magic = int8(b[magicAt])
	h.CRC = be.Uint32(b[crcAt:])
	h.Attributes = int16(be.Uint16(b[attributesAt:]))
	h.LastOffsetDelta = int32(be.Uint32(b[lastOffsetDeltaAt:]))
	h.FirstTimestamp = int64(be.Uint64(b[firstTimestampAt:]))
	h.MaxTimestamp = int64(be.Uint64(b[maxTimestampAt:]))
	h.ProducerID = int64(be.Uint64(b[producerIDAt:]))
	h.ProducerEpoch = int16(be.Uint16(b[producerEpochAt:]))
	h.BaseSequence = int32(be.Uint32(b[baseSequenceAt:]))
	h.Count = int32(be.Uint32(b[countAt:]))
	err := h.check(len(b))
	if err != nil {
		*h = Header{}
	}
	return err
}

// check tells whether h can be the header of an entry of so many bytes.
func (h *Header) check(size int) error {
	switch {
	case h.Magic == 0 || h.Magic == 1:
		return ErrOldFormat
	case h.Magic != currentMagic:
		return malformed("magic %d", h.Magic)
	case int64(h.Length)+entryOverhead != int64(size):
		return malformed("length %d in an entry of %d bytes", h.Length, size)
	case h.BaseOffset < 0 || h.BaseOffset > maxBaseOffset:
		return malformed("base offset %d", h.BaseOffset)
	case h.LastOffsetDelta < 0:
		return malformed("last offset delta %d", h.LastOffsetDelta)
	case h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return malformed("%d records up to offset delta %d", h.Count, h.LastOffsetDelta)
	}
	return nil
}

// put writes h to the first HeaderLen bytes of b, the CRC as it stands in h.
func (h *Header) put(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b[baseOffsetAt:], uint64(h.BaseOffset))
	be.PutUint32(b[lengthAt:], uint32(h.Length))
	be.PutUint32(b[leaderEpochAt:], uint32(h.LeaderEpoch))
	b[magicAt] = byte(h.Magic)
	be.PutUint32(b[crcAt:], h.CRC)
	be.PutUint16(b[attributesAt:], uint16(h.Attributes))
	be.PutUint32(b[lastOffsetDeltaAt:], uint32(h.LastOffsetDelta))
	be.PutUint64(b[firstTimestampAt:], uint64(h.FirstTimestamp))
	be.PutUint64(b[maxTimestampAt:], uint64(h.MaxTimestamp))
	be.PutUint64(b[producerIDAt:], uint64(h.ProducerID))
	be.PutUint16(b[producerEpochAt:], uint16(h.ProducerEpoch))
	be.PutUint32(b[baseSequenceAt:], uint32(h.BaseSequence))
	be.PutUint32(b[countAt:], uint32(h.Count))
}

// LastOffset returns the last offset the batch stands for (inclusive).
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset returns the offset that follows the batch.
func (h *Header) NextOffset() int64 { return h.LastOffset() + 1 }

// Codec returns how the records are compressed.
func (h *Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

// IsTransactional reports whether the batch was written in a transaction.
func (h *Header) IsTransactional() bool { return h.Attributes&transactionalBit != 0 }

// IsControl reports whether the batch holds control records (transaction
// markers and the like), which no consumer sees.
func (h *Header) IsControl() bool { return h.Attributes&controlBit != 0 }

// HasDeleteHorizon reports whether the log cleaner stamped the batch with the
// time at which its tombstones go (KIP-534).
func (h *Header) HasDeleteHorizon() bool { return h.Attributes&deleteHorizonBit != 0 }

// LogAppendTime reports whether every record has MaxTimestamp, the broker's
// clock, for its timestamp.
func (h *Header) LogAppendTime() bool { return h.Attributes&logAppendTimeBit != 0 }

// HasHoles reports whether compaction removed records from the batch: a broker
// refuses such a batch from a client. An emptied batch has holes.
func (h *Header) HasHoles() bool { return h.Count != h.LastOffsetDelta+1 }

// CheckCRC reports with ErrCRC whether the bytes of the v2 batch b differ from
// those its producer or broker made the checksum for.
func CheckCRC(b []byte) error {
	var h Header
	if err := h.Parse(b); err != nil {
		return err
	}
	return checkCRC(&h, b)
}

func checkCRC(h *Header, b []byte) error {
	if got := crc32.Checksum(b[attributesAt:], castagnoli); got != h.CRC {
		return fmt.Errorf("%w: batch at offset %d says %08x, its bytes say %08x", ErrCRC, h.BaseOffset, h.CRC, got)
	}
	return nil
}
