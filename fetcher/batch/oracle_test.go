package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// The oracle decodes and encodes batches record by record, with the structs of
// kmsg and the codecs of kgo and nothing of this package but its types.

func oracleDecode(b []byte) ([]Record, error) {
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(b); err != nil {
		return nil, err
	}
	if crc := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)); crc != uint32(rb.CRC) {
		return nil, errors.New("oracle: crc")
	}
	body, err := oracleDecompressor.Decompress(rb.Records, kgo.CompressionCodecType(rb.Attributes&7))
	if err != nil {
		return nil, err
	}
	var records []Record
	for len(body) > 0 {
		length, n := binary.Varint(body)
		if n <= 0 || length < 0 || int(length) > len(body)-n {
			return nil, errors.New("oracle: record length")
		}
		var kr kmsg.Record
		if err := kr.ReadFrom(body[:n+int(length)]); err != nil {
			return nil, err
		}
		body = body[n+int(length):]
		r := Record{
			Offset:    rb.FirstOffset + int64(kr.OffsetDelta),
			Timestamp: rb.FirstTimestamp + kr.TimestampDelta64,
			Key:       kr.Key, Value: kr.Value,
		}
		if rb.Attributes&8 != 0 {
			r.Timestamp = rb.MaxTimestamp
		}
		for _, h := range kr.Headers {
			r.Headers = append(r.Headers, RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		records = append(records, r)
	}
	if len(records) != int(rb.NumRecords) {
		return nil, fmt.Errorf("oracle: %d records of %d", len(records), rb.NumRecords)
	}
	return records, nil
}

var oracleDecompressor = kgo.DefaultDecompressor()

var oracleCompressors = map[Codec]kgo.Compressor{
	CodecGzip: newOracleCompressor(kgo.GzipCompression()), CodecSnappy: newOracleCompressor(kgo.SnappyCompression()),
	CodecLZ4: newOracleCompressor(kgo.Lz4Compression()), CodecZstd: newOracleCompressor(kgo.ZstdCompression()),
}

func newOracleCompressor(codec kgo.CompressionCodec) kgo.Compressor {
	c, err := kgo.DefaultCompressor(codec)
	if err != nil {
		panic(err)
	}
	return c
}

// batchShape says what the oracle's batch looks like beside its records.
type batchShape struct {
	codec      Codec
	attributes int16 // beside the codec
	lastDelta  int32 // 0: that of the last record
	horizon    int64 // written as the first timestamp, with the horizon bit
	maxTime    int64 // with LogAppendTime
	identity   Identity
	sequence   int32
	epoch      int32
}

// oracleEncode returns records, which need not be contiguous, as one batch
// whose base offset is that of the first.
func oracleEncode(tb rapid.TB, records []Record, s batchShape) []byte {
	tb.Helper()
	rb := kmsg.RecordBatch{
		PartitionLeaderEpoch: s.epoch, Magic: 2, Attributes: s.attributes | int16(s.codec), MaxTimestamp: -1,
		ProducerID: s.identity.ProducerID, ProducerEpoch: s.identity.ProducerEpoch, FirstSequence: s.sequence,
		NumRecords: int32(len(records)), LastOffsetDelta: s.lastDelta,
	}
	if len(records) > 0 {
		rb.FirstOffset, rb.FirstTimestamp = records[0].Offset, records[0].Timestamp
		if s.lastDelta == 0 {
			rb.LastOffsetDelta = int32(records[len(records)-1].Offset - rb.FirstOffset)
		}
	}
	if s.attributes&deleteHorizonBit != 0 {
		rb.FirstTimestamp = s.horizon
	}
	var body []byte
	for _, r := range records {
		rb.MaxTimestamp = max(rb.MaxTimestamp, r.Timestamp)
		kr := kmsg.Record{TimestampDelta64: r.Timestamp - rb.FirstTimestamp, OffsetDelta: int32(r.Offset - rb.FirstOffset), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			kr.Headers = append(kr.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
		}
		with := kr.AppendTo(nil) // its length field is still zero, one byte
		kr.Length = int32(len(with) - 1)
		body = kr.AppendTo(body)
	}
	if s.attributes&logAppendTimeBit != 0 {
		rb.MaxTimestamp = s.maxTime
	}
	rb.Records = kgoCompress(tb, s.codec, body)
	rb.Length = int32(minV2Length + len(rb.Records))
	b := rb.AppendTo(nil)
	resealCRC(b)
	return b
}

func kgoCompress(tb rapid.TB, codec Codec, body []byte) []byte {
	tb.Helper()
	if codec == CodecNone {
		return body
	}
	out, got := oracleCompressors[codec].Compress(new(bytes.Buffer), body)
	if Codec(got) != codec {
		tb.Fatalf("compressed with codec %d, wanted %d", got, codec)
	}
	return append([]byte(nil), out...)
}

// resealCRC gives b the CRC that its bytes have.
func resealCRC(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// collect reads a sequence to its end or first error, copying the records.
func collect(seq iter.Seq2[Record, error]) ([]Record, error) {
	var records []Record
	for r, err := range seq {
		if err != nil {
			return records, err
		}
		records = append(records, r.Clone())
	}
	return records, nil
}

func mustCollect(tb rapid.TB, b []byte) []Record {
	tb.Helper()
	records, err := collect(Records(b, Limits{}))
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

// wantRecords compares records, null told apart from empty.
func wantRecords(tb rapid.TB, got, want []Record) {
	tb.Helper()
	if reflect.DeepEqual(got, want) { // cmp is slow on bytes, and good at telling
		return
	}
	tb.Fatalf("records differ (-want +got):\n%s", cmp.Diff(want, got))
}

// each turns records into a sequence.
func each(records []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}
