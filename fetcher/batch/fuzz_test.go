package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// fuzzLimit keeps the fuzzer quick; the bound itself is part of the invariants.
const fuzzLimit = 1 << 20

// seedLogs adds the fixtures' logs to the corpus.
func seedLogs(f *testing.F, add func(log []byte)) {
	f.Helper()
	files, err := filepath.Glob("testdata/fixtures/*.bin")
	if err != nil || len(files) == 0 {
		f.Fatalf("fixtures: %d, %v", len(files), err)
	}
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		add(log)
	}
}

// seedBatches adds the fixtures' batches to the corpus.
func seedBatches(f *testing.F, add func(b []byte)) {
	f.Helper()
	seedLogs(f, func(log []byte) {
		whole, _, err := Split(log)
		if err != nil {
			f.Fatal(err)
		}
		for _, b := range whole {
			add(b)
		}
	})
}

// frame gives body the header fields that let it reach the decoders: length,
// magic and CRC; count and last delta are taken as they stand.
func frame(b []byte) []byte {
	b = bytes.Clone(b)
	for len(b) < HeaderLen {
		b = append(b, 0)
	}
	b[0] &= 0x3f
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-entryOverhead))
	b[magicAt] = 2
	resealCRC(b)
	return b
}

// Split:
//   - whole entries and rest, joined, are the input;
//   - every entry has its declared length and a known magic;
//   - without an error, rest is a partial entry: its declared length is beyond it;
//   - every v2 entry's header parses or is refused, without a panic.
func FuzzSplit(f *testing.F) {
	seedLogs(f, func(log []byte) { f.Add(log); f.Add(log[:len(log)-1]) })
	f.Add(oldBytes(0, 7, nil, []byte("value"), CodecNone))
	f.Fuzz(func(t *testing.T, log []byte) {
		whole, rest, err := Split(log)
		joined := append(bytes.Join(whole, nil), rest...)
		if !bytes.Equal(joined, log) {
			t.Fatal("bytes lost or moved")
		}
		for _, b := range whole {
			if int64(binary.BigEndian.Uint32(b[lengthAt:]))+entryOverhead != int64(len(b)) || Magic(b) < 0 || Magic(b) > 2 {
				t.Fatalf("entry of %d bytes, magic %d", len(b), Magic(b))
			}
			if h, err := ParseHeader(b); err == nil && (h.LastOffset() < h.BaseOffset || h.NextOffset() < 0) {
				t.Fatalf("offsets %d to %d", h.BaseOffset, h.LastOffset())
			}
		}
		if err == nil && len(rest) > magicAt && int64(binary.BigEndian.Uint32(rest[lengthAt:]))+entryOverhead <= int64(len(rest)) {
			t.Fatal("a whole entry was left over")
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}

// Patch:
//   - CheckCRC answers after it as before it (B3);
//   - the fields are as asked, the transactional bit is clear (B7), every byte
//     that is not named in Patch's contract is as it was;
//   - on an error no byte is changed.
func FuzzPatch(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(b, int64(1<<62), int16(3), int32(17)) })
	f.Fuzz(func(t *testing.T, b []byte, id int64, epoch int16, sequence int32) {
		for _, b := range [][]byte{bytes.Clone(b), frame(b)} {
			before := bytes.Clone(b)
			crcBefore := CheckCRC(b)
			if err := Patch(b, Fields{Identity{id, epoch}, sequence}); err != nil {
				if !bytes.Equal(b, before) {
					t.Fatal("refused, but changed")
				}
				continue
			}
			if crcAfter := CheckCRC(b); (crcBefore == nil) != (crcAfter == nil) {
				t.Fatalf("before: %v, after: %v", crcBefore, crcAfter)
			}
			want, _ := ParseHeader(before)
			got, err := ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			want.BaseOffset, want.LeaderEpoch, want.CRC, want.Attributes = 0, -1, got.CRC, want.Attributes&^transactionalBit
			want.ProducerID, want.ProducerEpoch, want.BaseSequence = id, epoch, sequence
			if got != want || !bytes.Equal(b[HeaderLen:], before[HeaderLen:]) {
				t.Fatalf("got %+v, wanted %+v", got, want)
			}
		}
	})
}

// Records:
//   - never more records than declared, offsets rising within the header's range (B9);
//   - never more bytes than the limit (B2);
//   - an error is one of those declared and comes last;
//   - where it succeeds and the oracle does, both have the same records.
func FuzzRecords(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		b = frame(b)
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		last, count, size, failed := h.BaseOffset-1, 0, 0, false
		for r, err := range Records(b, Limits{MaxUncompressedBytes: fuzzLimit}) {
			if failed {
				t.Fatal("went on after an error")
			}
			if err != nil {
				failed = true
				if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrLimit) && !errors.Is(err, ErrCodec) {
					t.Fatal(err)
				}
				continue
			}
			count++
			size += len(r.Key) + len(r.Value)
			if r.Offset <= last || r.Offset > h.LastOffset() {
				t.Fatalf("offset %d after %d, batch ends at %d", r.Offset, last, h.LastOffset())
			}
			last = r.Offset
		}
		if size > max(fuzzLimit, len(b)) || count > int(h.Count) || !failed && count != int(h.Count) {
			t.Fatalf("%d records of %d, %d bytes", count, h.Count, size)
		}
		if failed || len(b) > 64<<10 {
			return
		}
		if want, err := oracleDecode(b); err == nil {
			wantRecords(t, mustCollect(t, b), want)
		}
	})
}

