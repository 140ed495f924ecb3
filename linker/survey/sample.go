package survey

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The batches with which facts are tried. They are made by kmsg and kgo, and not
// by package batch: what a broker says of them is then about the broker alone.

// appendBytes is a batch of the size that a mirror under load sends.
const appendBytes = 512 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// plainBatch holds n records with a value each, not compressed.
func plainBatch(n int, at time.Time) []byte {
	return seal(records(n, func(i int) []byte { return fmt.Appendf(nil, "klink probe, record %d", i) }), n, batchKind{at: at})
}

// noiseRecord is the size of a record of a noiseBatch.
const noiseRecord = 1024

// noiseBatch holds about size bytes that no codec makes smaller.
func noiseBatch(size int, at time.Time) []byte {
	noise := rand.NewChaCha8([32]byte{})
	n := size / noiseRecord
	return seal(records(n, func(int) []byte {
		b := make([]byte, noiseRecord)
		noise.Read(b) // never fails
		return b
	}), n, batchKind{at: at})
}

// zstdBatch holds n records without key and value.
func zstdBatch(n int, at time.Time) ([]byte, error) {
	c, err := kgo.DefaultCompressor(kgo.ZstdCompression())
	if err != nil {
		return nil, err
	}
	body, codec := c.Compress(new(bytes.Buffer), records(n, func(int) []byte { return nil }))
	return seal(body, n, batchKind{at: at, attributes: int16(codec)}), nil
}

// appendTimeBit marks a batch whose records all have the broker's time (KIP-32).
const appendTimeBit = 0x08

// stampedBatch claims that a broker stamped its one record, at a later time than
// the record's own.
func stampedBatch(at time.Time) []byte {
	return seal(records(1, func(int) []byte { return []byte("klink probe, stamped") }), 1,
		batchKind{at: at, last: at.Add(time.Minute), attributes: appendTimeBit})
}

func records(n int, value func(i int) []byte) []byte {
	var out []byte
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i), Value: value(i)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
		out = r.AppendTo(out)
	}
	return out
}

type batchKind struct {
	// at is the records' time, last the header's largest one; zero is at.
	at, last   time.Time
	attributes int16
}

// seal puts a header before the records of a batch. The producer's fields are
// set by batch.Patch.
func seal(records []byte, n int, k batchKind) []byte {
	if k.last.IsZero() {
		k.last = k.at
	}
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, Attributes: k.attributes, LastOffsetDelta: int32(n - 1),
		FirstTimestamp: k.at.UnixMilli(), MaxTimestamp: k.last.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(n), Records: records}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}
