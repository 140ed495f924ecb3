package main

import (
	"testing"

	"klink/fetcher/batch"
)

// TestBatchesAreAsTheWorkloadSays holds counts, codecs and how well values
// compress: ratios of MB/s on the wire mean little for data unlike real data.
func TestBatchesAreAsTheWorkloadSays(t *testing.T) {
	data := newPayload()
	for _, w := range workloads {
		if w.batchRecords == 0 {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			b, err := data.batch(w, 0, 3)
			if err != nil {
				t.Fatal(err)
			}
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			if int(h.Count) != w.batchRecords || h.Codec() != w.codecOf(3) || h.ProducerID != -1 {
				t.Errorf("header %+v", h)
			}
			share := float64(len(b)) / float64(w.batchRecords*w.valueBytes)
			least, most := bounds(w.codecOf(3))
			if share < least || share > most {
				t.Errorf("%.3f of the values' size on the wire, want %.2f to %.2f", share, least, most)
			}
		})
	}
}

func bounds(codec batch.Codec) (least, most float64) {
	switch codec {
	case batch.CodecLZ4, batch.CodecSnappy:
		return 0.5, 0.6
	case batch.CodecZstd:
		return 0.35, 0.45
	default:
		return 1, 1.5
	}
}

func TestEveryRecordIsItsOwn(t *testing.T) {
	data, w := newPayload(), workloadNamed("W2")
	seen := map[string]bool{}
	for _, at := range []struct {
		partition int32
		n         int64
	}{{0, 0}, {0, 1}, {1, 0}} {
		b, err := data.batch(w, at.partition, at.n)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range batch.Records(b, batch.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(r.Key)] {
				t.Fatalf("key %q twice", r.Key)
			}
			seen[string(r.Key)] = true
		}
	}
	if len(seen) != 3*w.batchRecords {
		t.Errorf("%d keys, want %d", len(seen), 3*w.batchRecords)
	}
}

func TestTotalsAreWholeBatches(t *testing.T) {
	for _, w := range workloads {
		if w.batchRecords == 0 {
			continue
		}
		for _, long := range []bool{false, true} {
			if total, want := w.total(long), w.records.of(long); total > want || total < want*9/10 {
				t.Errorf("%s, long %t: %d records, want about %d", w.name, long, total, want)
			}
		}
	}
}
