package main

import (
	"math"
	"testing"
	"time"
)

// at makes a sample of a run in which the mirror uses half a core, the source
// broker a tenth, the target broker one, and others a quarter.
func at(ms, records int64) sample {
	d := time.Duration(ms) * time.Millisecond
	return sample{at: d, records: records, usage: usage{mirror: d / 2, src: d / 10, dst: d, self: d / 20, all: d/2 + d/10 + d + d/20 + d/4}}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		name                      string
		samples                   []sample
		wholeRecords, halfRecords int64
		wholeMs, halfMs           int64
	}{
		{"from the first records to the last", []sample{at(0, 0), at(1000, 0), at(1100, 100), at(1600, 400), at(2100, 600), at(2600, 1100)}, 1000, 500, 1500, 500},
		{"the half is one of records, not of time", []sample{at(0, 0), at(100, 1), at(900, 50), at(1000, 101), at(1100, 201)}, 200, 100, 1000, 100},
		{"over between two polls", []sample{at(0, 0), at(100, 0), at(120, 700)}, 700, 700, 20, 20},
		{"records at the first poll of all", []sample{at(5, 10), at(25, 20)}, 10, 10, 20, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, half, ok := spans(c.samples)
			if !ok {
				t.Fatal("not measured")
			}
			if whole.records != c.wholeRecords || whole.elapsed.Milliseconds() != c.wholeMs {
				t.Errorf("whole: %d records in %s, want %d in %d ms", whole.records, whole.elapsed, c.wholeRecords, c.wholeMs)
			}
			if half.records != c.halfRecords || half.elapsed.Milliseconds() != c.halfMs {
				t.Errorf("second half: %d records in %s, want %d in %d ms", half.records, half.elapsed, c.halfRecords, c.halfMs)
			}
		})
	}
}

func TestSpansOfNothing(t *testing.T) {
	for name, samples := range map[string][]sample{
		"no samples":   nil,
		"no records":   {at(0, 0), at(20, 0)},
		"one poll":     {at(20, 5)},
		"nothing more": {at(20, 5), at(40, 5)},
	} {
		if _, _, ok := spans(samples); ok {
			t.Errorf("%s: measured", name)
		}
	}
}

func TestFigures(t *testing.T) {
	whole := between(at(1000, 0), at(3000, 4_000_000))
	second := between(at(2500, 2_000_000), at(3000, 4_000_000))
	got := figures(whole, second, 500)
	for figure, want := range map[string]float64{
		mbPerSecond:      2000,
		mirrorCPU:        0.25,
		brokersCPU:       0.55,
		targetCPU:        0.5,
		wholeMBPerSecond: 1000,
		wholeMirrorCPU:   0.5,
		wholeBrokersCPU:  1.1,
		wholeTargetCPU:   1,
		measuredSeconds:  2,
		measuredRecords:  4_000_000,
		othersCores:      0.25,
	} {
		if math.Abs(got[figure]-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", figure, got[figure], want)
		}
	}
}

func TestOffsetFigures(t *testing.T) {
	whole := between(at(1000, 0), at(3000, 4_000_000))
	second := between(at(2500, 2_000_000), at(3000, 4_000_000))
	got := offsetFigures(whole, second)
	for figure, want := range map[string]float64{
		offsetsPerSecond:    4_000_000,
		mirrorCPUPerMillion: 0.125,
		targetCPUPerMillion: 0.25,
		measuredSeconds:     2,
		measuredOffsets:     4_000_000,
		othersCores:         0.25,
	} {
		if math.Abs(got[figure]-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", figure, got[figure], want)
		}
	}
}

func TestOthersAreNeverNegative(t *testing.T) {
	if got := (usage{mirror: 30, all: 20}).others(); got != 0 {
		t.Errorf("others %s, want 0: clocks tick at different moments", got)
	}
}