// Recode:
//   - what Records can decode and is data can be recoded to every codec, with
//     the same records at the same offsets (B5), canonical (B6), pieces rising
//     and apart, no batch above the limit but a single record that is reported
//     as too large;
//   - what Records refuses is refused (B4).
func FuzzRecodeRoundTrip(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(b, byte(3), uint16(1000)) })
	f.Fuzz(func(t *testing.T, b []byte, codec byte, limit uint16) {
		b = frame(b)
		lim := Limits{MaxUncompressedBytes: fuzzLimit}
		opt := RecodeOptions{Codec: Codec(codec % 5), MaxBytes: 61 + int(limit), Limits: lim}
		want, decodeErr := collect(Records(b, lim))
		pieces, err := Recode(b, opt)
		switch {
		case errors.Is(err, ErrRecordTooLarge), errors.Is(err, ErrControl):
			return
		case decodeErr != nil || err != nil:
			if (err == nil) != (decodeErr == nil) {
				t.Fatalf("Records: %v, Recode: %v", decodeErr, err)
			}
			return
		}
		next := int64(0)
		for _, p := range pieces {
			if len(p.Bytes) > opt.MaxBytes || p.Base < next || p.Count <= 0 {
				t.Fatalf("%d bytes, limit %d; %d records at %d, after %d", len(p.Bytes), opt.MaxBytes, p.Count, p.Base, next)
			}
			next = p.Base + int64(p.Count)
			wantCanonical(t, p.Bytes, opt.Codec)
		}
		wantRecords(t, recordsOf(t, pieces), want)
	})
}

// Pieces with RepeatNext, from anywhere in or shortly before a batch:
//   - contiguous from From to the last surviving record, each offset a copy of
//     the next surviving record, canonical, within the limits on bytes and count;
//   - a byte for each record at least.
func FuzzRepeat(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(b, byte(3), uint16(1000), int16(-3)) })
	f.Add(holedBatch(f, batchShape{codec: CodecZstd}, 2, 3, 9), byte(4), uint16(300), int16(1))
	f.Fuzz(func(t *testing.T, b []byte, codec byte, limit uint16, from int16) {
		b = frame(b)
		lim := Limits{MaxUncompressedBytes: fuzzLimit}
		h, err := ParseHeader(b)
		if err != nil || h.LastOffsetDelta > 1000 {
			return
		}
		records, decodeErr := collect(Records(b, lim))
		opt := RecodeOptions{
			Codec: Codec(codec % 5), MaxBytes: 61 + int(limit), Limits: lim, Repeat: RepeatNext, From: max(0, h.BaseOffset+int64(from%1000)),
		}
		next := opt.From
		for p, err := range Pieces(b, opt) {
			switch {
			case errors.Is(err, ErrRecordTooLarge), errors.Is(err, ErrControl):
				return
			case err != nil:
				if decodeErr == nil {
					t.Fatal(err)
				}
				return
			}
			wantRepeats(t, p, records, opt)
			if p.Base != next {
				t.Fatalf("a batch at %d where %d is due", p.Base, next)
			}
			next += int64(p.Count)
		}
		if decodeErr != nil {
			t.Fatalf("Records: %v, but pieces up to %d", decodeErr, next)
		}
		if n := len(records); n > 0 && next != max(opt.From, records[n-1].Offset+1) {
			t.Fatalf("ends at %d, the last record is at %d", next, records[n-1].Offset)
		}
	})
}

