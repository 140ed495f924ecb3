package appender

import (
	"math"
	"testing"
)

// The golden values must never change: a mirror in use continues with the id
// that its partitions carry.
func TestProducerIDGolden(t *testing.T) {
	id := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for _, c := range []struct {
		cluster    string
		topic      [16]byte
		partition  int32
		generation int32
		want       int64
	}{
		{"MkU3OEVBNTcwNTJENDM2Qk", id, 0, 0, 6735796510565310739},
		{"MkU3OEVBNTcwNTJENDM2Qk", id, 1, 0, 6212511750552987550},
		{"MkU3OEVBNTcwNTJENDM2Qk", id, 0, 1, 6285966017612588795},
		{"", [16]byte{}, 0, 0, 5309770008133661131},
	} {
		if got := ProducerID(c.cluster, c.topic, c.partition, c.generation); got != c.want {
			t.Errorf("ProducerID(%q, %x, %d, %d) = %d, want %d", c.cluster, c.topic, c.partition, c.generation, got, c.want)
		}
	}
}

func TestProducerIDRangeAndSpread(t *testing.T) {
	seen := make(map[int64]bool)
	for p := int32(0); p < 2000; p++ {
		for g := int32(0); g < 3; g++ {
			id := ProducerID("cluster", [16]byte{1}, p, g)
			if id < 1<<62 || id >= 1<<62+1<<61 {
				t.Fatalf("id %d out of range", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != 6000 {
		t.Fatalf("%d ids for 6000 inputs", len(seen))
	}
}

// The oracle counts one by one, as DefaultRecordBatch.incrementSequence would.
func TestNextSequence(t *testing.T) {
	oracle := func(first, count int32) int32 {
		for ; count > 0; count-- {
			if first == math.MaxInt32 {
				first = 0
			} else {
				first++
			}
		}
		return first
	}
	for _, first := range []int32{0, 1, 1000, math.MaxInt32 - 2, math.MaxInt32 - 1, math.MaxInt32} {
		for _, count := range []int32{0, 1, 2, 3, 5000} {
			if got, want := NextSequence(first, count), oracle(first, count); got != want {
				t.Errorf("NextSequence(%d, %d) = %d, want %d", first, count, got, want)
			}
		}
	}
	if got := NextSequence(math.MaxInt32, math.MaxInt32); got != math.MaxInt32-1 {
		t.Errorf("NextSequence(max, max) = %d", got)
	}
	if got := (ProducerState{LastSequence: -1}).Next(); got != 0 {
		t.Errorf("after a marker: %d", got)
	}
	if got := (ProducerState{LastSequence: math.MaxInt32}).Next(); got != 0 {
		t.Errorf("after the last sequence: %d", got)
	}
}
