package contrast

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ptr[T any](v T) *T { return &v }

// twoModes is a result of one that measured all and one that measured little; a
// third failed.
func twoModes() Result {
	full := ModeResult{Mode: "mirror", Findings: []string{}, Weight: &Weight{Acked: 1200, Copied: 1100, SameOffset: 1100, Behind: 100},
		Topics:    []TopicResult{{Topic: "steady", Weight: Weight{Copied: 1100, SameOffset: 1100}}},
		Groups:    []GroupResult{{Group: "current"}, {Group: "lagging"}},
		ErrorMean: ptr(0.0), ErrorMax: ptr(int64(0)), CarriedSeconds: ptr(0.012), SwitchSeconds: ptr(1.234), LagP50Seconds: ptr(0.004), LagP99Seconds: ptr(0.05),
		MBPerSecond: ptr(123.4), CPUSecondsPerGB: ptr(0.75), PeakMemoryBytes: ptr(int64(64 << 20)),
		Course: []Point{{0, 0.1, 0}, {0.5, 0.2, 0}, {2, 0.1, 0}}}
	some := ModeResult{Mode: "other", Findings: []string{"3 records are lost"}, Weight: &Weight{Acked: 1200, Copied: 1000, SameOffset: 333, Lost: 3, Twice: 2},
		Topics: []TopicResult{{Topic: "steady", Weight: Weight{Copied: 1000, SameOffset: 333}}},
		Groups: []GroupResult{{Group: "current", ReadAgain: 1234}, {Group: "lagging", NeverGiven: 7}}, PatienceSeconds: 20,
		ErrorMean: ptr(212.5), ErrorMax: ptr(int64(1234)), Course: []Point{{0, 0.3, 120}, {1, 3, 340}}}
	return Result{AsOf: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Seed: 7, LoadSeconds: 10, RecordsPerSecond: 2000, Clusters: "two", Machine: "2 cores",
		Modes: []ModeResult{full, some, {Mode: "third", Error: "it <ended>"}}}
}

func golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), written anew with -update:\n%s", file, diff)
	}
}

func TestPrint(t *testing.T) {
	var b bytes.Buffer
	if err := twoModes().Print(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/contrast.golden", b.String())
}

// X3.
func TestWhatNobodyMeasuredHasNoRow(t *testing.T) {
	r := twoModes()
	r.Modes = r.Modes[1:]
	for _, row := range r.Rows() {
		if row.Name == "MB/s" || row.Name == "peak memory" || strings.HasPrefix(row.Name, "lag") {
			t.Errorf("there is %+v", row)
		}
	}
}

// The page needs nothing from elsewhere, and its pictures are well formed.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := WritePage(&b, twoModes()); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"not all promises kept", "it &lt;ended&gt;", "3 records are lost", "other: 340 records at 1.0 s", "other: 3 s at 1.0 s", ">1,234</text>", ">0; 7 never given</text>", "--seed 7"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, never := range []string{"<script", "http:", "https:", "src="} {
		if strings.Contains(text, never) {
			t.Errorf("it has %q", never)
		}
	}
	pictures := strings.Split(text, "<svg")[1:]
	if len(pictures) != 3 {
		t.Fatalf("%d pictures", len(pictures))
	}
	for i, p := range pictures {
		svg, _, _ := strings.Cut("<svg"+p, "</svg>")
		d := xml.NewDecoder(strings.NewReader(svg + "</svg>"))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("picture %d: %v\n%s", i, err, svg)
			}
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	if err := WritePage(io.Discard, Result{}); err != nil {
		t.Fatal(err)
	}
}

func TestCeiling(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.03: 0.05, 1: 1, 1.1: 2, 3: 5, 7: 10, 340: 500, 1000: 1000} {
		if got := ceiling(v); got < want*0.999 || got > want*1.001 {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
	}
}
