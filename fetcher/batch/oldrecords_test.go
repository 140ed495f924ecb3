package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"
)

var oldCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLZ4}

// oldFixtures calls each with every fixture of old format: name, entries and
// what Kafka's own classes read there.
func oldFixtures(t *testing.T, each func(t *testing.T, entries [][]byte, want []seen)) {
	t.Helper()
	files, err := filepath.Glob("testdata/fixtures/old/*.bin")
	if err != nil || len(files) < 24 { // 2 formats, 4 codecs, compacted or not, and append times
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".bin"), func(t *testing.T) {
			log, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			entries, rest, err := Split(log)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%d bytes left, %v", len(rest), err)
			}
			each(t, entries, readSeen(t, strings.TrimSuffix(file, ".bin")+".jsonl"))
		})
	}
}

// What Records reads, and what Recode makes of it in any codec, is what Kafka's
// classes read.
func TestOldFixturesAgreeWithJava(t *testing.T) {
	oldFixtures(t, func(t *testing.T, entries [][]byte, want []seen) {
		var direct []seen
		recoded := map[Codec][]seen{}
		for _, b := range entries {
			base, last, err := OldFormatRange(b)
			if err != nil {
				t.Fatal(err)
			}
			records := mustCollect(t, b)
			if records[0].Offset != base || records[len(records)-1].Offset != last {
				t.Fatalf("records %d to %d, range %d to %d", records[0].Offset, records[len(records)-1].Offset, base, last)
			}
			for _, r := range records {
				direct = append(direct, seenOf(r))
			}
			for _, codec := range allCodecs {
				pieces, err := Recode(b, RecodeOptions{Codec: codec})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range pieces {
					wantCanonical(t, p.Bytes, codec)
				}
				for _, r := range recordsOf(t, pieces) {
					recoded[codec] = append(recoded[codec], seenOf(r))
				}
			}
		}
		if diff := cmp.Diff(want, direct); diff != "" {
			t.Fatalf("(-Java +klink)\n%s", diff)
		}
		for codec, got := range recoded {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: (-Java +klink)\n%s", codec, diff)
			}
		}
	})
}

// The fixtures hold what they were made for.
func TestOldFixturesShowWhatTheyAreFor(t *testing.T) {
	codecs, appendTimes, holes, wrongChecksums := map[Codec]int{}, 0, 0, 0
	oldFixtures(t, func(t *testing.T, entries [][]byte, want []seen) {
		for _, b := range entries {
			m, _, err := cutOldMessage(b)
			if err != nil {
				t.Fatal(err)
			}
			codecs[CodecOf(b)]++
			if m.logAppendTime() {
				appendTimes++
			}
			if m.codec() == CodecLZ4 && m.magic == 0 && m.value[6] != lz4Frame[6] { // KIP-57
				wrongChecksums++
			}
		}
		if int(want[len(want)-1].Offset-want[0].Offset)+1 > len(want) {
			holes++
		}
	})
	for _, codec := range oldCodecs {
		if codecs[codec] == 0 {
			t.Errorf("no %s", codec)
		}
	}
	if appendTimes == 0 || holes == 0 || wrongChecksums == 0 {
		t.Errorf("%d append times, %d holes, %d wrong checksums", appendTimes, holes, wrongChecksums)
	}
}