// Merge of a log cut into batches:
//   - the result holds exactly the records of the leading batches, canonical, in
//     the codec of the first, within the limit;
//   - a refusal leaves dst as it was;
//   - the inputs are never changed (B8).
func FuzzMerge(f *testing.F) {
	seedLogs(f, func(log []byte) { f.Add(log, uint16(60000)) })
	f.Fuzz(func(t *testing.T, log []byte, limit uint16) {
		whole, _, _ := Split(log)
		var batches, before [][]byte
		next := int64(0)
		for _, b := range whole { // neighbours with valid CRCs, to get past the guards
			b = frame(b)
			binary.BigEndian.PutUint64(b, uint64(next))
			if h, err := ParseHeader(b); err == nil {
				next = h.NextOffset()
			}
			batches, before = append(batches, b), append(before, bytes.Clone(b))
		}
		opt := MergeOptions{MaxBytes: 61 + int(limit), Limits: Limits{MaxUncompressedBytes: fuzzLimit}}
		out, merged, err := Merge([]byte("dst"), batches, opt)
		if !bytes.HasPrefix(out, []byte("dst")) || err != nil && len(out) != 3 {
			t.Fatalf("%q, %v", out[:min(10, len(out))], err)
		}
		var want []Record
		for i, b := range batches {
			if !bytes.Equal(b, before[i]) {
				t.Fatalf("batch %d changed", i)
			}
			if err == nil && i < merged {
				want = append(want, mustCollect(t, b)...)
			}
		}
		if err != nil {
			return
		}
		first, _ := ParseHeader(batches[0])
		if merged < 2 || len(out)-3 > opt.MaxBytes {
			t.Fatalf("%d merged, %d bytes above %d", merged, len(out)-3, opt.MaxBytes)
		}
		h := wantCanonical(t, out[3:], first.Codec())
		wantRecords(t, recordsOf(t, []Recoded{{Base: first.BaseOffset, Count: h.Count, Bytes: out[3:]}}), want)
	})
}

// decompress:
//   - never more than the limit, no panic, whatever the bytes (B1, B2);
//   - what compress made comes back.
func FuzzDecompress(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(byte(Codec(b[attributesAt+1]&codecMask)), b[HeaderLen:]) })
	f.Fuzz(func(t *testing.T, codec byte, src []byte) {
		c := Codec(codec%4 + 1)
		const limit = 100_000
		out, err := decompress(nil, c, src, limit)
		if err == nil && len(out) > limit {
			t.Fatalf("%d bytes above %d", len(out), limit)
		}
		packed, err := compress(nil, c, src)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decompress(nil, c, packed, len(src))
		if err != nil || !bytes.Equal(back, src) {
			t.Fatalf("%s: %d bytes became %d: %v", c, len(src), len(back), err)
		}
		if len(src) > 0 {
			if _, err := decompress(nil, c, packed, len(src)-1); !errors.Is(err, ErrLimit) {
				t.Fatalf("%s: limit not seen: %v", c, err)
			}
		}
	})
}

