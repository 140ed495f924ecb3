package app

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/linker/survey"
)

// printPlan prints a plan as a table and what there is to know below it. With
// fold, each topic has one line.
func (s *shell) printPlan(r survey.PlanResult, fold bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "as of %s\n", r.AsOf.Format(time.RFC3339))
	if len(r.Topics) > 0 {
		b.WriteString("\n" + s.planTable(r, fold) + "\n")
	}
	for _, t := range r.Topics {
		for _, reason := range t.Reasons {
			fmt.Fprintf(&b, "\n%s: %s", t.SourceTopic, reason)
		}
	}
	writeList(&b, "rights that are missing:", r.Missing)
	writeList(&b, "rights that the clusters do not tell of:", r.Unknown)
	writeList(&b, "settings that differ:", settingLines(r.Configs))
	writeList(&b, "", r.Notes)
	for _, p := range r.Rates {
		writePace(&b, p)
	}
	_, err := io.WriteString(s.out, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func writeList(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n\n")
	if title != "" {
		b.WriteString(title + "\n  ")
	}
	b.WriteString(strings.Join(lines, "\n  "))
}

func (s *shell) planTable(r survey.PlanResult, fold bool) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatUpper
	t.AppendHeader(table.Row{"link", "topic", "partitions", "verdict", "from", "to", "data", "pads", "gaps", "time"})
	for _, x := range r.Topics {
		name := x.SourceTopic
		if x.TargetTopic != x.SourceTopic {
			name += " -> " + x.TargetTopic
		}
		if fold || len(x.Partitions) == 0 {
			t.AppendRow(append(table.Row{x.Link, name, len(x.Partitions), s.paintOutlook(x.Verdict), "", ""}, numbers(sum(x.Partitions))...))
			continue
		}
		for _, p := range x.Partitions {
			t.AppendRow(append(table.Row{x.Link, name, p.Partition, s.paintOutlook(p.Verdict), count(p.SourceStart), count(p.SourceEnd)}, numbers(sum([]survey.PartitionPlan{p}))...))
		}
	}
	right := func(name string, hidden bool) table.ColumnConfig {
		return table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight, Hidden: hidden}
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "link", Hidden: len(r.Rates) < 2}, right("partitions", false), right("from", fold), right("to", fold),
		right("data", false), right("pads", false), right("gaps", false), right("time", false)})
	return trimLines(t.Render())
}

// numbers writes the last columns of a row.
func numbers(p planned) table.Row {
	about := ""
	if p.estimated {
		about = "~"
	}
	data, gaps, took := "?", "?", "?"
	if p.data != nil {
		data = about + humanize.IBytes(uint64(*p.data))
	}
	if p.gaps != nil {
		gaps = about + humanize.Comma(*p.gaps)
	}
	if p.seconds != nil {
		took = about + duration(*p.seconds)
	}
	return table.Row{data, count(p.pads), gaps, took}
}

// count writes a number, "?" where it is unknown.
func count(n *int64) string {
	if n == nil {
		return "?"
	}
	return humanize.Comma(*n)
}

// duration writes seconds as precisely as an estimate deserves.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return "<1s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// settingLines writes differences, those that several topics have in common once.
func settingLines(all []survey.ConfigDifference) []string {
	var lines []string
	topics := map[string][]string{}
	for _, d := range all {
		line := fmt.Sprintf("%s: source %s, target %s, planned %s (%s)", d.Key, orDash(d.Source), orDash(d.Target), orDash(d.Planned), d.Why)
		if _, ok := topics[line]; !ok {
			lines = append(lines, line)
		}
		topics[line] = append(topics[line], d.SourceTopic)
	}
	slices.Sort(lines)
	for i, line := range lines {
		lines[i] = line + ": " + few(topics[line])
	}
	return lines
}

// few names some and counts the others.
func few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func writePace(b *strings.Builder, p survey.LinkPace) {
	source := p.Source
	if p.AgeSeconds != nil {
		source += ", " + duration(*p.AgeSeconds) + " ago"
	}
	fmt.Fprintf(b, "\n\ntimes of link %s are of each partition alone, by these rates (%s):\n  data %s, markers %s, in bulk %s, padding %s",
		p.Link, source, perSecond(p.AppendBytes, "bytes"), perSecond(p.Markers, ""), perSecond(p.MarkersBulk, ""), perSecond(p.PadOffsets, "offsets"))
	if m := p.ExpectedMarkers; m != nil && *m >= 0.5 {
		fmt.Fprintf(b, "\n  once all is mirrored, gaps ask for %s, by how the source has made them of late", perSecond(m, "markers"))
		if p.MarkersBulk != nil && *m > *p.MarkersBulk/2 {
			b.WriteString(":\n  that is more than half of what the target takes")
		}
	}
	if p.MeasuredAt == nil {
		b.WriteString("\n  klink plan --measure measures them on a scratch topic of the target")
	}
}

// paintOutlook colours a verdict where colours are wanted.
func (s *shell) paintOutlook(o survey.Outlook) string {
	if !s.colour {
		return string(o)
	}
	code := "32"
	switch o {
	case survey.PadFirst, survey.Checkpoint:
		code = "33"
	case survey.Refuse:
		code = "31"
	}
	return "\x1b[" + code + "m" + string(o) + "\x1b[0m"
}
