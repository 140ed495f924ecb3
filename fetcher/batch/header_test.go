package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseHeaderAgreesWithKmsg(t *testing.T) {
	b := oracleEncode(t, jsonRecords(1000, 3, 10), batchShape{
		codec: CodecLZ4, attributes: transactionalBit, lastDelta: 9, identity: Identity{77, 3}, sequence: 12, epoch: 5,
	})
	var k kmsg.RecordBatch
	if err := k.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	h, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	want := Header{
		BaseOffset: k.FirstOffset, Length: k.Length, LeaderEpoch: k.PartitionLeaderEpoch, Magic: k.Magic, CRC: uint32(k.CRC),
		Attributes: k.Attributes, LastOffsetDelta: k.LastOffsetDelta, FirstTimestamp: k.FirstTimestamp, MaxTimestamp: k.MaxTimestamp,
		ProducerID: k.ProducerID, ProducerEpoch: k.ProducerEpoch, BaseSequence: k.FirstSequence, Count: k.NumRecords,
	}
	if h != want {
		t.Fatalf("got %+v\nwant %+v", h, want)
	}
	if h.LastOffset() != 1009 || h.NextOffset() != 1010 || h.Codec() != CodecLZ4 || !h.IsTransactional() || !h.HasHoles() ||
		h.IsControl() || h.HasDeleteHorizon() || h.LogAppendTime() {
		t.Fatalf("%+v", h)
	}
	back := make([]byte, HeaderLen)
	if h.put(back); !bytes.Equal(back, b[:HeaderLen]) {
		t.Fatalf("put\n%x, want\n%x", back, b[:HeaderLen])
	}
}

func TestPredicates(t *testing.T) {
	predicates := map[string]func(*Header) bool{
		"transactional": (*Header).IsTransactional, "control": (*Header).IsControl,
		"horizon": (*Header).HasDeleteHorizon, "append time": (*Header).LogAppendTime,
	}
	for name, bit := range map[string]int16{"append time": 0x08, "transactional": 0x10, "control": 0x20, "horizon": 0x40} {
		for of, is := range predicates {
			if got := is(&Header{Attributes: bit}); got != (of == name) {
				t.Errorf("bit %02x: %s is %v", bit, of, got)
			}
		}
	}
	for _, tc := range []struct {
		count, delta int32
		holes        bool
	}{{1, 0, false}, {10, 9, false}, {9, 9, true}, {0, 0, true}} {
		if got := (&Header{Count: tc.count, LastOffsetDelta: tc.delta}).HasHoles(); got != tc.holes {
			t.Errorf("%d records up to %d: holes %v", tc.count, tc.delta, got)
		}
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	good := oracleEncode(t, jsonRecords(0, 2, 10), batchShape{})
	with := func(at int, b ...byte) []byte {
		bad := bytes.Clone(good)
		copy(bad[at:], b)
		return bad
	}
	be := binary.BigEndian
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"nil":                 {nil, ErrMalformed},
		"short":               {good[:60], ErrMalformed},
		"cut":                 {good[:len(good)-1], ErrMalformed},
		"trailing":            {append(bytes.Clone(good), 0), ErrMalformed},
		"negative length":     {with(lengthAt, 0xff), ErrMalformed},
		"magic 0":             {with(magicAt, 0), ErrOldFormat},
		"magic 1, short":      {with(magicAt, 1)[:30], ErrOldFormat},
		"magic 3":             {with(magicAt, 3), ErrMalformed},
		"negative magic":      {with(magicAt, 0xfe), ErrMalformed},
		"negative base":       {with(0, 0x80), ErrMalformed},
		"base near the end":   {with(0, be.AppendUint64(nil, math.MaxInt64)...), ErrMalformed},
		"negative delta":      {with(lastOffsetDeltaAt, 0xff, 0xff, 0xff, 0xff), ErrMalformed},
		"negative count":      {with(countAt, 0x80), ErrMalformed},
		"more than the delta": {with(countAt, 0, 0, 0, 3), ErrMalformed},
	} {
		if _, err := ParseHeader(tc.b); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, wanted %v", name, err, tc.want)
		}
	}
}
