package comparator

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/batch"
)

// transactional makes a batch of count records at base that belongs to a
// transaction of a producer; a count of 0 makes its marker.
func transactional(t testing.TB, base, producer, count int64, commit bool) []byte {
	t.Helper()
	if count == 0 {
		b := marker(t, base, commit)
		stamp(b, 1<<4|1<<5, producer)
		return b
	}
	made, err := batch.Encode(sequence(numbered(base, base+count)), batch.RecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := rebased(made[0].Bytes, base)
	stamp(b, 1<<4, producer)
	return b
}

// stamp sets a batch's attributes and producer id, and the checksum to match.
func stamp(b []byte, attributes uint16, producer int64) {
	const crcAt, attributesAt, producerAt = 17, 21, 43
	be := binary.BigEndian
	be.PutUint16(b[attributesAt:], attributes)
	be.PutUint64(b[producerAt:], uint64(producer))
	be.PutUint32(b[crcAt:], crc32.Checksum(b[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
}

// marker makes the control batch of a transaction's end (KIP-98).
func marker(t testing.TB, base int64, commit bool) []byte {
	t.Helper()
	kind := byte(0)
	if commit {
		kind = 1
	}
	one := func(yield func(batch.Record, error) bool) {
		yield(batch.Record{Offset: base, Timestamp: 1, Key: []byte{0, 0, 0, kind}, Value: []byte{0, 0, 0, 0, 0, 7}}, nil)
	}
	made, err := batch.Encode(one, batch.RecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rebased(made[0].Bytes, base)
}

func TestVisible(t *testing.T) {
	const a, b = 70, 80
	batches := [][]byte{
		transactional(t, 0, a, 2, false),  // aborted below
		transactional(t, 2, b, 3, false),  // committed
		transactional(t, 5, a, 0, false),  // a's ABORT
		transactional(t, 6, a, 1, false),  // a again, committed
		transactional(t, 7, b, 0, true),   // b's COMMIT
		transactional(t, 8, a, 0, true),   // a's COMMIT
		transactional(t, 9, b, 2, false),  // aborted
		transactional(t, 11, b, 0, false), // b's ABORT
	}
	parts, err := Visible(batches, []Aborted{{b, 9}, {a, 0}})
	if err != nil {
		t.Fatal(err)
	}
	var seen []int64
	for _, p := range parts {
		if !p.Hidden {
			seen = append(seen, p.Base)
		}
	}
	if d := cmp.Diff([]int64{2, 6}, seen); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
}

// A producer's fields and the transactional bit are no difference, and nothing
// else of a batch is passed over.
func TestAlike(t *testing.T) {
	base := transactional(t, 10, 5, 4, true)
	if other := transactional(t, 10, 9, 4, true); !alike(base, other) {
		t.Error("another producer makes a difference")
	}
	for name, other := range map[string][]byte{
		"count":   transactional(t, 10, 5, 3, true),
		"payload": flipped(transactional(t, 10, 5, 4, true)),
	} {
		if alike(base, other) {
			t.Errorf("another %s makes no difference", name)
		}
	}
	broken := flipped(transactional(t, 10, 5, 4, true))
	if alike(broken, broken) {
		t.Error("a broken checksum makes no difference")
	}
}

func flipped(b []byte) []byte {
	b[len(b)-2] ^= 1
	return b
}
