package batch

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestRecordsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t, rapid.Int64Range(0, 1<<40).Draw(t, "base"), 30)
		shape := batchShape{codec: drawCodec.Draw(t, "codec")}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 1:
			shape.attributes, shape.maxTime = logAppendTimeBit, drawTimestamp.Draw(t, "append time")
		case 2:
			shape.attributes, shape.horizon = deleteHorizonBit, drawTimestamp.Draw(t, "horizon")
		case 3: // compacted
			var kept []Record
			for _, r := range records {
				if rapid.Bool().Draw(t, "keep") {
					kept = append(kept, r)
				}
			}
			records, shape.lastDelta = kept, int32(len(records)+2)
		}
		b := oracleEncode(t, records, shape)
		want, err := oracleDecode(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(Records(b, Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		wantRecords(t, got, want)
	})
}

// plainBatch returns an uncompressed batch with a valid CRC around the given
// bytes, whatever they are.
func plainBatch(count, lastDelta int32, body []byte) []byte {
	b := append(make([]byte, HeaderLen), body...)
	h := Header{Magic: 2, Length: int32(len(b) - 12), LastOffsetDelta: lastDelta, Count: count}
	h.put(b)
	resealCRC(b)
	return b
}

// encodedRecord is one record with its length before it.
func encodedRecord(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return append(appendVarint(nil, int64(len(b))), b...)
}

// zigzag returns the varints of the values, joined.
func zigzag(values ...int64) []byte {
	var b []byte
	for _, v := range values {
		b = appendVarint(b, v)
	}
	return b
}

// B9: whatever differs from what the header declares is refused.
func TestRecordsRefuses(t *testing.T) {
	attributes := []byte{0}
	record := func(delta int64, rest ...int64) []byte {
		return encodedRecord(attributes, zigzag(0, delta), zigzag(rest...))
	}
	nulls := []int64{-1, -1, 0} // key, value, no headers
	two := append(record(0, nulls...), record(1, nulls...)...)
	for name, b := range map[string][]byte{
		"one record fewer":          plainBatch(3, 2, two),
		"one record more":           plainBatch(1, 1, two),
		"no records but bytes":      plainBatch(0, 1, two),
		"no bytes but records":      plainBatch(1, 0, nil),
		"hostile count":             plainBatch(math.MaxInt32, math.MaxInt32-1, two),
		"trailing byte":             plainBatch(2, 1, append(append([]byte(nil), two...), 0)),
		"cut":                       plainBatch(2, 1, two[:len(two)-1]),
		"deltas repeat":             plainBatch(2, 1, append(record(0, nulls...), record(0, nulls...)...)),
		"deltas fall":               plainBatch(2, 5, append(record(3, nulls...), record(2, nulls...)...)),
		"delta negative":            plainBatch(1, 0, record(-1, nulls...)),
		"delta beyond the last":     plainBatch(1, 0, record(1, nulls...)),
		"delta of 33 bits":          plainBatch(1, 0, record(1<<32, nulls...)),
		"record length negative":    plainBatch(1, 0, zigzag(-1)),
		"record length zero":        plainBatch(1, 0, zigzag(0)),
		"record length hostile":     plainBatch(1, 0, append(zigzag(math.MaxInt32), 0, 0, 0)),
		"record length overlong":    plainBatch(1, 0, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}),
		"timestamp of 11 bytes":     plainBatch(1, 0, encodedRecord(attributes, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, zigzag(0, -1, -1, 0))),
		"key length -2":             plainBatch(1, 0, record(0, -2, -1, 0)),
		"key length hostile":        plainBatch(1, 0, record(0, math.MaxInt32, -1, 0)),
		"value length hostile":      plainBatch(1, 0, record(0, -1, 1, 0)),
		"header count negative":     plainBatch(1, 0, record(0, -1, -1, -1)),
		"header count hostile":      plainBatch(1, 0, record(0, -1, -1, math.MaxInt32)),
		"header without value":      plainBatch(1, 0, record(0, -1, -1, 1, 0)),
		"null header key":           plainBatch(1, 0, record(0, -1, -1, 1, -1, -1)),
		"bytes after the headers":   plainBatch(1, 0, record(0, -1, -1, 0, 0)),
		"no header count":           plainBatch(1, 0, record(0, -1, -1)),
		"record of attributes only": plainBatch(1, 0, encodedRecord(attributes)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := collect(Records(b, Limits{}))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d records, %v", len(got), err)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 1<<20 { // B2
				t.Fatalf("%d bytes allocated", cost)
			}
			if _, err := Recode(b, RecodeOptions{}); !errors.Is(err, ErrMalformed) {
				t.Fatalf("Recode: %v", err)
			}
			if _, _, err := Merge(nil, [][]byte{b, b}, MergeOptions{}); err == nil {
				t.Fatal("merged")
			}
		})
	}
}

