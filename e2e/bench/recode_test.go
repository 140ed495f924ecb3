package main

import (
	"testing"

	"klink/fetcher/batch"
)

func TestRecodeRate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of processor time")
	}
	data, w := newPayload(), workloadNamed("recode")
	for n := range int64(2) {
		rate, err := recodeRate(data, w, n)
		if err != nil {
			t.Fatal(err)
		}
		if rate <= 0 {
			t.Errorf("batch %d: %v MB/s", n, rate)
		}
	}
}

func TestRecodeHasBothCodecs(t *testing.T) {
	w := workloadNamed("recode")
	if w.codecOf(0) != batch.CodecLZ4 || w.codecOf(1) != batch.CodecSnappy || w.codecOf(2) != batch.CodecLZ4 {
		t.Errorf("%s, %s, %s", w.codecOf(0), w.codecOf(1), w.codecOf(2))
	}
}

// TestUnpackedBytes: values and keys are most of it.
func TestUnpackedBytes(t *testing.T) {
	w := workloadNamed("recode")
	n, err := unpackedBytes(newPayload(), w)
	if err != nil {
		t.Fatal(err)
	}
	if values := w.batchRecords * w.valueBytes; n < values || n > values*103/100 {
		t.Errorf("%d bytes for %d of values", n, values)
	}
}
