package main

import (
	"fmt"
	"math"
)

// pledge is one thing that klink is held to, in one workload.
type pledge struct {
	workload string
	what     string
	figure   string
	beside   string  // the system that klink is compared with; "" for an absolute figure
	bound    float64 // of klink's figure, or of klink's divided by the other's
	atLeast  bool    // the bound is the least; otherwise the most
}

// pledges are what klink is held to, where this program measures it.
func pledges() []pledge {
	all := []pledge{
		{"W1", "MB/s", mbPerSecond, mm2System, 4, true},
		{"W1", "mirror CPU per GB", mirrorCPU, mm2System, 1. / 8, false},
		{"W1", "MB/s", mbPerSecond, loopSystem, 0.9, true},
		{"W2", "peak RSS", peakRSS, mm2System, 1. / 10, false},
		{"W2", "peak RSS MiB", peakRSS, "", 128, false},
		{"P1000", "peak RSS MiB", peakRSS, "", 128, false},
		{"W4", "MB/s", mbPerSecond, mm2System, 8, true},
		{"W4", "mirror CPU per GB", mirrorCPU, mm2System, 1. / 12, false},
		{"W4", "target broker CPU per GB", targetCPU, mm2System, 1, false},
		{"latency", "added p50", addedP50, mm2System, 1. / 3, false},
		{"latency", "added p99", addedP99, mm2System, 1. / 2, false},
		{"latency", "added p50 ms", addedP50, "", 3, false},
		{"latency", "added p99 ms", addedP99, "", 8, false},
		{"start", "first record s", firstRecord, "", 1, false},
		{"idle", "mirror's cores", mirrorCores, "", 0.05, false},
		{"failover", "read again beyond the uncommitted", readAgainBeyond, "", streamRate / 4, false},
		{"R8", "MB/s", mbPerSecond, mm2System, 1, true},
		{"R100", "MB/s", mbPerSecond, mm2System, 1, true},
	}
	for _, w := range []string{"W2", "W3", "W5"} {
		all = append(all,
			pledge{w, "MB/s", mbPerSecond, mm2System, 4, true},
			pledge{w, "mirror CPU per GB", mirrorCPU, mm2System, 1. / 12, false},
			pledge{w, "brokers' CPU per GB", brokersCPU, mm2System, 2. / 3, false},
			pledge{w, "MB/s", mbPerSecond, loopSystem, 0.9, true})
	}
	return append(all, keepingPledges()...)
}

// keepingPledges are about logs that are not all records at successive offsets.
func keepingPledges() []pledge {
	all := []pledge{
		{"fill", "offsets/s", offsetsPerSecond, loopSystem, 0.8, true},
		{"pad", "offsets/s", offsetsPerSecond, loopSystem, 0.8, true},
		{"pad", "offsets/s", offsetsPerSecond, "", 1_000_000, true},
		{"streams1", "offsets/s", offsetsPerSecond, loopSystem, 0.7, true},
		{"streams8", "offsets/s", offsetsPerSecond, loopSystem, 0.7, true},
		{"recode", "recoding lz4, MB per CPU s", recodeLZ4, "", 200, true},
		{"recode", "recoding snappy, MB per CPU s", recodeSnappy, "", 200, true},
	}
	all = append(all,
		pledge{"compare", "MB/s, of the bare loop's", compareShare, "", 0.8, true},
		pledge{"compare", "--no-digest MB/s, of bare reading's", compareBytesShare, "", 0.8, true})
	for _, w := range []string{"fill", "pad", "streams1", "streams8", "recode"} {
		all = append(all, pledge{w, "peak RSS MiB", peakRSS, "", 160, false})
	}
	return all
}

// measured is klink's figure, or its ratio; NaN where it was not measured.
func (p pledge) measured(r results) float64 {
	v := r.median(p.workload, klinkSystem, p.figure)
	if p.beside != "" {
		v = ratio(v, r.median(p.workload, p.beside, p.figure))
	}
	return v
}

// kept says whether a measured figure is within the bound.
func (p pledge) kept(v float64) bool {
	if p.atLeast {
		return v >= p.bound
	}
	return v <= p.bound
}

// heldTable lists the pledges that this run has figures for.
func (r results) heldTable() string {
	t := newTable("What klink is held to", "workload", "figure", "beside", "measured", "held to", "")
	for _, w := range workloadNames() {
		for _, p := range pledges() {
			v := p.measured(r)
			if p.workload != w || math.IsNaN(v) {
				continue
			}
			verdict := map[bool]string{true: "kept", false: "MISSED"}[p.kept(v)]
			beside, sign := map[string]string{mm2System: "MirrorMaker 2", loopSystem: "bare loop"}[p.beside], "<="
			if p.atLeast {
				sign = ">="
			}
			t.add(w, p.what, beside, p.text(v), fmt.Sprintf("%s %s", sign, p.text(p.bound)), verdict)
		}
	}
	return t.String()
}

// text writes a figure as it is, and a ratio the way it is easily read: 4x, 1/12.
func (p pledge) text(v float64) string {
	switch {
	case p.beside == "" && v >= 10_000:
		return fmt.Sprintf("%.0f", v)
	case p.beside == "":
		return fmt.Sprintf("%.4g", v)
	case v > 0 && v < 0.55:
		return fmt.Sprintf("1/%.3g", 1/v)
	default:
		return fmt.Sprintf("%.3gx", v)
	}
}