// B4: damage is found before anything is decoded, whoever is asked.
func TestDamagedBatchIsNeverDecoded(t *testing.T) {
	for _, codec := range allCodecs {
		b := oracleEncode(t, jsonRecords(0, 3, 50), batchShape{codec: codec})
		other := oracleEncode(t, jsonRecords(3, 3, 50), batchShape{codec: codec})
		b[len(b)-5] ^= 4
		if records, err := collect(Records(b, Limits{})); !errors.Is(err, ErrCRC) || len(records) > 0 {
			t.Errorf("%s: Records: %d, %v", codec, len(records), err)
		}
		if _, err := Recode(b, RecodeOptions{Codec: codec}); !errors.Is(err, ErrCRC) {
			t.Errorf("%s: Recode: %v", codec, err)
		}
		if _, _, err := Merge(nil, [][]byte{b, other}, MergeOptions{}); !errors.Is(err, ErrCRC) {
			t.Errorf("%s: Merge: %v", codec, err)
		}
	}
}

func TestRecordsOfUnknownFormats(t *testing.T) {
	b := oracleEncode(t, jsonRecords(0, 1, 5), batchShape{attributes: 6})
	if _, err := collect(Records(b, Limits{})); !errors.Is(err, ErrCodec) {
		t.Error(err)
	}
	if _, err := collect(Records(nil, Limits{})); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	empty := oracleEncode(t, nil, batchShape{lastDelta: 9, codec: CodecZstd})[:HeaderLen] // as compaction leaves it
	binary.BigEndian.PutUint32(empty[lengthAt:], minV2Length)
	resealCRC(empty)
	if records, err := collect(Records(empty, Limits{})); err != nil || len(records) > 0 {
		t.Error(records, err)
	}
}

func TestRecordsLimit(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		b := oracleEncode(t, []Record{{Value: make([]byte, 10_000)}}, batchShape{codec: codec})
		if _, err := collect(Records(b, Limits{MaxUncompressedBytes: 5000})); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", codec, err)
		}
		if _, err := Recode(b, RecodeOptions{Limits: Limits{MaxUncompressedBytes: 5000}}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

// The pools hand no buffer to two users: what is read stays as it is while
// others decode, until the loop ends.
func TestRecordsConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for worker := range 8 {
		codec := allCodecs[worker%len(allCodecs)]
		want := jsonRecords(int64(worker), 50, 100+worker)
		b := oracleEncode(t, want, batchShape{codec: codec})
		wg.Go(func() {
			for range 20 {
				var held []Record
				for r, err := range Records(b, Limits{}) {
					if err != nil {
						t.Error(err)
						return
					}
					held = append(held, r)
					if len(held) < len(want) {
						continue
					}
					for i := range held { // still inside the loop
						if string(held[i].Value) != string(want[i].Value) {
							t.Errorf("%s: value %d changed under the reader", codec, i)
							return
						}
					}
				}
				if len(held) != len(want) {
					t.Errorf("%s: %d records", codec, len(held))
				}
			}
		})
	}
	wg.Wait()
}

func TestRecordsStopsEarly(t *testing.T) {
	b := oracleEncode(t, jsonRecords(5, 10, 20), batchShape{codec: CodecLZ4})
	for r, err := range Records(b, Limits{}) {
		if err != nil || r.Offset != 5 {
			t.Fatal(r, err)
		}
		break
	}
}
