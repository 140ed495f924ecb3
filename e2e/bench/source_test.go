package main

import (
	"testing"
	"time"

	"klink/fetcher/batch"
)

// TestHoleRecords: what is to go is superseded in the same segment, and the one
// that begins another is not.
func TestHoleRecords(t *testing.T) {
	now := time.Now()
	all := holeRecords(2*holeBatch+5, now)
	var offsets int64
	for _, r := range all {
		b, err := r.batch()
		if err != nil {
			t.Fatal(err)
		}
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if int64(h.Count) != r.count || h.MaxTimestamp != r.at.UnixMilli() {
			t.Errorf("%+v became %+v", r, h)
		}
		offsets += r.count
	}
	if offsets != 2*holeBatch+5+3 {
		t.Errorf("%d offsets", offsets)
	}
	n := len(all)
	if all[0].key == all[1].key || all[n-2].key != all[1].key || all[n-2].count != 1 || all[n-1].count != 1 {
		t.Errorf("%+v", all)
	}
	if apart := all[n-1].at.Sub(all[n-2].at); apart <= holeSegment {
		t.Errorf("the last two lie %s apart, want another segment after %s", apart, holeSegment)
	}
}

func TestSetAttributeKeepsTheBatchSound(t *testing.T) {
	b, err := newPayload().batch(workloadNamed("streams1"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	setAttribute(b, transactionalBit)
	setAttribute(b, appendTimeBit)
	if err := batch.CheckCRC(b); err != nil {
		t.Fatal(err)
	}
	h, err := batch.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if !h.IsTransactional() || !h.LogAppendTime() || h.Codec() != batch.CodecLZ4 {
		t.Errorf("header %+v", h)
	}
}

func TestCommitEverywhere(t *testing.T) {
	m := commitEverywhere(workloadNamed("streams8"))
	if m.count != 1 || len(m.partitions) != 8 || m.partitions[7] != 7 || m.producer != streamsProducer {
		t.Errorf("%+v", m)
	}
}
