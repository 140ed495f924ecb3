package lab

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// generator draws records of every shape that a topic may hold: the same ones
// for the same seed and options, whatever the clock says.
type generator struct {
	opts LoadOptions
	rng  *rand.Rand
	last content // of the record before, which is now and then repeated
}

func newGenerator(o LoadOptions) *generator {
	return &generator{opts: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6b6c696e6b))}
}

// content is a record without its place. Records themselves belong to the
// client from when they are produced.
type content struct {
	key, value []byte
	headers    []kgo.RecordHeader
	timestamp  time.Time
}

func (c content) record(p Partition) *kgo.Record {
	return &kgo.Record{Topic: p.Topic, Partition: p.Number, Key: c.key, Value: c.value, Headers: c.headers, Timestamp: c.timestamp}
}

// batchBytes is the size of a batch's header, before its records.
const batchBytes = 61

// batch draws the records of one batch for a partition: a number of them within
// the options' range that surely fits the topic's limit, or now and then a
// single record that fills it to the last byte.
func (g *generator) batch(p Partition) []*kgo.Record {
	if g.opts.LargeEvery > 0 && g.rng.IntN(g.opts.LargeEvery) == 0 {
		return []*kgo.Record{g.largest(p)}
	}
	count := g.opts.MinBatch + g.rng.IntN(g.opts.MaxBatch-g.opts.MinBatch+1)
	var records []*kgo.Record
	// A batch's offset and timestamp deltas take at most these bytes more than
	// in a batch of its own, which is what recordBytes gives.
	const deltas = 15
	room := g.opts.LimitBytes - batchBytes
	for range count {
		r := g.record(p)
		if room -= recordBytes(r) + deltas; room < 0 && len(records) > 0 {
			break
		}
		records = append(records, r)
	}
	return records
}

func (g *generator) record(p Partition) *kgo.Record {
	if g.last.timestamp.IsZero() || g.rng.IntN(20) > 0 {
		g.last = content{key: g.key(), value: g.value(), headers: g.headers(), timestamp: g.timestamp()}
	}
	return g.last.record(p)
}

func (g *generator) key() []byte {
	n := g.rng.IntN(20)
	switch {
	case n == 0 && !g.opts.Keyed:
		return nil
	case n <= 1:
		return []byte{}
	case n < 12:
		return fmt.Appendf(nil, "key-%d", g.rng.IntN(100))
	default:
		return g.random(1 + g.rng.IntN(40))
	}
}

func (g *generator) value() []byte {
	size := g.rng.IntN(g.opts.ValueBytes + 1)
	switch g.rng.IntN(20) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2, 3, 4, 5, 6:
		return g.random(size)
	default:
		return g.text(size)
	}
}

// headers may repeat a name and come in any order: both are part of a record.
func (g *generator) headers() []kgo.RecordHeader {
	if g.rng.IntN(5) < 3 {
		return nil
	}
	names := []string{"trace", "a", "b", "a", "", "ä"}
	var headers []kgo.RecordHeader
	for range 1 + g.rng.IntN(4) {
		h := kgo.RecordHeader{Key: names[g.rng.IntN(len(names))]}
		switch g.rng.IntN(4) {
		case 0: // null
		case 1:
			h.Value = []byte{}
		default:
			h.Value = g.random(1 + g.rng.IntN(24))
		}
		headers = append(headers, h)
	}
	return headers
}

// timestamp is anywhere between the options' bounds, in whole milliseconds and
// in no order.
func (g *generator) timestamp() time.Time {
	from, to := g.opts.From.UnixMilli(), g.opts.To.UnixMilli()
	return time.UnixMilli(from + g.rng.Int64N(to-from+1))
}

func (g *generator) random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.rng.Uint32())
	}
	return b
}

// text compresses about as well as JSON does.
func (g *generator) text(n int) []byte {
	words := []string{`"user":`, `"amount":`, `"note":`, "true,", "null,", "Dresden ", "Leipzig "}
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = append(b, words[g.rng.IntN(len(words))]...)
		b = fmt.Appendf(b, "%d,", g.rng.IntN(1000))
	}
	return b[:n]
}

// largest is a record that alone makes an uncompressed batch of the limit, to
// the byte, except where the length of a length stands in the way.
func (g *generator) largest(p Partition) *kgo.Record {
	r := g.record(p)
	target := g.opts.LimitBytes - batchBytes
	r.Value = g.text(target)
	for over := 1; over > 0; {
		over = recordBytes(r) - target
		r.Value = r.Value[:max(0, len(r.Value)-max(0, over))]
	}
	return r
}

// recordBytes is the size of the record in an uncompressed batch of its own
// (KIP-98's format).
func recordBytes(r *kgo.Record) int {
	body := recordBody(r)
	return varintBytes(body) + body
}

func recordBody(r *kgo.Record) int {
	n := 3 // attributes, timestamp delta 0, offset delta 0
	n += fieldBytes(r.Key) + fieldBytes(r.Value) + varintBytes(len(r.Headers))
	for _, h := range r.Headers {
		n += varintBytes(len(h.Key)) + len(h.Key) + fieldBytes(h.Value)
	}
	return n
}

func fieldBytes(b []byte) int {
	if b == nil {
		return 1
	}
	return varintBytes(len(b)) + len(b)
}

// varintBytes is the size of a number as a zigzag varint, which is also Go's.
func varintBytes(n int) int {
	return len(binary.AppendVarint(make([]byte, 0, binary.MaxVarintLen64), int64(n)))
}
