package strict

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topic is what the rules depend on beside the batch.
type Topic struct {
	MaxBytes       int           // max.message.bytes; 0 is unlimited
	SegmentBytes   int           // segment.bytes; 0 is unlimited
	Compacted      bool          // cleanup.policy has compact
	BeforeMax      time.Duration // message.timestamp.before.max.ms; 0 is unlimited
	AfterMax       time.Duration // message.timestamp.after.max.ms; 0 is unlimited
	Now            time.Time
	Transactional  bool  // the request has a transactional id
	ProduceVersion int16 // of the request
}

// Bits of a batch's attributes.
const (
	codecMask      = 0x07
	appendTimeBit  = 0x08
	transactionBit = 0x10
	controlBit     = 0x20
	horizonBit     = 0x40
)

// headerBytes is the fixed part of a batch, from the base offset to the count.
const headerBytes = 61

// batch is a header, read field by field.
type batch struct {
	baseOffset                   int64
	length                       int32
	magic                        int8
	crc                          uint32
	attributes                   int16
	lastOffsetDelta              int32
	firstTimestamp, maxTimestamp int64
	producerID                   int64
	producerEpoch                int16
	baseSequence, count          int32
	records                      []byte // as on the wire
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Check judges what a produce request carries for one partition. It returns nil
// or the first rule that is broken.
func Check(raw []byte, t Topic) *Violation {
	b, v := parse(raw)
	if v != nil {
		return v
	}
	for _, rule := range []func(*batch, []byte, Topic) *Violation{checkFrame, checkHeader, checkProducer, checkRecords} {
		if v := rule(b, raw, t); v != nil {
			return v
		}
	}
	return nil
}

// parse splits the header and sees that there is exactly one batch.
func parse(raw []byte) (*batch, *Violation) {
	if len(raw) == 0 {
		return nil, breach(OneBatch, kerr.InvalidRecord, "no batch at all")
	}
	if len(raw) > 16 && raw[16] != 2 {
		return nil, breach(Magic2, kerr.InvalidRecord, "magic %d", int8(raw[16]))
	}
	if len(raw) < headerBytes {
		return nil, breach(Whole, kerr.CorruptMessage, "%d bytes, a header has %d", len(raw), headerBytes)
	}
	u16 := func(at int) uint16 { return binary.BigEndian.Uint16(raw[at:]) }
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(raw[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(raw[at:]) }
	b := &batch{
		baseOffset: int64(u64(0)), length: int32(u32(8)), magic: int8(raw[16]), crc: u32(17),
		attributes: int16(u16(21)), lastOffsetDelta: int32(u32(23)),
		firstTimestamp: int64(u64(27)), maxTimestamp: int64(u64(35)),
		producerID: int64(u64(43)), producerEpoch: int16(u16(51)),
		baseSequence: int32(u32(53)), count: int32(u32(57)),
		records: raw[headerBytes:],
	}
	switch whole := int64(b.length) + 12; {
	case whole < headerBytes || whole > int64(len(raw)):
		return nil, breach(Whole, kerr.CorruptMessage, "length says %d bytes, there are %d", whole, len(raw))
	case whole < int64(len(raw)):
		return nil, breach(OneBatch, kerr.InvalidRecord, "%d bytes follow the first batch of %d", int64(len(raw))-whole, whole)
	}
	return b, nil
}

// checkFrame is what needs no understanding of the header's fields.
func checkFrame(b *batch, raw []byte, t Topic) *Violation {
	if b.baseOffset != 0 {
		return breach(BaseZero, kerr.InvalidRecord, "base offset %d", b.baseOffset)
	}
	if t.MaxBytes > 0 && len(raw) > t.MaxBytes {
		return breach(Size, kerr.MessageTooLarge, "%d bytes, allowed %d", len(raw), t.MaxBytes)
	}
	if t.SegmentBytes > 0 && len(raw) > t.SegmentBytes {
		return breach(SegmentSize, kerr.RecordListTooLarge, "%d bytes, segments have %d", len(raw), t.SegmentBytes)
	}
	if sum := crc32.Checksum(raw[21:], castagnoli); sum != b.crc {
		return breach(Checksum, kerr.CorruptMessage, "header says %08x, content %08x", b.crc, sum)
	}
	return nil
}

func checkHeader(b *batch, _ []byte, t Topic) *Violation {
	switch {
	case b.count <= 0:
		return breach(Count, kerr.InvalidRecord, "count %d", b.count)
	case b.count-1 != b.lastOffsetDelta:
		return breach(Contiguous, kerr.InvalidRecord, "count %d, last offset delta %d", b.count, b.lastOffsetDelta)
	case b.attributes&controlBit != 0:
		return breach(NoControl, kerr.InvalidRecord, "attributes %#x", b.attributes)
	case b.attributes&transactionBit != 0 && !t.Transactional:
		return breach(NoTransaction, kerr.TransactionalIDAuthorizationFailed, "attributes %#x", b.attributes)
	case b.attributes&appendTimeBit != 0:
		return breach(NoAppendTime, kerr.InvalidRecord, "attributes %#x", b.attributes)
	case b.attributes&horizonBit != 0:
		return breach(NoHorizon, kerr.InvalidRecord, "attributes %#x", b.attributes)
	case b.attributes&codecMask > 4:
		return breach(Codec, kerr.UnknownServerError, "codec %d", b.attributes&codecMask)
	case b.attributes&codecMask == 4 && t.ProduceVersion < 7:
		return breach(Codec, kerr.UnsupportedCompressionType, "zstd in a produce request of version %d", t.ProduceVersion)
	}
	return nil
}

// checkProducer refuses headers from which MemoryRecordsBuilder, when the
// cleaner rebuilds the batch, cannot make one.
func checkProducer(b *batch, _ []byte, _ Topic) *Violation {
	id := b.producerID != -1
	if id && (b.baseSequence < 0 || b.producerEpoch < 0) || b.attributes&transactionBit != 0 && b.producerID < 0 {
		return breach(Sequence, kerr.InvalidRecord, "producer id %d, epoch %d, sequence %d, attributes %#x",
			b.producerID, b.producerEpoch, b.baseSequence, b.attributes)
	}
	return nil
}

// checkRecords unpacks the records and walks them.
func checkRecords(b *batch, _ []byte, t Topic) *Violation {
	plain, err := kgo.DefaultDecompressor().Decompress(b.records, kgo.CompressionCodecType(b.attributes&codecMask))
	if err != nil {
		return breach(Records, kerr.InvalidRecord, "decompress: %v", err)
	}
	r := kbin.Reader{Src: plain}
	latest := int64(-1)
	for i := range b.count {
		rec, v := readRecord(&r, i)
		if v != nil {
			return v
		}
		timestamp := b.firstTimestamp + rec.timestampDelta
		if v := checkRecord(rec, timestamp, i, t); v != nil {
			return v
		}
		if i == 0 || timestamp > latest {
			latest = timestamp
		}
	}
	if len(r.Src) > 0 {
		return breach(Records, kerr.InvalidRecord, "%d bytes are left after %d records", len(r.Src), b.count)
	}
	if latest != b.maxTimestamp {
		return breach(MaxTimestamp, kerr.InvalidRecord, "header says %d, the records %d", b.maxTimestamp, latest)
	}
	return nil
}

// record is what the rules look at.
type record struct {
	timestampDelta int64
	offsetDelta    int32
	nullKey        bool
}

// readRecord reads the record at index i and sees that its length is right.
func readRecord(r *kbin.Reader, i int32) (record, *Violation) {
	length := r.Varint()
	body := kbin.Reader{Src: r.Span(int(length))}
	if !r.Ok() || length < 0 {
		return record{}, breach(Records, kerr.InvalidRecord, "record %d: length %d, or the end", i, length)
	}
	body.Int8() // attributes, unused
	rec := record{timestampDelta: body.Varlong(), offsetDelta: body.Varint()}
	rec.nullKey = skipField(&body)
	skipField(&body)
	headers := body.Varint()
	if headers < 0 {
		return record{}, breach(Records, kerr.InvalidRecord, "record %d: %d headers", i, headers)
	}
	for range headers {
		if null := skipField(&body); null {
			return record{}, breach(Records, kerr.InvalidRecord, "record %d: a header without a key", i)
		}
		skipField(&body)
		if !body.Ok() {
			break
		}
	}
	if !body.Ok() || len(body.Src) > 0 {
		return record{}, breach(Records, kerr.InvalidRecord, "record %d: %d bytes do not hold it, or are left over", i, length)
	}
	return rec, nil
}

// skipField passes over a length and that many bytes; -1 is null.
func skipField(r *kbin.Reader) (null bool) {
	n := r.Varint()
	if n == -1 {
		return true
	}
	r.Span(int(n)) // refuses negative lengths
	return false
}

func checkRecord(rec record, timestamp int64, i int32, t Topic) *Violation {
	if rec.offsetDelta != i {
		return breach(InnerOffsets, kerr.UnknownServerError, "record %d has offset delta %d", i, rec.offsetDelta)
	}
	if t.Compacted && rec.nullKey {
		return breach(KeyNeeded, kerr.InvalidRecord, "record %d has a null key", i)
	}
	if timestamp == -1 {
		return nil
	}
	now := t.Now.UnixMilli()
	if t.AfterMax > 0 && timestamp > now+t.AfterMax.Milliseconds() || t.BeforeMax > 0 && timestamp < now-t.BeforeMax.Milliseconds() {
		return breach(TimestampRange, kerr.InvalidTimestamp, "record %d is of %s", i, time.UnixMilli(timestamp).UTC().Format(time.RFC3339))
	}
	return nil
}
