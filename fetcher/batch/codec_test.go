package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// sampleBody is longer than a block of any codec and compresses only in part.
func sampleBody() []byte {
	var b []byte
	for _, r := range jsonRecords(0, 300, 1000) {
		b = append(b, r.Value...)
	}
	return b
}

func lz4Framed(t *testing.T, src []byte, opts ...lz4.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(opts...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(src); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Everything that some client writes, and every client reads, is read.
func TestDecompressDialects(t *testing.T) {
	body := sampleBody()
	half := len(body) / 2
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	var streamed bytes.Buffer // a frame without content size
	stream, err := zstd.NewWriter(&streamed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	stored := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73} // 4 MiB blocks, kept as they are
	stored = binary.LittleEndian.AppendUint32(stored, uint32(len(body))|lz4Stored)
	stored = append(append(stored, body...), 0, 0, 0, 0)
	for name, tc := range map[string]struct {
		codec Codec
		src   []byte
	}{
		"gzip, kgo":              {CodecGzip, kgoCompress(t, CodecGzip, body)},
		"gzip, two members":      {CodecGzip, append(kgoCompress(t, CodecGzip, body[:half]), kgoCompress(t, CodecGzip, body[half:])...)},
		"snappy, kgo":            {CodecSnappy, kgoCompress(t, CodecSnappy, body)},
		"snappy, bare block":     {CodecSnappy, s2.EncodeSnappy(nil, body)},
		"snappy, joined streams": {CodecSnappy, append(appendXerial(nil, body[:half]), appendXerial(nil, body[half:])...)},
		"lz4, kgo":               {CodecLZ4, kgoCompress(t, CodecLZ4, body)},
		"lz4, 64 KiB":            {CodecLZ4, lz4Framed(t, body, lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))},
		"lz4, 256 KiB":           {CodecLZ4, lz4Framed(t, body, lz4.BlockSizeOption(lz4.Block256Kb))},
		"lz4, block checksums":   {CodecLZ4, lz4Framed(t, body, lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb))},
		"lz4, content size":      {CodecLZ4, lz4Framed(t, body, lz4.SizeOption(uint64(len(body))))},
		"lz4, stored":            {CodecLZ4, stored},
		"zstd, kgo":              {CodecZstd, kgoCompress(t, CodecZstd, body)},
		"zstd, content size":     {CodecZstd, enc.EncodeAll(body, nil)},
		"zstd, streamed":         {CodecZstd, streamed.Bytes()},
		"zstd, two frames":       {CodecZstd, enc.EncodeAll(body[half:], enc.EncodeAll(body[:half], nil))},
	} {
		t.Run(name, func(t *testing.T) {
			for _, start := range [][]byte{nil, make([]byte, 0, 2*len(body))} {
				got, err := decompress(start, tc.codec, tc.src, len(body))
				if err != nil || !bytes.Equal(got, body) {
					t.Fatalf("%d bytes of %d, %v", len(got), len(body), err)
				}
				if _, err := decompress(start[:0], tc.codec, tc.src, len(body)-1); !errors.Is(err, ErrLimit) {
					t.Fatalf("one byte above the limit: %v", err)
				}
			}
		})
	}
}

// A frame of blocks that refer to the ones before them: no Java client writes or
// reads it, but the format has it.
func TestDecompressLinkedLZ4(t *testing.T) {
	src := []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0}
	src = append(src, 8, 0, 0, 0x80)
	src = append(src, "abcdefgh"...)
	block := append([]byte{0x04, 8, 0, 0x50}, "12345"...) // 8 bytes from 8 back, then 5 literals
	src = append(binary.LittleEndian.AppendUint32(src, uint32(len(block))), block...)
	src = append(src, 0, 0, 0, 0)
	if got, err := decompress(nil, CodecLZ4, src, 100); err != nil || string(got) != "abcdefghabcdefgh12345" {
		t.Fatalf("%q, %v", got, err)
	}
	src[4] |= lz4BlockIndependent
	if got, err := decompress(nil, CodecLZ4, src, 1<<20); !errors.Is(err, ErrMalformed) {
		t.Fatalf("%q, %v", got, err)
	}
}

// The head of the frames written has the checksum that the format asks for.
func TestLZ4FrameHead(t *testing.T) {
	packed, err := appendLZ4(nil, []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(lz4.NewReader(bytes.NewReader(packed))); err != nil || out.String() != "value" {
		t.Fatalf("%q, %v", out.String(), err)
	}
}

func TestDecompressRefuses(t *testing.T) {
	body := sampleBody()
	for _, codec := range allCodecs[1:] {
		whole, err := compress(nil, codec, body)
		if err != nil {
			t.Fatal(err)
		}
		for name, src := range map[string][]byte{
			"empty": {}, "cut": whole[:len(whole)-1], "half": whole[:len(whole)/2], "one byte": whole[:1],
			"trailing": append(bytes.Clone(whole), "trailing"...), "text": []byte("this is not compressed, whatever it says"),
		} {
			if codec == CodecSnappy && name == "one byte" {
				src = []byte{0x80}
			}
			if codec == CodecZstd && name == "empty" {
				continue // no frame decodes to nothing
			}
			if got, err := decompress(nil, codec, src, 1<<30); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, %s: %d bytes, %v", codec, name, len(got), err)
			}
		}
	}
	if _, err := decompress(nil, 5, nil, 1); !errors.Is(err, ErrCodec) {
		t.Error(err)
	}
	if _, err := compress(nil, 7, nil); !errors.Is(err, ErrCodec) {
		t.Error(err)
	}
}

// B2: what is declared costs nothing, and a bomb costs its limit and not its size.
func TestDecompressIsBounded(t *testing.T) {
	const limit = 1 << 20
	bomb := 256 << 20
	if testing.Short() {
		bomb = 32 << 20 // the race detector takes seconds for each
	}
	cases := map[string]struct {
		codec Codec
		src   []byte
		want  error
	}{
		"snappy declares 4 GiB":  {CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1, 2}, ErrMalformed},
		"xerial declares 2 GiB":  {CodecSnappy, append(bytes.Clone(xerialHeader), 0x7f, 0xff, 0xff, 0xff, 1), ErrMalformed},
		"zstd declares 1 MiB":    {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x10, 0, 1, 0, 0}, ErrMalformed},
		"zstd declares 4 GiB":    {CodecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0}, ErrLimit},
		"lz4 declares a content": {CodecLZ4, []byte{0x04, 0x22, 0x4d, 0x18, 0x68, 0x70, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0xff}, ErrMalformed},
	}
	zeros := make([]byte, bomb)
	for _, codec := range allCodecs[1:] {
		src, err := compress(nil, codec, zeros)
		if err != nil {
			t.Fatal(err)
		}
		cases[codec.String()+" bomb"] = struct {
			codec Codec
			src   []byte
			want  error
		}{codec, src, ErrLimit}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := decompress(nil, tc.codec, tc.src, limit)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, wanted %v", err, tc.want)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 8*limit {
				t.Fatalf("%d bytes allocated", cost)
			}
		})
	}
}
