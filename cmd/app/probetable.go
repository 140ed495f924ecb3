package app

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/linker/survey"
)

// detailWidth is where a detail is wrapped.
const detailWidth = 60

// printProbe prints what a probe found, and the verdict last.
func (s *shell) printProbe(r survey.ProbeResult) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s, brokers: %d%s\n", orUnknown(r.ClusterID), r.Brokers, versionOf(r))
	fmt.Fprintf(&b, "scratch topic %s, replicas: %d\n\n", r.Topic, r.Replicas)
	b.WriteString(s.factTable(r.Facts) + "\n\n")
	fmt.Fprintf(&b, "one partition, one request after the other:\n"+
		"  data        %s\n  markers     %s, in bulk %s\n  padding     %s\n\n",
		perSecond(r.Rates.AppendBytes, "bytes"), perSecond(r.Rates.Markers, ""), perSecond(r.Rates.MarkersBulk, ""), perSecond(r.Rates.PadOffsets, "offsets"))
	b.WriteString(s.paintVerdict(r.Verdict, r.Summary) + "\n")
	if r.Trouble != "" {
		fmt.Fprintf(&b, "  %s\n", r.Trouble)
	}
	for _, l := range r.Limits {
		if r.Trouble == "" {
			fmt.Fprintf(&b, "  without %s: %s\n    %s\n", l.Without, l.Means, l.Hint)
		}
	}
	for _, right := range r.MissingRights {
		fmt.Fprintf(&b, "missing right: %s\n", right)
	}
	if len(r.Leftovers) > 0 {
		fmt.Fprintf(&b, "left by earlier probes, unless they are running: %s\n", strings.Join(r.Leftovers, ", "))
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

func (s *shell) factTable(found []survey.Finding) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatUpper
	t.AppendHeader(table.Row{"fact", "holds", "detail"})
	for _, f := range found {
		detail := f.Detail
		if f.MissingRight != "" {
			detail = "missing right: " + f.MissingRight
		}
		t.AppendRow(table.Row{f.Text, f.Holds.String(), detail})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "detail", WidthMax: detailWidth, WidthMaxEnforcer: text.WrapSoft}})
	return trimLines(t.Render())
}

// trimLines drops the spaces that fill lines up.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func versionOf(r survey.ProbeResult) string {
	if r.BrokerVersion == "" {
		return ""
	}
	return ", leader serves requests of " + r.BrokerVersion
}

func orUnknown(s string) string {
	if s == "" {
		return "of unknown id"
	}
	return s
}

// perSecond writes a rate, "?" where it was not measured.
func perSecond(rate *float64, unit string) string {
	switch {
	case rate == nil:
		return "?"
	case unit == "bytes":
		return humanize.IBytes(uint64(max(0, *rate))) + "/s"
	case unit == "":
		return humanize.Comma(int64(math.Round(*rate))) + "/s"
	default:
		return humanize.Comma(int64(math.Round(*rate))) + " " + unit + "/s"
	}
}

// paintVerdict colours a verdict where colours are wanted.
func (s *shell) paintVerdict(v survey.Verdict, text string) string {
	if !s.colour {
		return text
	}
	code := map[survey.Verdict]string{survey.Full: "32", survey.Limited: "33"}[v]
	if code == "" {
		code = "31"
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
