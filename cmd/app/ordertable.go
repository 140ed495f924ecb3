package app

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/cmd/show"
	"klink/linker/state"
)

// remarkWidth is where what is said of a topic is wrapped.
const remarkWidth = 60

// orderPlan is what is shown before it is asked whether to go on.
func (s *shell) orderPlan(r orderResult, o order) string {
	return fmt.Sprintf("link %s, %s:\n\n%s\n\n%s\n", r.Link, o.title, s.orderTable(r, "what happens", o.prospect), o.effect)
}

// printOrder prints what became of an order, or would.
func (s *shell) printOrder(r orderResult, o order) error {
	var b strings.Builder
	if r.DryRun {
		b.WriteString(s.orderPlan(r, o) + "\nnothing was done (--dry-run)\n")
	} else {
		fmt.Fprintf(&b, "link %s\n\n%s\n", r.Link, s.orderTable(r, "result", o.outcome))
		for _, line := range todo(r.Topics) {
			b.WriteString("\n" + line + "\n")
		}
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// prospect says of a topic what would happen to it.
func (o order) prospect(t topicResult) string {
	if t.due && t.OK {
		return strings.TrimSuffix("is "+o.done+": "+t.Detail, ": ")
	}
	return remark(t)
}

// outcome says what happened to a topic.
func (o order) outcome(t topicResult) string {
	if t.due && t.OK {
		return strings.TrimSuffix(o.done+": "+t.Detail, ": ")
	}
	return remark(t)
}

func remark(t topicResult) string { return strings.TrimPrefix(t.Reason+": "+t.Detail, ": ") }

// orderTable has a line per topic, with what say says of it.
func (s *shell) orderTable(r orderResult, column string, say func(topicResult) string) string {
	if len(r.Topics) == 0 {
		return " the link has no topics on record yet"
	}
	t := plainTable("topic", "partitions", "state", "lag records", "lag seconds", column)
	total := state.Topic{}
	for _, x := range r.Topics {
		name := x.SourceTopic
		if x.TargetTopic != x.SourceTopic {
			name += " -> " + x.TargetTopic
		}
		records, seconds := lagOf(x.recorded)
		t.AppendRow(table.Row{name, len(x.recorded.Partitions), s.paint(x.State), count(records), show.Seconds(seconds), say(x)})
		total.Partitions = append(total.Partitions, x.recorded.Partitions...)
	}
	if len(r.Topics) > 1 {
		records, seconds := lagOf(total)
		t.AppendFooter(table.Row{quantity(len(r.Topics), "topic"), len(total.Partitions), "", count(records), show.Seconds(seconds), ""})
	}
	t.Style().Format.Footer = text.FormatDefault
	t.SetColumnConfigs(append(rightAlignedWithFooter("partitions", "lag records", "lag seconds"),
		table.ColumnConfig{Name: column, WidthMax: remarkWidth, WidthMaxEnforcer: text.WrapSoft}))
	return trimLines(t.Render())
}

func rightAlignedWithFooter(names ...string) []table.ColumnConfig {
	out := rightAligned(names...)
	for i := range out {
		out[i].AlignFooter = text.AlignRight
	}
	return out
}

// lagOf is a topic's lag: the sum of the records and the most seconds, unknown
// where that of a partition is, or where none is known.
func lagOf(t state.Topic) (records *int64, seconds *float64) {
	if len(t.Partitions) == 0 {
		return nil, nil
	}
	records, seconds = new(int64), new(float64)
	for _, p := range t.Partitions {
		if p.LagRecords == nil || p.LagSeconds == nil {
			return nil, nil
		}
		*records += *p.LagRecords
		*seconds = max(*seconds, *p.LagSeconds)
	}
	return records, seconds
}

// todo says once what to do about each topic that failed.
func todo(topics []topicResult) []string {
	var out []string
	for _, t := range topics {
		if t.Hint == "" {
			continue
		}
		if line := t.Reason + ": " + t.Hint; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// quantity writes a number of things.
func quantity(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(int64(n)) + " " + what
}
