package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sampleResults() results {
	made := func(workload, system string, round int, values map[string]float64) run {
		r := run{Workload: workload, System: system, Round: round, Values: values}
		if isMM2(system) {
			r.Settings = mm2SettingsOf(system, workloadNamed(workload))
		}
		return r
	}
	speed := func(mb, cpu, brokers, target, rss, seconds float64) map[string]float64 {
		return map[string]float64{mbPerSecond: mb, mirrorCPU: cpu, brokersCPU: brokers, targetCPU: target, peakRSS: rss, firstRecord: 0.25, measuredSeconds: seconds, othersCores: 0.05}
	}
	delay := func(p50, p99 float64) map[string]float64 {
		return map[string]float64{directP50: 6, directP99: 12, mirroredP50: 6 + p50, mirroredP99: 12 + p99, addedP50: p50, addedP99: p99, mirrorCores: 0.06, peakRSS: 40, othersCores: 0.1}
	}
	kept := func(offsets, mirror, target, rss float64) map[string]float64 {
		return map[string]float64{offsetsPerSecond: offsets, mirrorCPUPerMillion: mirror, targetCPUPerMillion: target, peakRSS: rss, firstRecord: 3.5, measuredSeconds: 20, othersCores: 0.05}
	}
	failed := made("W2", klinkSystem, 4, nil)
	failed.Error = "no progress for 1m0s\nand the log"
	return results{
		Machine: "a machine",
		Started: time.Date(2026, 11, 29, 20, 15, 0, 0, time.UTC),
		Size:    "long",
		Runs: []run{
			made("W2", klinkSystem, 1, speed(250, 1.8, 4, 3.5, 90, 12)),
			made("W2", mm2System, 1, speed(50, 27, 6.5, 5, 2400, 60)),
			made("W2", loopSystem, 1, speed(270, 1.5, 3.9, 3.4, 120, 11)),
			made("W2", klinkSystem, 2, speed(260, 1.6, 4, 3.5, 92, 12)),
			made("W2", mm2System, 2, speed(54, 28, 6.4, 5, 2300, 60)),
			made("W2", klinkSystem, 3, speed(240, 1.7, 4, 3.5, 91, 12)),
			made("W4", mm2System, 1, speed(12, 90, 30, 25, 1300, 31)),
			made("fill", klinkSystem, 1, kept(15_000, 2, 45, 30)),
			made("fill", loopSystem, 1, kept(20_000, 1, 44, 16)),
			made("pad", klinkSystem, 1, kept(2_500_000, 0.01, 0.2, 38)),
			made("recode", klinkSystem, 1, map[string]float64{recodeLZ4: 420, recodeSnappy: 190, wholeRecode: 250, mbPerSecond: 150, peakRSS: 110, othersCores: 0.05}),
			made("latency", klinkSystem, 1, delay(1.5, 9)),
			made("latency", mm2System, 1, delay(8.5, 14)),
			made("start", klinkSystem, 1, map[string]float64{firstRecord: 0.42, peakRSS: 35}),
			made("idle", klinkSystem, 1, map[string]float64{mirrorCores: 0.012, brokersCores: 0.05, peakRSS: 60, othersCores: 0.05}),
			made("idle", mm2System, 1, map[string]float64{mirrorCores: 0.2, brokersCores: 0.06, peakRSS: 900, othersCores: 0.05}),
			made("failover", klinkSystem, 1, map[string]float64{readAgain: 2500, behindCommit: 2400, readAgainBeyond: 100, switchSeconds: 1.2, mirrorCores: 0.08, peakRSS: 40, othersCores: 0.05}),
			made("failover", mm2System, 1, map[string]float64{readAgain: 8800, behindCommit: 1968, readAgainBeyond: 6832, switchSeconds: 0, mirrorCores: 0.8, peakRSS: 1500, othersCores: 0.05}),
			failed,
		},
	}
}

// TestMarkdown compares the report with testdata/report.md; KLINK_REWRITE=1
// writes that file anew, for a person to read the difference.
func TestMarkdown(t *testing.T) {
	path := filepath.Join("testdata", "report.md")
	got := sampleResults().markdown()
	if os.Getenv("KLINK_REWRITE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestPledges(t *testing.T) {
	r := sampleResults()
	for _, c := range []struct {
		name string
		p    pledge
		want float64
		kept bool
	}{
		{"faster than another", pledge{"W2", "", mbPerSecond, mm2System, 4, true}, 250. / 52, true},
		{"not fast enough", pledge{"W2", "", mbPerSecond, mm2System, 5, true}, 250. / 52, false},
		{"less than another", pledge{"W2", "", mirrorCPU, mm2System, 1. / 12, false}, 1.7 / 27.5, true},
		{"absolute", pledge{"latency", "", addedP99, "", 8, false}, 9, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.p.measured(r)
			if math.Abs(v-c.want) > 1e-9 || c.p.kept(v) != c.kept {
				t.Errorf("measured %v, kept %t; want %v, %t", v, c.p.kept(v), c.want, c.kept)
			}
		})
	}
	if v := (pledge{"W1", "", mbPerSecond, mm2System, 4, true}).measured(r); !math.IsNaN(v) {
		t.Errorf("a pledge that was not measured has %v", v)
	}
}

func TestPledgesAreAboutKnownThings(t *testing.T) {
	for _, p := range pledges() {
		workloadNamed(p.workload) // panics for an unknown one
		if p.beside != "" && p.beside != mm2System && p.beside != loopSystem {
			t.Errorf("%+v is beside an unknown system", p)
		}
	}
}

func TestLatencyFigures(t *testing.T) {
	used := usage{mirror: time.Second, all: 4 * time.Second, src: time.Second, dst: time.Second}
	v, err := latencyFigures([]float64{5, 6, 7}, []float64{8, 7, 9}, used, 10*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for figure, want := range map[string]float64{directP50: 6, mirroredP50: 8, addedP50: 2, addedP99: 2, mirrorCores: 0.1, othersCores: 0.1, firstRecord: 1} {
		if math.Abs(v[figure]-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", figure, v[figure], want)
		}
	}
	if _, err := latencyFigures([]float64{5, 6}, []float64{8}, used, time.Second, time.Second); err == nil {
		t.Error("a lost record went unnoticed")
	}
}
