package app

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"klink/cmd/show"
	"klink/linker/describe"
	"klink/linker/state"
)

// writeOrders writes what operators ordered of a link.
func writeOrders(b *strings.Builder, l describe.Link) {
	if l.Intent.Command != nil {
		fmt.Fprintf(b, "  wanted: %s\n", wanted(l.Intent))
	}
	for _, a := range l.GroupAcks {
		fmt.Fprintf(b, "  worker %s writes no more group offsets, as command %d wants, since %s\n", a.Worker, a.Command, when(&a.At))
	}
	if len(l.Commands) > 0 {
		fmt.Fprintf(b, "\n%s\n", commandTable(l.Commands))
	}
}

// writeOutcome writes what is wanted of a topic, and what came of it.
func writeOutcome(b *strings.Builder, t describe.Topic) {
	if i := t.Intent; i.Command != nil || i.Again != nil || i.Fence > 0 {
		fmt.Fprintf(b, "  wanted: %s\n", wanted(i))
	}
	for _, a := range t.Acks {
		fmt.Fprintf(b, "  worker %s obeyed command %d at %s (%d partitions)\n", a.Worker, a.Command, when(&a.At), len(a.Partitions))
	}
	if a := t.Adoption; a != nil {
		fmt.Fprintf(b, "  adopted by %s at %s, up to", orMissing(a.By), when(&a.At))
		for _, p := range a.Partitions {
			fmt.Fprintf(b, " %d@%d", p.Partition, p.End)
		}
		b.WriteString("\n")
	}
	for _, c := range t.Cuts {
		flag := ""
		if c.Unsettled {
			flag = ", " + state.Unsettled
		}
		fmt.Fprintf(b, "\n  cut at %s (switch %s)%s\n\n%s\n", when(&c.At), c.Switch, flag, cutTable(c.Partitions))
	}
}

func wanted(i describe.Intent) string {
	out := i.Want
	if i.Command != nil {
		out += fmt.Sprintf(" since command %d", *i.Command)
	}
	if i.ByLink {
		out += ", by the link"
	}
	if i.ReversedInto != nil {
		out += ", mirrored the other way by link " + *i.ReversedInto
	}
	if i.Fence > 0 {
		out += fmt.Sprintf(", fence %d", i.Fence)
	}
	if i.Again != nil {
		out += fmt.Sprintf(", another attempt by command %d", *i.Again)
	}
	return out
}

// commandTable is the history of a link.
func commandTable(cs []describe.Command) string {
	t := plainTable("command", "verb", "of", "with", "by", "at")
	for _, c := range cs {
		t.AppendRow(table.Row{c.Number, c.Verb, commandTopics(c), commandSettings(c), orMissing(c.By), when(&c.At)})
	}
	t.SetColumnConfigs(rightAligned("command"))
	return trimLines(t.Render())
}

// commandTopics names at most three.
func commandTopics(c describe.Command) string {
	const most = 3
	switch n := len(c.Topics); {
	case n == 0 && c.Group != nil:
		return "all topics"
	case n == 0:
		return "the link"
	case n > most:
		return fmt.Sprintf("%s and %d more", strings.Join(c.Topics[:most], ", "), n-most)
	default:
		return strings.Join(c.Topics, ", ")
	}
}

func commandSettings(c describe.Command) string {
	var out []string
	if len(c.Partitions) > 0 {
		out = append(out, "partitions "+strings.Trim(fmt.Sprint(c.Partitions), "[]"))
	}
	for _, s := range []struct {
		name  string
		value *string
	}{{"group", c.Group}, {"switch", c.Switch}, {"next link", c.NextLink}} {
		if s.value != nil {
			out = append(out, s.name+" "+*s.value)
		}
	}
	if c.Fence != nil {
		out = append(out, fmt.Sprintf("fence %d", *c.Fence))
	}
	if c.WaitSeconds != nil {
		out = append(out, fmt.Sprintf("for %gs", *c.WaitSeconds))
	}
	return strings.Join(out, ", ")
}

func cutTable(ps []describe.CutPartition) string {
	t := plainTable("partition", "target end", "source end", "seen at", "fence")
	for _, p := range ps {
		fence := "-"
		switch {
		case p.Unfenced:
			fence = "UNFENCED"
		case p.FenceOffset != nil:
			fence = fmt.Sprint(*p.FenceOffset)
		}
		t.AppendRow(table.Row{p.Partition, show.Records(p.TargetEnd), show.Records(p.SourceEnd), when(p.SourceEndAsOf), fence})
	}
	t.SetColumnConfigs(rightAligned("target end", "source end", "fence"))
	return trimLines(t.Render())
}
