package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is a record as the fixtures' Java consumer wrote it down: bytes in hex,
// those of more than 64 bytes by their digest.
type seen struct {
	Offset, Timestamp int64
	Key, Value        *string
	Headers           []struct{ Key, Value *string }
}

func written(b []byte) *string {
	if b == nil {
		return nil
	}
	s := hex.EncodeToString(b)
	if len(b) > 64 {
		sum := sha256.Sum256(b)
		s = "sha256:" + hex.EncodeToString(sum[:])
	}
	return &s
}

func seenOf(r Record) seen {
	s := seen{Offset: r.Offset, Timestamp: r.Timestamp, Key: written(r.Key), Value: written(r.Value), Headers: []struct{ Key, Value *string }{}}
	for _, h := range r.Headers {
		s.Headers = append(s.Headers, struct{ Key, Value *string }{written(h.Key), written(h.Value)})
	}
	return s
}

type fixture struct {
	name    string
	batches [][]byte
	headers []Header
	seen    []seen
}

func loadFixtures(t *testing.T) []fixture {
	t.Helper()
	files, err := filepath.Glob("testdata/fixtures/*.bin")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	var all []fixture
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := fixture{name: strings.TrimSuffix(filepath.Base(file), ".bin")}
		var rest []byte
		if f.batches, rest, err = Split(log); err != nil || len(rest) > 0 {
			t.Fatalf("%s: %d bytes left, %v", f.name, len(rest), err)
		}
		for _, b := range f.batches {
			h, err := ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			f.headers = append(f.headers, h)
		}
		f.seen = readSeen(t, strings.TrimSuffix(file, ".bin")+".jsonl")
		all = append(all, f)
	}
	return all
}

// readSeen reads what a fixture's reader wrote down.
func readSeen(tb testing.TB, file string) []seen {
	tb.Helper()
	lines, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var all []seen
	for s := bufio.NewScanner(bytes.NewReader(lines)); s.Scan(); {
		var r seen
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// What Records reads from a broker's bytes is what a Java consumer saw there.
func TestFixturesAgreeWithJavaConsumer(t *testing.T) {
	for _, f := range loadFixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			var got []seen
			for i, b := range f.batches {
				if err := CheckCRC(b); err != nil {
					t.Fatal(err)
				}
				if f.headers[i].IsControl() {
					continue
				}
				records := mustCollect(t, b)
				for _, r := range records {
					got = append(got, seenOf(r))
				}
				if want, err := oracleDecode(b); err == nil {
					wantRecords(t, records, want)
				} else {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(f.seen, got); diff != "" {
				t.Fatalf("(-Java +klink)\n%s", diff)
			}
		})
	}
}

// The fixtures hold what they were made for: a broker that stops making it would
// leave the other tests empty.
func TestFixturesShowWhatTheyAreFor(t *testing.T) {
	want := map[string][]func(*Header) bool{
		"transactions":           {(*Header).IsControl, (*Header).IsTransactional},
		"append-time-none":       {(*Header).LogAppendTime},
		"append-time-zstd":       {(*Header).LogAppendTime},
		"compacted-none":         {(*Header).HasHoles, (*Header).HasDeleteHorizon},
		"compacted-zstd":         {(*Header).HasHoles, (*Header).HasDeleteHorizon},
		"compacted-transactions": {(*Header).HasHoles, (*Header).IsControl, (*Header).IsTransactional},
	}
	for _, codec := range allCodecs {
		is := func(h *Header) bool { return h.Codec() == codec }
		want["java-"+codec.String()] = append(want["java-"+codec.String()], is)
		want["franz-"+codec.String()] = append(want["franz-"+codec.String()], is)
	}
	for _, f := range loadFixtures(t) {
		checks := want[f.name]
		delete(want, f.name)
		for i, check := range checks {
			found := false
			for _, h := range f.headers {
				found = found || check(&h)
			}
			if !found {
				t.Errorf("%s does not show its property %d: %+v", f.name, i, f.headers)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// A real log, patched, recoded or merged, keeps its records.
func TestFixturesSurviveRewriting(t *testing.T) {
	for _, f := range loadFixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			var neighbours [][]byte
			var want []Record
			for i, b := range f.batches {
				h := f.headers[i]
				if h.IsControl() {
					continue
				}
				records := mustCollect(t, b)
				for _, codec := range allCodecs {
					pieces, err := Recode(b, RecodeOptions{Codec: codec})
					if err != nil {
						t.Fatal(err)
					}
					wantRecords(t, recordsOf(t, pieces), records)
				}
				if Mergeable(&h) != nil {
					continue
				}
				if len(want) > 0 && h.BaseOffset != want[len(want)-1].Offset+1 {
					break
				}
				neighbours, want = append(neighbours, b), append(want, records...)

				patched := bytes.Clone(b)
				if err := Patch(patched, Fields{Identity{1 << 62, 1}, 5}); err != nil {
					t.Fatal(err)
				}
				wantRecords(t, recordsOf(t, []Recoded{{Base: h.BaseOffset, Count: h.Count, Bytes: patched}}), records)
			}
			if len(neighbours) < 2 {
				return
			}
			out, n, err := Merge(nil, neighbours, MergeOptions{})
			if err != nil || n != len(neighbours) {
				t.Fatalf("%d of %d merged, %v", n, len(neighbours), err)
			}
			wantRecords(t, recordsOf(t, []Recoded{{Base: want[0].Offset, Count: int32(len(want)), Bytes: out}}), want)
		})
	}
}
