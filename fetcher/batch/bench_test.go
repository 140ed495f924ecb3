package batch

import (
	"fmt"
	"testing"
	"time"
)

// reportCPU gives the rate by processor time since begun, which other load of
// the machine hardly touches; bytes are those of one iteration.
func reportCPU(b *testing.B, bytes int, begun time.Duration) {
	if took := cpuTime() - begun; took > 0 {
		b.ReportMetric(float64(b.N)*float64(bytes)/1e6/took.Seconds(), "MB/cpu-s")
	}
}

func BenchmarkCheckCRC(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 1 << 20} {
		raw := oracleEncode(b, jsonRecords(0, 1, size), batchShape{})
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := CheckCRC(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The bytes of all but Merge are uncompressed ones, as in the targets.

func BenchmarkRecords(b *testing.B) {
	for _, codec := range allCodecs {
		raw := oracleEncode(b, jsonRecords(0, 1000, 1000), batchShape{codec: codec})
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(1000 * 1000)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range Records(raw, Limits{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRecode recodes a LogAppendTime batch of about 1 MB into its own codec.
func BenchmarkRecode(b *testing.B) {
	for _, codec := range allCodecs {
		for _, size := range []int{100, 1000, 16_000} {
			records := jsonRecords(0, 1_000_000/size, size)
			raw := oracleEncode(b, records, batchShape{codec: codec, attributes: logAppendTimeBit, maxTime: 5})
			b.Run(fmt.Sprintf("%s/%dB", codec, size), func(b *testing.B) {
				b.SetBytes(int64(size * len(records)))
				b.ReportAllocs()
				begun := cpuTime()
				for b.Loop() {
					if _, err := Recode(raw, RecodeOptions{Codec: codec}); err != nil {
						b.Fatal(err)
					}
				}
				reportCPU(b, size*len(records), begun)
			})
		}
	}
}

// BenchmarkRecodeOld is BenchmarkRecode for a message set of magic 1.
func BenchmarkRecodeOld(b *testing.B) {
	for _, codec := range []Codec{CodecSnappy, CodecLZ4} {
		records := jsonRecords(0, 1000, 1000)
		raw := oldEncode(b, records, oldShape{magic: 1, innerMagic: 1, codec: codec, attributes: logAppendTimeBit, appendTime: 5})
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(1000 * 1000)
			b.ReportAllocs()
			begun := cpuTime()
			for b.Loop() {
				if _, err := Recode(raw, RecodeOptions{Codec: codec}); err != nil {
					b.Fatal(err)
				}
			}
			reportCPU(b, 1000*1000, begun)
		})
	}
}

// BenchmarkRepeat fills a gap before a record of 200 bytes; the bytes are those
// of the copies uncompressed.
func BenchmarkRepeat(b *testing.B) {
	for _, codec := range allCodecs {
		r := jsonRecords(20_000, 1, 200)
		raw := oracleEncode(b, r, batchShape{codec: codec})
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(20_001 * 200)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range Pieces(raw, RecodeOptions{Codec: codec, Repeat: RepeatNext}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkMerge merges 1000 batches of one record of 200 bytes; the bytes are
// those of the batches as stored.
func BenchmarkMerge(b *testing.B) {
	for _, codec := range allCodecs {
		var batches [][]byte
		var size int
		for _, r := range jsonRecords(0, 1000, 200) {
			raw := oracleEncode(b, []Record{r}, batchShape{codec: codec})
			batches, size = append(batches, raw), size+len(raw)
		}
		var dst []byte
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				var n int
				if dst, n, err = Merge(dst[:0], batches, MergeOptions{}); err != nil || n != len(batches) {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkChain(b *testing.B) {
	records := jsonRecords(0, 1000, 1000)
	b.SetBytes(1000 * 1000)
	b.ReportAllocs()
	var c Chain
	for b.Loop() {
		for _, r := range records {
			c.Add(r)
		}
	}
}
