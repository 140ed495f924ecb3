package strict

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var today = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// recipe is a sound batch, for tests to spoil.
type recipe struct {
	records []kmsg.Record
	batch   kmsg.RecordBatch
	codec   kgo.CompressionCodec
}

func sound(count int) *recipe {
	r := &recipe{codec: kgo.NoCompression()}
	for i := range count {
		r.records = append(r.records, kmsg.Record{
			TimestampDelta64: int64(i) * 1000, OffsetDelta: int32(i), Key: []byte("k"), Value: []byte("value"),
			Headers: []kmsg.Header{{Key: "h", Value: nil}},
		})
	}
	r.batch = kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: int32(count - 1), NumRecords: int32(count), PartitionLeaderEpoch: -1,
		FirstTimestamp: today.UnixMilli() - 3_600_000, MaxTimestamp: today.UnixMilli() - 3_600_000 + int64(count-1)*1000,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	return r
}

// bytes encodes the recipe with right lengths and CRC.
func (r *recipe) bytes(t *testing.T) []byte {
	t.Helper()
	var plain []byte
	for _, rec := range r.records {
		rec.Length = int32(len(rec.AppendTo(nil)) - 1) // the length is below 64: one byte
		plain = rec.AppendTo(plain)
	}
	compressor, err := kgo.DefaultCompressor(r.codec)
	if err != nil {
		t.Fatal(err)
	}
	b := r.batch
	b.Records = plain
	if compressor != nil {
		packed, codec := compressor.Compress(new(bytes.Buffer), plain)
		b.Records = packed
		b.Attributes |= int16(codec)
	}
	return seal(b.AppendTo(nil))
}

// seal makes length and CRC right.
func seal(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

func TestSoundBatchesPass(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		for _, count := range []int{1, 2, 1000} {
			r := sound(count)
			r.codec = codec
			if v := Check(r.bytes(t), Topic{Now: today, ProduceVersion: 9, Compacted: true, AfterMax: time.Hour}); v != nil {
				t.Errorf("%s, %d records: %v", name, count, v)
			}
		}
	}
}

func TestEachRuleIsKept(t *testing.T) {
	open := Topic{Now: today, ProduceVersion: 9}
	for _, c := range []struct {
		name  string
		rule  Rule
		topic Topic
		spoil func(*recipe)
		bytes func([]byte) []byte
	}{
		{name: "no batch", rule: OneBatch, bytes: func([]byte) []byte { return nil }},
		{name: "two batches", rule: OneBatch, bytes: func(b []byte) []byte { return append(b, b...) }},
		{name: "trailing byte", rule: OneBatch, bytes: func(b []byte) []byte { return append(b, 0) }},
		{name: "old magic", rule: Magic2, bytes: func(b []byte) []byte { b[16] = 1; return b }},
		{name: "cut header", rule: Whole, bytes: func(b []byte) []byte { return b[:40] }},
		{name: "cut records", rule: Whole, bytes: func(b []byte) []byte { return b[:len(b)-1] }},
		{name: "negative length", rule: Whole, bytes: func(b []byte) []byte { b[8] = 0x80; return b }},
		{name: "base offset", rule: BaseZero, spoil: func(r *recipe) { r.batch.FirstOffset = 7 }},
		{name: "flipped bit", rule: Checksum, bytes: func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
		{name: "too large", rule: Size, topic: Topic{MaxBytes: 80}},
		{name: "larger than a segment", rule: SegmentSize, topic: Topic{SegmentBytes: 80}},
		{name: "no records", rule: Count, spoil: func(r *recipe) { r.batch.NumRecords, r.batch.LastOffsetDelta = 0, -1 }},
		{name: "holes", rule: Contiguous, spoil: func(r *recipe) { r.batch.LastOffsetDelta = 9 }},
		{name: "claimed records", rule: Records, spoil: func(r *recipe) {
			r.batch.NumRecords, r.batch.LastOffsetDelta, r.records = 1000, 999, nil
		}},
		{name: "more records than claimed", rule: Records, spoil: func(r *recipe) { r.records = append(r.records, r.records[0]) }},
		{name: "garbage as zstd", rule: Records, spoil: func(r *recipe) { r.batch.Attributes = 4 }},
		{name: "offset deltas", rule: InnerOffsets, spoil: func(r *recipe) { r.records[1].OffsetDelta = 0 }},
		{name: "codec 5", rule: Codec, spoil: func(r *recipe) { r.batch.Attributes = 5 }},
		{name: "zstd too early", rule: Codec, topic: Topic{ProduceVersion: 6}, spoil: func(r *recipe) { r.codec = kgo.ZstdCompression() }},
		{name: "control", rule: NoControl, spoil: func(r *recipe) { r.batch.Attributes = 0x20 }},
		{name: "transactional", rule: NoTransaction, spoil: func(r *recipe) { r.batch.Attributes = 0x10 }},
		{name: "append time", rule: NoAppendTime, spoil: func(r *recipe) { r.batch.Attributes = 0x08 }},
		{name: "horizon", rule: NoHorizon, spoil: func(r *recipe) { r.batch.Attributes = 0x40 }},
		{name: "id without sequence", rule: Sequence, spoil: func(r *recipe) { r.batch.ProducerID, r.batch.ProducerEpoch = 5, 0 }},
		{name: "id without epoch", rule: Sequence, spoil: func(r *recipe) { r.batch.ProducerID, r.batch.FirstSequence = 5, 0 }},
		{name: "negative id without sequence", rule: Sequence, spoil: func(r *recipe) { r.batch.ProducerID, r.batch.ProducerEpoch = -2, 0 }},
		{name: "transactional without id", rule: Sequence, topic: Topic{Transactional: true}, spoil: func(r *recipe) { r.batch.Attributes = 0x10 }},
		{name: "max timestamp", rule: MaxTimestamp, spoil: func(r *recipe) { r.batch.MaxTimestamp++ }},
		{name: "null key", rule: KeyNeeded, topic: Topic{Compacted: true}, spoil: func(r *recipe) { r.records[1].Key = nil }},
		{name: "tomorrow", rule: TimestampRange, topic: Topic{AfterMax: time.Hour}, spoil: func(r *recipe) {
			r.batch.FirstTimestamp += 24 * 3_600_000
			r.batch.MaxTimestamp += 24 * 3_600_000
		}},
		{name: "too old", rule: TimestampRange, topic: Topic{BeforeMax: time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sound(3)
			if c.spoil != nil {
				c.spoil(r)
			}
			raw := r.bytes(t)
			if c.bytes != nil {
				raw = c.bytes(raw)
			}
			topic := c.topic
			topic.Now = today
			if topic.ProduceVersion == 0 {
				topic.ProduceVersion = open.ProduceVersion
			}
			v := Check(raw, topic)
			if v == nil || v.Rule != c.rule {
				t.Fatalf("got %v, want a breach of %q", v, c.rule)
			}
		})
	}
}

func TestEmptyKeysAndRecordsWithoutTimestampPass(t *testing.T) {
	r := sound(1)
	r.records[0].Key = []byte{}
	r.batch.FirstTimestamp, r.batch.MaxTimestamp = -1, -1
	if v := Check(r.bytes(t), Topic{Now: today, Compacted: true, BeforeMax: time.Minute}); v != nil {
		t.Error(v)
	}
}

func FuzzCheckNeverPanics(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, 61))
	f.Fuzz(func(t *testing.T, raw []byte) {
		Check(raw, Topic{Now: today, ProduceVersion: 9})
		if len(raw) >= headerBytes {
			Check(seal(raw), Topic{Now: today, ProduceVersion: 9, Compacted: true})
		}
	})
}