// Records and Recode against the oracle: both formats, mixed ones, all codecs,
// holes, relative offsets that begin at 0 or not, both kinds of timestamp.
func TestOldRecordsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := oldShape{
			magic:      rapid.SampledFrom([]byte{0, 1}).Draw(t, "magic"),
			innerMagic: rapid.SampledFrom([]byte{0, 1}).Draw(t, "inner magic"),
			codec:      rapid.SampledFrom(oldCodecs[1:]).Draw(t, "codec"),
			attributes: rapid.SampledFrom([]byte{0, logAppendTimeBit}).Draw(t, "timestamp type"),
			appendTime: drawTimestamp.Draw(t, "append time"),
			relative:   rapid.Int64Range(0, 5).Draw(t, "relative"),
		}
		base := rapid.Int64Range(5, 1<<40).Draw(t, "base")
		var kept []Record
		for i, r := range drawRecords(t, base, 20) {
			if i == 0 || rapid.IntRange(0, 3).Draw(t, "keep") > 0 {
				r.Headers = nil
				kept = append(kept, r)
			}
		}
		b := oldEncode(t, kept, shape)
		want, err := oracleOldDecode(b)
		if err != nil {
			t.Fatal(err)
		}
		wantRecords(t, mustCollect(t, b), want)
		if first, last, err := OldFormatRange(b); err != nil || first != kept[0].Offset || last != kept[len(kept)-1].Offset {
			t.Fatalf("%d to %d, %v", first, last, err)
		}
		opt := RecodeOptions{Codec: drawCodec.Draw(t, "to"), From: base + rapid.Int64Range(-1, 10).Draw(t, "from")}
		pieces, err := Recode(b, opt)
		if err != nil {
			t.Fatal(err)
		}
		var above []Record
		for _, r := range want {
			if r.Offset >= opt.From {
				above = append(above, r)
			}
		}
		wantRecords(t, recordsOf(t, pieces), above)
	})
}

