package comparator

import (
	"crypto/rand"
	"testing"

	"klink/fetcher/batch"
)

// benchLog is batches as they lie in a log, of records with 200 bytes that do
// not compress.
func benchLog(b *testing.B, codec batch.Codec) (batches [][]byte, size int64) {
	b.Helper()
	const count, perBatch = 20_000, 200
	for base := int64(0); base < count; base += perBatch {
		recs := numbered(base, base+perBatch)
		for i := range recs {
			value := make([]byte, 200)
			if _, err := rand.Read(value); err != nil {
				b.Fatal(err)
			}
			recs[i].value = string(value)
		}
		made, err := batch.Encode(sequence(recs), batch.RecodeOptions{Codec: codec})
		if err != nil || len(made) != 1 {
			b.Fatalf("%d batches, %v", len(made), err)
		}
		batches = append(batches, rebased(made[0].Bytes, base))
		size += int64(len(made[0].Bytes))
	}
	return batches, 2 * size
}

// BenchmarkCompare sets a comparison beside the bare loops that it is held to:
// one that decompresses and digests both sides, and one that looks at all bytes.
func BenchmarkCompare(b *testing.B) {
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecLZ4} {
		log, size := benchLog(b, codec)
		run := func(name string, do func() error) {
			b.Run(codec.String()+"/"+name, func(b *testing.B) {
				b.SetBytes(size)
				for range b.N {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("bare", func() error { return bare(log) })
		run("digest", func() error { return compareBatches(b, log, false) })
		run("bare bytes", func() error { return bareBytes(log) })
		run("no digest", func() error { return compareBatches(b, log, true) })
	}
}

func bare(log [][]byte) error {
	for range 2 {
		var chain batch.Chain
		for _, raw := range log {
			for r, err := range batch.Records(raw, batch.Limits{}) {
				if err != nil {
					return err
				}
				chain.Add(r)
			}
		}
	}
	return nil
}

func bareBytes(log [][]byte) error {
	for range 2 {
		for _, raw := range log {
			if err := batch.CheckCRC(raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// decoding is a stream that decodes as a reader does.
type decoding struct {
	listed
	d decoder
}

func compareBatches(b *testing.B, log [][]byte, raw bool) error {
	p := NewPrinter()
	span := Range{0, 1 << 40}
	var streams [2]*listed
	for side := range streams {
		d := decoding{d: decoder{printer: p.Again(), span: span, chain: new(batch.Chain)}}
		for _, bytes := range log {
			h, err := batch.ParseHeader(bytes)
			if err != nil {
				return err
			}
			block := Block{Base: h.BaseOffset, Next: h.NextOffset(), Records: h.Count, Raw: bytes}
			if !raw {
				if block.Prints, err = d.d.decode(make([]Print, 0, h.Count), bytes); err != nil {
					return err
				}
				block.Raw = nil
			}
			d.blocks = append(d.blocks, block)
		}
		streams[side] = &d.listed
	}
	out, err := Merge(b.Context(), streams[Source], streams[Target], MergeOptions{Range: span})
	if err == nil && (!out.Equal() || out.Compared != 20_000) {
		b.Fatalf("%+v", out)
	}
	return err
}
