package maps

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"klink/translate/exact"
)

// TestFixtures reads what a klink of version 1 has stored: keys, and values in hex.
// It must be readable for ever; the file is never changed, only added to.
func TestFixtures(t *testing.T) {
	b, err := os.ReadFile("testdata/v1.tsv")
	if err != nil {
		t.Fatal(err)
	}
	v := newView()
	for line := range strings.Lines(string(b)) {
		k, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		value, err := hex.DecodeString(text)
		if !ok || err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if text == "" {
			value = nil
		}
		v.apply([]byte(k), value)
	}
	if n := v.Malformed(); n > 0 {
		t.Fatalf("%d records are malformed", n)
	}
	m, c, err := v.Map(here)
	if err != nil {
		t.Fatal(err)
	}
	requireRuns(t, m, exact.Run{Src: 5, Dst: 7, Count: 300}, exact.Run{Src: 306, Dst: 307, Count: 1, Seq: 300},
		exact.Run{Src: 307, Dst: 400, Count: 2, Seq: 5}, exact.Run{Src: 400, Dst: 500, Count: 3_000_000_000, Seq: 7})
	if want := (Cursor{Src: 20, Dst: 115, Seq: 15, At: time.UnixMilli(1_700_000_000_000).UTC()}); c != want {
		t.Errorf("cursor %+v, want %+v", c, want)
	}
	other := here
	other.Partition++
	m, c, err = v.Map(other)
	if err != nil || c != (Cursor{}) {
		t.Fatal(c, err)
	}
	requireRuns(t, m, exact.Run{Src: 0, Dst: 0, Count: 1}, exact.Run{Src: 2, Dst: 1, Count: 4, Seq: 1})
}
