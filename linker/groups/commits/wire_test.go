package commits

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
)

// base is the time of the record at offset 0 in made-up logs.
var base = time.UnixMilli(1_700_000_000_000).UTC()

// Attribute bits (KIP-98).
const (
	transactional = 0x10
	control       = 0x20
)

// made is a batch to be made up, of one record.
type made struct {
	at         int64
	producer   int64 // 0: none
	attributes int16
	key, value []byte // value nil: a tombstone
	empty      bool   // as the log cleaner leaves it
}

// bytes encodes it. klink's own encoders clear what matters here.
func (m made) bytes(t testing.TB) []byte {
	t.Helper()
	r := kmsg.Record{Key: m.key, Value: m.value}
	body := r.AppendTo(nil)[1:] // a length of 0, in one byte
	body = append(binary.AppendVarint(nil, int64(len(body))), body...)
	rb := kmsg.RecordBatch{FirstOffset: m.at, Magic: 2, PartitionLeaderEpoch: 3, Attributes: m.attributes,
		FirstTimestamp: base.UnixMilli() + m.at, MaxTimestamp: base.UnixMilli() + m.at,
		ProducerID: m.producer, ProducerEpoch: 1, FirstSequence: 0, NumRecords: 1, Records: body}
	if m.producer == 0 {
		rb.ProducerID, rb.ProducerEpoch, rb.FirstSequence = -1, -1, -1
	}
	if m.empty {
		rb.NumRecords, rb.Records = 0, nil
	}
	rb.Length = int32(49 + len(rb.Records))
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	if err := batch.CheckCRC(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// oldBytes encodes a message of format v1, as brokers before 0.11 wrote them.
func (m made) oldBytes() []byte {
	body := []byte{1, 0} // magic, attributes
	body = binary.BigEndian.AppendUint64(body, uint64(base.UnixMilli()+m.at))
	for _, field := range [][]byte{m.key, m.value} {
		body = binary.BigEndian.AppendUint32(body, uint32(len(field)))
		body = append(body, field...)
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(m.at))
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}

func offsetKeyBytes(k key) []byte {
	v := kmsg.OffsetCommitKey{Version: 1, Group: k.group, Topic: k.topic, Partition: k.partition}
	return v.AppendTo(nil)
}

func offsetValueBytes(version int16, offset int64, metadata string) []byte {
	v := kmsg.OffsetCommitValue{Version: version, Offset: offset, LeaderEpoch: 7, Metadata: metadata,
		CommitTimestamp: 1, ExpireTimestamp: 2}
	return v.AppendTo(nil)
}

func markerKey(committed bool) []byte {
	if committed {
		return []byte{0, 0, 0, 1}
	}
	return []byte{0, 0, 0, 0}
}

var markerValue = []byte{0, 0, 0, 0, 0, 9}
