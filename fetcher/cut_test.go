package fetcher

import (
	"encoding/binary"
	"errors"
	"testing"

	"klink/fetcher/feed"
)

// at returns the batch placed at a base offset and leader epoch, both of which
// lie outside the CRC.
func at(b []byte, base int64, epoch int32) []byte {
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[12:], uint32(epoch))
	return b
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestCut(t *testing.T) {
	three := func(base int64, epoch int32) []byte { return at(testBatch(3, 20), base, epoch) }
	size := len(three(0, 0))
	oldFormat := make([]byte, 34) // magic 1, no key, no value
	binary.BigEndian.PutUint64(oldFormat, 6)
	binary.BigEndian.PutUint32(oldFormat[8:], 22)
	oldFormat[16] = 1
	binary.BigEndian.PutUint32(oldFormat[26:], 0xffffffff)
	binary.BigEndian.PutUint32(oldFormat[30:], 0xffffffff)
	broken := three(3, 0)
	binary.BigEndian.PutUint32(broken[8:], 5)

	for _, c := range []struct {
		name       string
		records    []byte
		next       int64
		epoch      int32 // CurrentLeaderEpoch
		batches    int
		wantNext   int64
		wantEpoch  int32
		largest    int
		suspicious bool
		err        error
	}{
		{name: "nothing", next: 4, wantNext: 4, wantEpoch: 9},
		{name: "two batches", records: join(three(0, 2), three(3, 3)), epoch: 3, batches: 2, wantNext: 6, wantEpoch: 3, largest: size},
		{name: "begins below", records: three(0, 2), next: 2, epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size},
		{name: "first lies below", records: join(three(0, 2), three(3, 2)), next: 3, epoch: 3, batches: 1, wantNext: 6, wantEpoch: 2, largest: size},
		{name: "gap between batches", records: join(three(0, 2), three(9, 2)), epoch: 3, batches: 2, wantNext: 12, wantEpoch: 2, largest: size},
		{name: "begins above", records: three(7, 2), epoch: 3, batches: 1, wantNext: 10, wantEpoch: 2, largest: size},
		{name: "cut tail (C083)", records: join(three(0, 2), three(3, 2)[:40]), epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size},
		{name: "cut tail without a length", records: join(three(0, 2), three(3, 2)[:9]), epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size},
		{name: "first is cut", records: three(0, 2)[:50], epoch: 3, wantEpoch: 9, largest: size},
		{name: "newer epoch (C075)", records: join(three(0, 2), three(3, 4)), epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size, suspicious: true},
		{name: "newer epoch at once (C075)", records: three(0, 4), epoch: 3, wantEpoch: 9, largest: size, suspicious: true},
		{name: "epochs unknown", records: three(0, 4), epoch: feed.NoEpoch, batches: 1, wantNext: 3, wantEpoch: 4, largest: size},
		{name: "overlap", records: join(three(0, 2), three(2, 2)), epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size},
		{name: "overlap at once is met again", records: join(three(0, 2), three(1, 2)), next: 0, epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size},
		{name: "broken length behind a good one", records: join(three(0, 2), broken), epoch: 3, batches: 1, wantNext: 3, wantEpoch: 2, largest: size},
		{name: "broken length", records: broken, epoch: 3, wantEpoch: 9, err: errDisorder},
		{name: "broken length behind what lies below", records: join(three(0, 2), broken), next: 3, epoch: 3, wantNext: 3, wantEpoch: 9, largest: size, err: errDisorder},
		{name: "old format", records: oldFormat, next: 6, epoch: 3, batches: 1, wantNext: 7, wantEpoch: feed.NoEpoch, largest: 34},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := cut(c.records, c.next, 9, c.epoch)
			if !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
				t.Fatalf("got error %v, want %v", err, c.err)
			}
			if len(s.batches) != c.batches || s.next != c.wantNext || s.epoch != c.wantEpoch || s.suspicious != c.suspicious || s.largest != c.largest {
				t.Errorf("got %d batches, next %d, epoch %d, suspicious %v, largest %d (of %d)", len(s.batches), s.next, s.epoch, s.suspicious, s.largest, size)
			}
		})
	}
}

// FuzzCut, for any bytes: no panic; what is returned are slices of the input in
// order; next never falls; bytes is their sum.
func FuzzCut(f *testing.F) {
	f.Add(join(at(testBatch(3, 20), 0, 2), at(testBatch(3, 20), 3, 2)[:50]), int64(1), int32(2))
	f.Fuzz(func(t *testing.T, records []byte, next int64, epoch int32) {
		s, err := cut(records, next, feed.NoEpoch, epoch)
		if s.next < next {
			t.Errorf("went back from %d to %d", next, s.next)
		}
		sum := 0
		for _, b := range s.batches {
			sum += len(b)
		}
		if sum != s.bytes || sum > len(records) || err != nil && sum > 0 {
			t.Errorf("%d of %d bytes, says %d, error %v", sum, len(records), s.bytes, err)
		}
	})
}
