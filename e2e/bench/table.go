package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// markdown is the whole report. Nothing is in it but what was measured (M4).
func (r results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s, size %s, on %s. Medians.%s\n", r.Started.Format("2006-01-02 15:04 UTC"), r.Size, r.Machine, r.noise())
	if r.Size != "long" {
		b.WriteString("\nThese runs are so short that their figures only show that the program works.\n")
	}
	for _, section := range []func() string{r.throughputTable, r.ratioTable, r.keepingTable, r.recodingTable, r.comparingTable, r.latencyTable, r.startTable, r.idleTable, r.failoverTable, r.heldTable, r.remarks} {
		if text := section(); text != "" {
			b.WriteString("\n" + text)
		}
	}
	return b.String()
}

// noise tells of the machine's other load.
func (r results) noise() string {
	var others []float64
	for _, run := range r.Runs {
		if v, ok := run.Values[othersCores]; ok {
			others = append(others, v)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf(" Other load during the runs: %.2f cores (median), %.2f at most.", median(others), slices.Max(others))
}

// label is a system as the tables name it.
func (r results) label(workload, system string) string {
	if !isMM2(system) {
		return map[string]string{klinkSystem: "klink", driftSystem: "klink, checkpoint mode", loopSystem: "bare loop"}[system]
	}
	for _, run := range r.Runs {
		if run.Workload == workload && run.System == system {
			return "MirrorMaker 2 (" + run.Settings + ")"
		}
	}
	return system
}

// column is a figure with its heading and decimals.
type column struct {
	title, figure string
	decimals      int
}

var throughputColumns = []column{
	{"MB/s", mbPerSecond, 0},
	{"mirror CPU s/GB", mirrorCPU, 2},
	{"brokers CPU s/GB", brokersCPU, 2},
	{"target broker CPU s/GB", targetCPU, 2},
	{"peak RSS MiB", peakRSS, 0},
	{"first record s", firstRecord, 2},
	{"measured s", measuredSeconds, 0},
}

var latencyColumns = []column{
	{"consumer on the source p50 ms", directP50, 1},
	{"p99 ms", directP99, 1},
	{"on the target p50 ms", mirroredP50, 1},
	{"p99 ms", mirroredP99, 1},
	{"added p50 ms", addedP50, 1},
	{"added p99 ms", addedP99, 1},
	{"mirror's cores", mirrorCores, 3},
	{"peak RSS MiB", peakRSS, 0},
}

var keepingColumns = []column{
	{"offsets/s", offsetsPerSecond, 0},
	{"mirror CPU s per million", mirrorCPUPerMillion, 3},
	{"target broker CPU s per million", targetCPUPerMillion, 3},
	{"peak RSS MiB", peakRSS, 0},
	{"first offset s", firstRecord, 2},
	{"measured s", measuredSeconds, 0},
}

var recodingColumns = []column{
	{"recoding alone, lz4 MB per CPU s", recodeLZ4, 0},
	{"snappy MB per CPU s", recodeSnappy, 0},
	{"all of klink MB per CPU s", wholeRecode, 0},
	{"MB/s in the log", mbPerSecond, 0},
	{"peak RSS MiB", peakRSS, 0},
}

var comparingColumns = []column{
	{"MB/s", compareDigests, 0},
	{"bare loop with digests MB/s", bareDigests, 0},
	{"klink : it", compareShare, 2},
	{"--no-digest MB/s", compareBytes, 0},
	{"bare reading MB/s", bareBytes, 0},
	{"klink : it", compareBytesShare, 2},
	{"peak RSS MiB", peakRSS, 0},
}

var idleColumns = []column{
	{"mirror's cores", mirrorCores, 3},
	{"brokers' cores", brokersCores, 3},
	{"peak RSS MiB", peakRSS, 0},
}

var failoverColumns = []column{
	{"read again", readAgain, 0},
	{"behind the last commit", behindCommit, 0},
	{"read again beyond that", readAgainBeyond, 0},
	{"seconds to switch", switchSeconds, 2},
	{"mirror's cores", mirrorCores, 3},
	{"peak RSS MiB", peakRSS, 0},
}

var startColumns = []column{{"first record s", firstRecord, 2}}

func (r results) throughputTable() string {
	return r.figureTable("Throughput (second half of each run)", throughput, throughputColumns)
}

func (r results) keepingTable() string {
	return r.figureTable("Offsets that are not all records (second half of each run)", keeping, keepingColumns)
}

func (r results) recodingTable() string {
	return r.figureTable("Recoding (MB of uncompressed records by processor time)", recoding, recodingColumns)
}

func (r results) comparingTable() string {
	return r.figureTable("klink compare (MB of the logs of both sides)", comparing, comparingColumns)
}

func (r results) latencyTable() string {
	return r.figureTable("Latency", latency, latencyColumns)
}

func (r results) startTable() string {
	return r.figureTable("From start to the first record on the target", startup, startColumns)
}

func (r results) idleTable() string {
	return r.figureTable("Idle", idling, idleColumns)
}

func (r results) failoverTable() string {
	return r.figureTable("Records that a group reads again after a failover", switching, failoverColumns)
}

// figureTable has a row per workload and system.
func (r results) figureTable(title string, k kind, columns []column) string {
	with := r.workloads(k)
	if len(with) == 0 {
		return ""
	}
	header := []string{"workload", "system"}
	for _, c := range columns {
		header = append(header, c.title)
	}
	t := newTable(title, append(header, "n")...)
	var about []string
	for _, w := range with {
		for _, s := range r.systems(w.name) {
			row := []string{w.name, r.label(w.name, s)}
			for _, c := range columns {
				row = append(row, number(r.median(w.name, s, c.figure), c.decimals))
			}
			t.add(append(row, fmt.Sprint(len(r.values(w.name, s, columns[0].figure))))...)
		}
		about = append(about, "* "+w.name+": "+w.about())
	}
	return t.String() + "\n" + strings.Join(about, "\n") + "\n"
}

// ratioTable sets klink beside the others.
func (r results) ratioTable() string {
	t := newTable("klink beside the others (same run)", "workload", "beside", "MB/s, klink : it", "mirror CPU, it : klink",
		"brokers' CPU, klink : it", "target broker's CPU, klink : it", "peak RSS, it : klink")
	for _, w := range r.workloads(throughput) {
		for _, s := range r.systems(w.name) {
			if s == klinkSystem || !slices.Contains(r.systems(w.name), klinkSystem) {
				continue
			}
			over := func(figure string) float64 {
				return ratio(r.median(w.name, klinkSystem, figure), r.median(w.name, s, figure))
			}
			t.add(w.name, r.label(w.name, s), times(over(mbPerSecond)), times(1/over(mirrorCPU)), times(over(brokersCPU)), times(over(targetCPU)), times(1/over(peakRSS)))
		}
	}
	return t.String()
}

// remarks are what a reader has to know to judge the figures.
func (r results) remarks() string {
	var lines []string
	for _, run := range r.Runs {
		if run.Error != "" {
			first, _, _ := strings.Cut(run.Error, "\n")
			lines = append(lines, fmt.Sprintf("* FAILED: %s, %s, round %d: %s", run.Workload, run.System, run.Round, first))
		}
	}
	for _, w := range r.workloads(throughput) {
		for _, s := range r.systems(w.name) {
			if took := r.median(w.name, s, measuredSeconds); isMM2(s) && took < 0.95*mm2Box.seconds(true).Seconds() {
				lines = append(lines, fmt.Sprintf("* %s: %s was measured for %.0f s only, so it may not have been warm.", w.name, r.label(w.name, s), took))
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// table is a Markdown table under a title.
type table struct {
	title string
	rows  [][]string
}

func newTable(title string, header ...string) *table {
	return &table{title: title, rows: [][]string{header}}
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String is empty for a table without rows.
func (t *table) String() string {
	if len(t.rows) < 2 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n", t.title)
	for i, row := range t.rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// number is a figure; "-" where there is none.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// times is a ratio.
func times(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	if v < 10 {
		return fmt.Sprintf("%.2fx", v)
	}
	return fmt.Sprintf("%.0fx", v)
}
