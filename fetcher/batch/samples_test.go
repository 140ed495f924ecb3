package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"pgregory.net/rapid"
)

var allCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4, CodecZstd}

// drawRecords draws contiguous records from base on, with everything that
// Kafka tells apart: null, empty and filled; repeated header keys; odd times.
func drawRecords(t *rapid.T, base int64, maxCount int) []Record {
	n := rapid.IntRange(1, maxCount).Draw(t, "count")
	records := make([]Record, n)
	for i := range records {
		r := Record{
			Offset:    base + int64(i),
			Timestamp: drawTimestamp.Draw(t, "timestamp"),
			Key:       drawNullable.Draw(t, "key"),
			Value:     drawNullable.Draw(t, "value"),
		}
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "headers") {
			r.Headers = append(r.Headers, RecordHeader{
				Key:   []byte(rapid.SampledFrom([]string{"", "a", "trace-id", "a"}).Draw(t, "header")),
				Value: drawNullable.Draw(t, "header value"),
			})
		}
		records[i] = r
	}
	return records
}

var drawTimestamp = rapid.OneOf(
	rapid.SampledFrom([]int64{-1, 0, 1, 1 << 40, 1<<63 - 1, -1 << 63}),
	rapid.Int64Range(1.7e12, 1.8e12),
)

var drawNullable = rapid.Custom(func(t *rapid.T) []byte {
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte("klink "), rapid.IntRange(1, 500).Draw(t, "repeats"))
	default:
		return rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes")
	}
})

var drawCodec = rapid.SampledFrom(allCodecs)

// jsonRecords returns n records of about size bytes that compress about as
// JSON events do.
func jsonRecords(base int64, n, size int) []Record {
	rnd := rand.New(rand.NewPCG(1, 2))
	records := make([]Record, n)
	for i := range records {
		var v strings.Builder
		for v.Len() < size {
			fmt.Fprintf(&v, `{"id":%d,"customer":"%x","amount":%d.%02d,"currency":"EUR","state":"paid"},`,
				rnd.IntN(1<<30), rnd.Uint64(), rnd.IntN(1000), rnd.IntN(100))
		}
		records[i] = Record{
			Offset: base + int64(i), Timestamp: 1.75e12 + int64(i), Key: fmt.Appendf(nil, "key-%d", rnd.IntN(1000)),
			Value: []byte(v.String()[:size]),
		}
	}
	return records
}
