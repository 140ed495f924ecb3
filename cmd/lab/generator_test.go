package lab

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func options(t *testing.T, o LoadOptions) LoadOptions {
	t.Helper()
	o.Topics = []string{"t"}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// wireBytes is the size of the record in a batch of its own, by kmsg's encoder.
func wireBytes(r *kgo.Record) int {
	rec := kmsg.Record{Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	body := len(rec.AppendTo(nil)) - 1 // the length, 0 here, takes one byte
	return len(binary.AppendVarint(nil, int64(body))) + body
}

func TestRecordBytesIsWhatIsSent(t *testing.T) {
	g := newGenerator(options(t, LoadOptions{ValueBytes: 20000}))
	for range 2000 {
		r := g.record(Partition{"t", 0})
		if got, want := recordBytes(r), wireBytes(r); got != want {
			t.Fatalf("recordBytes %d, on the wire %d", got, want)
		}
	}
}

func TestTheLargestRecordFillsTheLimit(t *testing.T) {
	for _, limit := range []int{1024, 8192 + 70, 16384, 1<<20 + 12} {
		g := newGenerator(options(t, LoadOptions{LimitBytes: limit}))
		for range 20 {
			size := wireBytes(g.largest(Partition{"t", 0})) + batchBytes
			if size > limit || size < limit-2 {
				t.Errorf("a largest batch has %d bytes, the limit is %d", size, limit)
			}
		}
	}
}

func TestEveryShapeOfRecordIsDrawn(t *testing.T) {
	g := newGenerator(options(t, LoadOptions{}))
	seen := map[string]bool{}
	var last *kgo.Record
	for range 5000 {
		r := g.record(Partition{"t", 0})
		seen["null key"] = seen["null key"] || r.Key == nil
		seen["empty key"] = seen["empty key"] || r.Key != nil && len(r.Key) == 0
		seen["null value"] = seen["null value"] || r.Value == nil
		seen["empty value"] = seen["empty value"] || r.Value != nil && len(r.Value) == 0
		names := map[string]bool{}
		for _, h := range r.Headers {
			seen["null header"] = seen["null header"] || h.Value == nil
			seen["empty header"] = seen["empty header"] || h.Value != nil && len(h.Value) == 0
			seen["repeated header"] = seen["repeated header"] || names[h.Key]
			names[h.Key] = true
		}
		seen["seventies"] = seen["seventies"] || r.Timestamp.Year() < 1980
		seen["backwards"] = seen["backwards"] || last != nil && r.Timestamp.Before(last.Timestamp)
		seen["again"] = seen["again"] || last != nil && len(r.Value) > 50 && bytes.Equal(r.Value, last.Value)
		last = r
	}
	for _, shape := range []string{"null key", "empty key", "null value", "empty value", "null header", "empty header", "repeated header", "seventies", "backwards", "again"} {
		if !seen[shape] {
			t.Errorf("no record with: %s", shape)
		}
	}
}

func TestKeyedRecordsHaveKeys(t *testing.T) {
	g := newGenerator(options(t, LoadOptions{Keyed: true}))
	for range 2000 {
		if r := g.record(Partition{"t", 0}); r.Key == nil {
			t.Fatal("a null key")
		}
	}
}

func TestTheSameSeedGivesTheSameRecords(t *testing.T) {
	o := LoadOptions{Seed: 7, From: time.UnixMilli(0), To: time.UnixMilli(1e12)}
	a, b := newGenerator(options(t, o)), newGenerator(options(t, o))
	o.Seed = 8
	other := newGenerator(options(t, o))
	differs := false
	for range 1000 {
		x, y, z := a.record(Partition{}), b.record(Partition{}), other.record(Partition{})
		if !bytes.Equal(canonical(nil, x), canonical(nil, y)) {
			t.Fatal("two records of one seed differ")
		}
		differs = differs || !bytes.Equal(canonical(nil, x), canonical(nil, z))
	}
	if !differs {
		t.Error("another seed gives the same records")
	}
}

func TestLoadOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, o := range []LoadOptions{
		{},
		{Topics: []string{"t"}, MinBatch: -1},
		{Topics: []string{"t"}, LimitBytes: 10},
		{Topics: []string{"t"}, From: time.UnixMilli(2), To: time.UnixMilli(1)},
	} {
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
