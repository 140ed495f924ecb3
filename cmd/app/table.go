package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"klink/cmd/show"
	"klink/linker/state"
)

// partitionsWidth is where a list of partitions is wrapped.
const partitionsWidth = 24

// printStatus prints a report as a table, and below it what to do about each
// reason, once. With fold, partitions in the same state share a line.
func (s *shell) printStatus(r state.Report, fold bool) error {
	var b strings.Builder
	for _, l := range r.Links {
		fmt.Fprintf(&b, "link %s (%s): %s%s\n", l.Name, l.Mode, s.paint(l.State), detailOf(l.Reason, "", 0))
	}
	fmt.Fprintf(&b, "as of %s\n", r.AsOf.UTC().Format(time.RFC3339))
	rows := show.Rows(r, fold)
	if len(rows) > 0 {
		b.WriteString("\n" + s.statusTable(rows, len(r.Links) > 1) + "\n")
	}
	if todo := hints(r, rows); len(todo) > 0 {
		b.WriteString("\n" + strings.Join(todo, "\n") + "\n")
	}
	b.WriteString(modesSection(r))
	b.WriteString(auditSection(r))
	b.WriteString(groupsSection(r, !fold))
	b.WriteString(checkpointsSection(r))
	_, err := io.WriteString(s.out, b.String())
	return err
}

func (s *shell) statusTable(rows []show.Row, withLink bool) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatUpper
	t.AppendHeader(table.Row{"link", "topic", "partitions", "state", "lag records", "lag seconds", "reason"})
	for _, r := range rows {
		topic := r.Topic
		if r.Target != r.Topic {
			topic += " -> " + r.Target
		}
		states := strings.Join(append([]string{s.paint(r.State)}, r.Flags...), " ")
		t.AppendRow(table.Row{r.Link, topic, r.Partitions, states, show.Records(r.LagRecords), show.Seconds(r.LagSeconds), r.Reason})
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Name: "link", Hidden: !withLink},
		{Name: "partitions", WidthMax: partitionsWidth, WidthMaxEnforcer: text.WrapHard},
		{Name: "lag records", Align: text.AlignRight, AlignHeader: text.AlignRight},
		{Name: "lag seconds", Align: text.AlignRight, AlignHeader: text.AlignRight},
	})
	lines := strings.Split(t.Render(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// hints says for each row with a reason what it is about and what to do.
func hints(r state.Report, rows []show.Row) []string {
	var out []string
	add := func(where, reason, detail, hint string) {
		if hint != "" {
			detail += "\n  " + hint
		}
		if line := where + ": " + strings.TrimPrefix(reason+detail, ": "); !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	for _, l := range r.Links {
		if l.Reason != "" || l.Detail != "" {
			add("link "+l.Name, l.Reason, detailOf("", l.Detail, 0), l.Hint)
		}
	}
	for _, l := range r.Links {
		for _, w := range l.Warnings {
			add("link "+l.Name, missing(w), ": "+w.Right+": "+w.Detail, w.Hint)
		}
	}
	for _, row := range rows {
		if row.Reason != "" || row.Detail != "" {
			where := row.Topic
			if row.Partitions != "" {
				where += "/" + row.Partitions
			}
			add(where, row.Reason, detailOf("", row.Detail, row.Others), row.Hint)
		}
	}
	return out
}

// modesSection names the topics that are not in their link's mode, and why.
func modesSection(r state.Report) string {
	var b strings.Builder
	for _, l := range r.Links {
		for _, t := range l.Topics {
			if t.Mode == "" || t.Mode == l.Mode {
				continue
			}
			why := ""
			if t.Reason == "" && t.Detail != "" {
				why = ": " + t.Detail
			}
			fmt.Fprintf(&b, "\n%s (%s mode)%s", t.SourceTopic, t.Mode, why)
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// missing says of a right what is known.
func missing(w state.Warning) string {
	if w.Known {
		return "missing right"
	}
	return "a right that the target does not tell of"
}

func detailOf(reason, detail string, others int) string {
	s := ""
	if reason != "" {
		s = " " + reason
	}
	if detail != "" {
		s += ": " + detail
	}
	if others > 0 {
		s += fmt.Sprintf(" (and %d more)", others)
	}
	return s
}

// paint colours a state where colours are wanted.
func (s *shell) paint(st state.State) string {
	if !s.colour {
		return string(st)
	}
	code := "31" // red
	switch st {
	case state.Active:
		code = "32" // green
	case state.CatchingUp, state.Pending, state.Paused, state.PendingStopped:
		code = "33" // yellow
	case state.Stopped, state.Removed:
		code = "36" // cyan: as it was ordered, and final
	}
	return "\x1b[" + code + "m" + string(st) + "\x1b[0m"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
