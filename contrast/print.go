package contrast

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Row is one measure of all modes, in words. A cell of "" was not measured.
type Row struct {
	Name  string
	Cells []string
}

// Rows are the measures of a result, with a cell for each of its modes. One that no
// mode has is left out.
func (r Result) Rows() []Row {
	var rows []Row
	add := func(name string, cell func(ModeResult) string) {
		row, any := Row{Name: name}, false
		for _, m := range r.Modes {
			text := ""
			if m.Weight != nil {
				text = cell(m)
			}
			row.Cells, any = append(row.Cells, text), any || text != ""
		}
		if any {
			rows = append(rows, row)
		}
	}
	add("records mirrored", func(m ModeResult) string { return humanize.Comma(m.Copied) })
	add("offsets equal", func(m ModeResult) string { return percent(m.SameOffset, m.Copied) })
	for _, name := range r.topics() {
		add("  "+name, func(m ModeResult) string { return topicOf(m, name) })
	}
	add("records lost", func(m ModeResult) string { return humanize.Comma(m.Lost) })
	add("compacted away", func(m ModeResult) string { return humanize.Comma(m.Superseded) })
	add("copied twice", func(m ModeResult) string { return humanize.Comma(m.Twice) })
	add("aborted records shown", func(m ModeResult) string { return humanize.Comma(m.Revealed) })
	add("out of order", func(m ModeResult) string { return humanize.Comma(m.Disorder) })
	add("never mirrored", func(m ModeResult) string { return humanize.Comma(m.Behind) })
	for _, name := range r.groups() {
		add("read again by "+name, func(m ModeResult) string { return groupOf(m, name, func(g GroupResult) int64 { return g.ReadAgain }) })
	}
	add("never given to a group", neverGiven)
	add("translation error, mean", func(m ModeResult) string { return number(m.ErrorMean, "%.1f records", 1) })
	add("translation error, max", func(m ModeResult) string {
		if m.ErrorMax == nil {
			return ""
		}
		return humanize.Comma(*m.ErrorMax) + " records"
	})
	add("last commits carried exactly", func(m ModeResult) string {
		if m.CarriedSeconds == nil {
			return fmt.Sprintf("not in %.0f s", m.PatienceSeconds)
		}
		return span(m.CarriedSeconds)
	})
	add("source's death to new records", func(m ModeResult) string { return span(m.SwitchSeconds) })
	add("lag p50", func(m ModeResult) string { return span(m.LagP50Seconds) })
	add("lag p99", func(m ModeResult) string { return span(m.LagP99Seconds) })
	add("MB/s", func(m ModeResult) string { return number(m.MBPerSecond, "%.0f", 1) })
	add("CPU per GB", func(m ModeResult) string { return number(m.CPUSecondsPerGB, "%.1f core s", 1) })
	add("peak memory", func(m ModeResult) string {
		if m.PeakMemoryBytes == nil {
			return ""
		}
		return humanize.IBytes(uint64(*m.PeakMemoryBytes))
	})
	return rows
}

func (r Result) topics() (names []string) {
	for _, m := range r.Modes {
		if names == nil {
			for _, t := range m.Topics {
				names = append(names, t.Topic)
			}
		}
	}
	return names
}

func (r Result) groups() (names []string) {
	for _, m := range r.Modes {
		if names == nil {
			for _, g := range m.Groups {
				names = append(names, g.Group)
			}
		}
	}
	return names
}

func topicOf(m ModeResult, name string) string {
	for _, t := range m.Topics {
		if t.Topic == name {
			return percent(t.SameOffset, t.Copied)
		}
	}
	return ""
}

func groupOf(m ModeResult, name string, of func(GroupResult) int64) string {
	for _, g := range m.Groups {
		if g.Group == name {
			return humanize.Comma(of(g))
		}
	}
	return ""
}

// neverGiven tells which groups were not given all, too.
func neverGiven(m ModeResult) string {
	var n int64
	var who []string
	for _, g := range m.Groups {
		if g.NeverGiven > 0 {
			n, who = n+g.NeverGiven, append(who, g.Group)
		}
	}
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%s)", humanize.Comma(n), strings.Join(who, ", "))
}

// percent writes a share, rounded down: 100 % means all.
func percent(part, whole int64) string {
	switch {
	case whole == 0:
		return ""
	case part == whole:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", float64(part*1000/whole)/10)
}

func number(v *float64, format string, scale float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v*scale)
}

// span writes seconds as a time.
func span(s *float64) string {
	if s == nil {
		return ""
	}
	d := time.Duration(*s * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// legend says what the rows mean that do not say it themselves.
var legend = []string{
	"lost: before the last mirrored record of a partition, and not on the target.",
	"never mirrored: after it; no copy existed when the source died.",
	"read again: before a group's last commit, and given to it once more at the target.",
	"never given: behind it, on the target, and the group went on past it.",
	"source's death to new records: with what the mode asks an operator to do, such as klink failover.",
	"Times, speeds and CPU are of this machine with all else that it did meanwhile.",
}

// Print writes the result as a table and in words.
func (r Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d records/s for %s, with 3 groups; clusters: %s\n%s\n", r.Seed, r.RecordsPerSecond, span(&r.LoadSeconds), r.Clusters, r.Machine)
	fmt.Fprintf(&b, "\n%s\n", r.table())
	for _, m := range r.Modes {
		if m.Error != "" {
			fmt.Fprintf(&b, "\n%s FAILED: %s\n", m.Mode, m.Error)
		}
		if len(m.Findings) > 0 {
			fmt.Fprintf(&b, "\n%s BROKE ITS PROMISES:\n  %s\n", m.Mode, strings.Join(m.Findings, "\n  "))
		}
	}
	if len(r.Unfinished) > 0 {
		fmt.Fprintf(&b, "\nSTOPPED before these were finished: %s\n", strings.Join(r.Unfinished, ", "))
	}
	fmt.Fprintf(&b, "\n%s\nThe same seed gives the same load: klink contrast --seed %d\n", strings.Join(legend, "\n"), r.Seed)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Result) table() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatDefault
	head := table.Row{""}
	var columns []table.ColumnConfig
	for i, m := range r.Modes {
		head = append(head, m.Mode)
		columns = append(columns, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.AppendHeader(head)
	for _, row := range r.Rows() {
		cells := table.Row{row.Name}
		for _, c := range row.Cells {
			cells = append(cells, c)
		}
		t.AppendRow(cells)
	}
	t.SetColumnConfigs(columns)
	lines := strings.Split(t.Render(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}
