package appender

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCheckBatch(t *testing.T) {
	edit := func(fn func(b []byte)) []byte {
		b := dataBatch(3, testPID, 0, 0)
		fn(b)
		return b
	}
	good := dataBatch(3, testPID, 0, 0)
	for _, c := range []struct {
		name  string
		batch []byte
		ok    bool
	}{
		{"whole", good, true},
		{"empty", nil, false},
		{"header cut", good[:60], false},
		{"tail cut", good[:len(good)-1], false},
		{"two batches", append(dataBatch(3, testPID, 0, 0), good...), false},
		{"length negative", edit(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<31) }), false},
		{"magic 1", edit(func(b []byte) { b[16] = 1 }), false},
		{"base offset 7", edit(func(b []byte) { b[7] = 7 }), false},
		{"transactional", edit(func(b []byte) { b[22] |= 0x10 }), false},
		{"control", edit(func(b []byte) { b[22] |= 0x20 }), false},
		{"compressed", edit(func(b []byte) { b[22] |= 4 }), true},
		{"no producer", dataBatch(3, -1, -1, -1), false},
	} {
		err := checkBatch(c.batch)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadBatch) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRequestLayout(t *testing.T) {
	targets := []Target{
		{Topic: "a", ID: [16]byte{1}, Partition: 2}, {Topic: "b", ID: [16]byte{2}}, {Topic: "a", ID: [16]byte{1}, Partition: 0},
		{Topic: "old", Partition: 1}, {Topic: "older", Partition: 1}, {Topic: "old", Partition: 5},
	}
	var items []*item
	for i, target := range targets {
		items = append(items, &item{target: target, batch: dataBatch(i+1, testPID, 0, 0)})
	}
	var r request
	r.build(items, 1500*time.Millisecond)
	if r.TimeoutMillis != 1500 || r.Acks != -1 || len(r.Topics) != 4 {
		t.Fatalf("timeout %d, acks %d, %d topics", r.TimeoutMillis, r.Acks, len(r.Topics))
	}
	n, bytes := partitionsOf(r.ProduceRequest)
	if n != len(items) || bytes != r.bytes {
		t.Fatalf("%d partitions, %d bytes of %d", n, bytes, r.bytes)
	}
	for _, version := range []int16{3, 9, 12, 13} {
		r.SetVersion(version)
		r.made.Store(false)
		r.encoded = make(chan struct{})
		got := r.AppendTo(nil)
		if want := r.ProduceRequest.AppendTo(nil); string(got) != string(want) || !r.made.Load() {
			t.Errorf("v%d: encoding differs, or goes unnoticed", version)
		}
	}
}

// Answers are found by name up to v12, by id from v13 on, in any order.
func TestAnswersFound(t *testing.T) {
	a, b := Target{Topic: "a", ID: [16]byte{1}, Partition: 7}, Target{Topic: "b", ID: [16]byte{2}, Partition: 0}
	for _, version := range []int16{12, 13} {
		resp := &kmsg.ProduceResponse{Version: version}
		for _, t := range []Target{b, a} {
			rt := kmsg.NewProduceResponseTopic()
			if version < 13 {
				rt.Topic = t.Topic
			} else {
				rt.TopicID = t.ID
			}
			for _, p := range []int32{9, t.Partition, 3} {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.BaseOffset = p, int64(p)+int64(t.ID[0])*100
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		found := indexAnswers(resp)
		if p := found.find(a); p == nil || p.BaseOffset != 107 {
			t.Errorf("v%d: a: %+v", version, p)
		}
		if p := found.find(b); p == nil || p.BaseOffset != 200 {
			t.Errorf("v%d: b: %+v", version, p)
		}
		if found.find(Target{Topic: "a", ID: [16]byte{1}, Partition: 4}) != nil || found.find(Target{Topic: "c", ID: [16]byte{3}}) != nil {
			t.Errorf("v%d: found what is not there", version)
		}
	}
}
