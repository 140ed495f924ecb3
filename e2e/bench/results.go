package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// results are everything that was measured, as the JSON file holds it.
type results struct {
	Machine string    `json:"machine"`
	Started time.Time `json:"started"`
	Size    string    `json:"size"`
	Runs    []run     `json:"runs"`
}

// run is one measurement.
type run struct {
	Workload string             `json:"workload"`
	System   string             `json:"system"`
	Settings string             `json:"settings,omitempty"` // of MirrorMaker 2
	Round    int                `json:"round"`
	Values   map[string]float64 `json:"values,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// brief is the run on one line, for progress.
func (r run) brief() string {
	if r.Error != "" {
		return "FAILED: " + r.Error
	}
	formats := []struct{ figure, format string }{
		{mbPerSecond, "%.0f MB/s"},
		{offsetsPerSecond, "%.0f offsets/s"},
		{recodeLZ4, "recodes lz4 at %.0f MB per CPU s"},
		{recodeSnappy, "snappy at %.0f"},
		{wholeRecode, "all of klink %.0f"},
		{compareDigests, "compares %.0f MB/s"},
		{compareShare, "%.2f of the bare loop"},
		{compareBytes, "without digests %.0f MB/s"},
		{compareBytesShare, "%.2f of bare reading"},
		{mirrorCPU, "mirror %.2f CPU s/GB"},
		{brokersCPU, "brokers %.2f CPU s/GB"},
		{measuredSeconds, "measured for %.1f s"},
		{addedP50, "adds %.1f ms (p50)"},
		{addedP99, "%.1f ms (p99)"},
		{mirrorCores, "mirror %.3f cores"},
		{brokersCores, "brokers %.3f cores"},
		{readAgain, "%.0f records read again"},
		{behindCommit, "%.0f lay behind the last commit"},
		{switchSeconds, "switched in %.2f s"},
		{firstRecord, "first record after %.2f s"},
		{peakRSS, "%.0f MiB"},
		{othersCores, "others %.2f cores"},
	}
	var parts []string
	for _, f := range formats {
		if v, ok := r.Values[f.figure]; ok {
			parts = append(parts, fmt.Sprintf(f.format, v))
		}
	}
	return strings.Join(parts, ", ")
}

func (r results) failed() (n int) {
	for _, run := range r.Runs {
		if run.Error != "" {
			n++
		}
	}
	return n
}

// values are those of one figure, over all good runs of a system in a workload.
func (r results) values(workload, system, figure string) []float64 {
	var values []float64
	for _, run := range r.Runs {
		if v, ok := run.Values[figure]; ok && run.Workload == workload && run.System == system {
			values = append(values, v)
		}
	}
	return values
}

// median is that of values.
func (r results) median(workload, system, figure string) float64 {
	return median(r.values(workload, system, figure))
}

// systems are those with good runs in a workload, in order of names as known.
func (r results) systems(workload string) []string {
	var systems []string
	for _, s := range systemNames() {
		if slices.ContainsFunc(r.Runs, func(run run) bool { return run.Workload == workload && run.System == s && run.Error == "" }) {
			systems = append(systems, s)
		}
	}
	return systems
}

// workloads are those of a kind with good runs.
func (r results) workloads(k kind) []workload {
	var with []workload
	for _, w := range workloads {
		if w.kind == k && len(r.systems(w.name)) > 0 {
			with = append(with, w)
		}
	}
	return with
}

// report prints the table and writes the file that was asked for.
func (b *bench) report(w io.Writer) error {
	if len(b.results.Runs) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, b.results.markdown()); err != nil {
		return err
	}
	if b.opts.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.opts.json, append(text, '\n'), 0o644)
}

// plural counts things.
func plural(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