// OldFormatRange: an error, or 0 <= base <= last and last is the entry's own offset.
// Records and Recode of an entry of magic 0 or 1:
//   - records rise strictly from base to last (with magic 0 the last one may be
//     missing), the bytes stay below the limit (B2);
//   - an error is one of those declared and comes last;
//   - where they succeed and the oracle does, all have the same records (B5);
//   - what one refuses the other does (B4).
func FuzzOldFormat(f *testing.F) {
	for _, codec := range oldCodecs {
		f.Add(oldWrapper(f, 0, 100, 3, codec))
		f.Add(oldWrapper(f, 1, 100, 3, codec))
	}
	files, err := filepath.Glob("testdata/fixtures/old/*.bin")
	if err != nil || len(files) == 0 {
		f.Fatal(len(files), err)
	}
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		entries, _, _ := Split(log)
		f.Add(entries[0])
	}
	f.Fuzz(func(t *testing.T, entry []byte) {
		entry = frameOld(entry)
		base, last, rangeErr := OldFormatRange(entry)
		if rangeErr == nil && (base < 0 || base > last || last != int64(binary.BigEndian.Uint64(entry))) {
			t.Fatalf("%d to %d", base, last)
		}
		lim := Limits{MaxUncompressedBytes: fuzzLimit}
		next, size := base, 0
		var got []Record
		var failed error
		for r, err := range Records(entry, lim) {
			if failed != nil {
				t.Fatal("went on after an error")
			}
			if failed = err; err != nil {
				known := errors.Is(err, ErrMalformed) || errors.Is(err, ErrCRC) || errors.Is(err, ErrLimit) || errors.Is(err, ErrCodec)
				if !known {
					t.Fatal(err)
				}
				continue
			}
			if r.Offset < next || r.Offset > last || r.Headers != nil {
				t.Fatalf("offset %d where %d is due, up to %d", r.Offset, next, last)
			}
			next, size, got = r.Offset+1, size+len(r.Key)+len(r.Value), append(got, r.Clone())
		}
		if size > max(fuzzLimit, len(entry)) || failed == nil && (rangeErr != nil || got[0].Offset != base || Magic(entry) == 1 && next != last+1) {
			t.Fatalf("%d records, %d bytes, up to %d of %d to %d, %v", len(got), size, next-1, base, last, rangeErr)
		}
		pieces, err := Recode(entry, RecodeOptions{Codec: CodecLZ4, Limits: lim, MaxBytes: 1 << 30})
		if (err == nil) != (failed == nil) {
			t.Fatalf("Records: %v, Recode: %v", failed, err)
		}
		if failed == nil {
			wantRecords(t, recordsOf(t, pieces), got)
			if want, err := oracleOldDecode(entry); err == nil {
				wantRecords(t, got, want)
			}
		}
	})
}

// frameOld gives an entry the fields that let it reach the decoders.
func frameOld(entry []byte) []byte {
	entry = bytes.Clone(entry)
	for len(entry) < entryOverhead+oldMinBytes {
		entry = append(entry, 0)
	}
	entry[0] &= 0x7f
	entry[magicAt] &= 1
	binary.BigEndian.PutUint32(entry[lengthAt:], uint32(len(entry)-entryOverhead))
	resealOld(entry)
	return entry
}

// ParseMarker:
//   - what it takes for a marker is a sound control batch of one offset, with one
//     record or none, and the identity of its header;
//   - what it refuses gives one of the errors declared and no value.
func FuzzParseMarker(f *testing.F) {
	seedBatches(f, func(b []byte) { f.Add(b) })
	f.Add(controlBatch(f, markerShape, controlKey(0, 1), controlValue(0, 6)))
	f.Add(plainBatch(0, 0, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = frame(b)
		m, err := ParseMarker(b)
		if err != nil {
			known := errors.Is(err, ErrMalformed) || errors.Is(err, ErrNotMarker) || errors.Is(err, ErrLimit) || errors.Is(err, ErrCodec)
			if !known || m != (Marker{}) {
				t.Fatalf("%+v, %v", m, err)
			}
			return
		}
		h, err := ParseHeader(b)
		if err != nil || !h.IsControl() || h.LastOffsetDelta != 0 || m.HeaderOnly != (h.Count == 0) ||
			m.Base != h.BaseOffset || (Identity{m.ProducerID, m.ProducerEpoch}) != (Identity{h.ProducerID, h.ProducerEpoch}) {
			t.Fatalf("%+v of %+v, %v", m, h, err)
		}
	})
}