// Every way a record's timestamp may come about.
func TestOldTimestamps(t *testing.T) {
	const own, appended = 111, 999
	for name, tc := range map[string]struct {
		shape oldShape
		want  int64
	}{
		"magic 0":                          {oldShape{magic: 0, innerMagic: 0}, -1},
		"magic 0, a bit without meaning":   {oldShape{magic: 0, innerMagic: 0, attributes: logAppendTimeBit}, -1},
		"magic 1, create time":             {oldShape{magic: 1, innerMagic: 1}, own},
		"magic 1, append time":             {oldShape{magic: 1, innerMagic: 1, attributes: logAppendTimeBit}, appended},
		"magic 0 in 1, append time":        {oldShape{magic: 1, innerMagic: 0, attributes: logAppendTimeBit}, -1},
		"magic 1 in 0":                     {oldShape{magic: 0, innerMagic: 1}, own},
		"magic 1 in 0, bit without effect": {oldShape{magic: 0, innerMagic: 1, attributes: logAppendTimeBit}, own},
	} {
		t.Run(name, func(t *testing.T) {
			tc.shape.codec, tc.shape.appendTime = CodecGzip, appended
			got := mustCollect(t, oldEncode(t, []Record{{Offset: 7, Timestamp: own}}, tc.shape))
			if len(got) != 1 || got[0].Timestamp != tc.want {
				t.Fatalf("%+v, wanted %d", got, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		b    []byte
		want int64
	}{
		"alone, magic 0":     {oldBytesAt(0, 7, own, nil, nil), -1},
		"alone, create time": {oldBytesAt(1, 7, own, nil, nil), own},
	} {
		if got := mustCollect(t, tc.b); len(got) != 1 || got[0].Timestamp != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Null and empty are kept apart, in either format, alone and wrapped.
func TestOldNullAndEmpty(t *testing.T) {
	records := []Record{
		{Offset: 4, Timestamp: -1}, {Offset: 5, Timestamp: -1, Key: []byte{}}, {Offset: 6, Timestamp: -1, Value: []byte{}},
		{Offset: 7, Timestamp: -1, Key: []byte{}, Value: []byte{}}, {Offset: 8, Timestamp: -1, Key: []byte("k"), Value: []byte("v")},
	}
	for _, magic := range []byte{0, 1} {
		wantRecords(t, mustCollect(t, oldEncode(t, records, oldShape{magic: magic, innerMagic: magic, codec: CodecSnappy})), records)
		for _, r := range records {
			wantRecords(t, mustCollect(t, oldBytesAt(magic, r.Offset, -1, r.Key, r.Value)), []Record{r})
		}
	}
}

// Dialects of compression that only stand in old formats, or mostly.
func TestOldDialects(t *testing.T) {
	set := oldBytes(0, 40, nil, []byte("first"), CodecNone)
	set = append(set, oldBytes(0, 41, nil, bytes.Repeat([]byte("value "), 20_000), CodecNone)...)
	wrongHead := kgoCompress(t, CodecLZ4, set)
	wrongHead[6] ^= 0xff
	for name, tc := range map[string]struct {
		codec Codec
		value []byte
	}{
		"lz4 with a wrong header checksum": {CodecLZ4, wrongHead},
		"bare snappy":                      {CodecSnappy, s2.EncodeSnappy(nil, set)},
		"snappy in xerial frames":          {CodecSnappy, appendXerial(nil, set)},
	} {
		got := mustCollect(t, oldBytes(0, 41, nil, tc.value, tc.codec))
		if len(got) != 2 || string(got[0].Value) != "first" || len(got[1].Value) != 120_000 || got[1].Offset != 41 {
			t.Errorf("%s: %d records", name, len(got))
		}
	}
}

func TestOldRecordsRefuse(t *testing.T) {
	inner := func(offset int64) []byte { return oldBytes(1, offset, []byte("k"), []byte("v"), CodecNone) }
	wrap := func(offset int64, set ...[]byte) []byte {
		return oldBytes(1, offset, nil, kgoCompress(t, CodecGzip, bytes.Join(set, nil)), CodecGzip)
	}
	broken := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	resized := func(b []byte, change func([]byte)) []byte {
		b = bytes.Clone(b)
		change(b)
		resealOld(b)
		return b
	}
	alone := inner(5)
	longer := append(bytes.Clone(alone), 0)
	binary.BigEndian.PutUint32(longer[8:], uint32(len(longer)-12))
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"damaged":                    {broken(alone, len(alone)-1), ErrCRC},
		"damaged wrapper":            {broken(wrap(5, inner(0)), 40), ErrCRC},
		"damaged inner message":      {wrap(5, inner(0), broken(inner(1), len(alone)-1)), ErrCRC},
		"cut":                        {alone[:len(alone)-1], ErrMalformed},
		"trailing":                   {append(bytes.Clone(alone), 1), ErrMalformed},
		"bytes after the value":      {resized(longer, func([]byte) {}), ErrMalformed},
		"key beyond the message":     {resized(alone, func(b []byte) { b[26] = 0x7f }), ErrMalformed},
		"key of length -2":           {resized(alone, func(b []byte) { copy(b[26:], []byte{255, 255, 255, 254}) }), ErrMalformed},
		"no timestamp":               {resized(oldBytes(0, 5, nil, nil, CodecNone), func(b []byte) { b[16] = 1 }), ErrMalformed},
		"negative offset":            {inner(-1), ErrMalformed},
		"offset near the end":        {inner(1<<63 - 1), ErrMalformed},
		"negative inner offset":      {wrap(5, inner(-1)), ErrMalformed},
		"inner offsets repeat":       {wrap(5, inner(1), inner(1)), ErrMalformed},
		"inner offsets fall":         {wrap(5, inner(1), inner(0)), ErrMalformed},
		"inner offset above":         {wrap(5, inner(0), inner(6)), ErrMalformed},
		"inner of magic 2":           {wrap(5, resized(inner(0), func(b []byte) { b[16] = 2 })), ErrMalformed},
		"wrapper in a wrapper":       {wrap(5, wrap(0, inner(0))), ErrMalformed},
		"half an inner message":      {wrap(5, inner(0), inner(1)[:20]), ErrMalformed},
		"inner size hostile":         {wrap(5, resized(inner(0), func(b []byte) { b[8] = 0x7f })), ErrMalformed},
		"inner size negative":        {wrap(5, resized(inner(0), func(b []byte) { b[8] = 0xff })), ErrMalformed},
		"no inner message":           {wrap(5), ErrMalformed},
		"null wrapper":               {oldBytes(1, 5, nil, nil, CodecLZ4), ErrMalformed},
		"zstd":                       {oldBytes(1, 5, nil, kgoCompress(t, CodecZstd, inner(0)), CodecZstd), ErrCodec},
		"unknown codec":              {oldBytes(0, 5, nil, inner(0), 7), ErrCodec},
		"absolute offset beyond":     {oldBytes(0, 5, nil, kgoCompress(t, CodecGzip, oldBytes(0, 6, nil, nil, CodecNone)), CodecGzip), ErrMalformed},
		"snappy declares 4 GiB":      {oldBytes(0, 5, nil, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1, 2}, CodecSnappy), ErrMalformed},
		"first message and no other": {wrap(5, inner(0), make([]byte, 11)), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if records, err := collect(Records(tc.b, Limits{})); !errors.Is(err, tc.want) {
				t.Fatalf("%d records, %v; wanted %v", len(records), err, tc.want)
			}
			if pieces, err := Recode(tc.b, RecodeOptions{}); !errors.Is(err, tc.want) || pieces != nil {
				t.Fatalf("%d pieces, %v; wanted %v", len(pieces), err, tc.want)
			}
		})
	}
}

// B2: a bomb costs its limit, a single message is in memory already.
func TestOldRecordsLimit(t *testing.T) {
	const limit = 1 << 20
	lim := Limits{MaxUncompressedBytes: limit}
	for _, codec := range oldCodecs[1:] {
		packed, err := compress(nil, codec, make([]byte, 64<<20))
		if err != nil {
			t.Fatal(err)
		}
		bomb := oldBytes(0, 5, nil, packed, codec)
		for what, read := range map[string]func() error{
			"Records": func() error { _, err := collect(Records(bomb, lim)); return err },
			"Recode":  func() error { _, err := Recode(bomb, RecodeOptions{Limits: lim}); return err },
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := read()
			runtime.ReadMemStats(&after)
			if cost := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrLimit) || cost > 8*limit {
				t.Errorf("%s of %s: %v, %d bytes allocated", what, codec, err, cost)
			}
		}
	}
	large := oldBytes(1, 5, nil, make([]byte, 10_000), CodecNone)
	small := Limits{MaxUncompressedBytes: 5000}
	if got, err := collect(Records(large, small)); err != nil || len(got) != 1 {
		t.Error(len(got), err)
	}
	if got, err := Recode(large, RecodeOptions{Limits: small}); err != nil || len(got) != 1 {
		t.Error(len(got), err)
	}
}

// A wrapper of magic 0 whose offset lies beyond its last message: a reader's next
// offset is the one after the wrapper.
func TestOldWrapperBeyondItsLastMessage(t *testing.T) {
	set := append(oldBytes(0, 40, nil, nil, CodecNone), oldBytes(0, 41, nil, nil, CodecNone)...)
	entry := oldBytes(0, 44, nil, kgoCompress(t, CodecGzip, set), CodecGzip)
	if base, last, err := OldFormatRange(entry); err != nil || base != 40 || last != 44 {
		t.Fatalf("%d to %d, %v", base, last, err)
	}
	pieces, err := Recode(entry, RecodeOptions{})
	if want := []span{{40, 2}}; err != nil || !slices.Equal(spansOf(pieces), want) {
		t.Fatalf("%v, %v", spansOf(pieces), err)
	}
}

func TestOldRecordsStopEarly(t *testing.T) {
	for r, err := range Records(oldWrapper(t, 1, 100, 5, CodecLZ4), Limits{}) {
		if err != nil || r.Offset != 100 {
			t.Fatal(r, err)
		}
		break
	}
}

func TestCodecOf(t *testing.T) {
	for _, codec := range allCodecs {
		if got := CodecOf(oracleEncode(t, jsonRecords(0, 2, 9), batchShape{codec: codec, attributes: transactionalBit})); got != codec {
			t.Errorf("magic 2: %s for %s", got, codec)
		}
		for magic := range byte(2) {
			if got := CodecOf(oldBytes(magic, 1, nil, nil, codec|logAppendTimeBit)); got != codec {
				t.Errorf("magic %d: %s for %s", magic, got, codec)
			}
		}
	}
	for n := range 23 {
		if got := CodecOf(bytes.Repeat([]byte{1}, n)); n < 18 && got != CodecNone {
			t.Errorf("%d bytes: %s", n, got)
		}
	}
}
