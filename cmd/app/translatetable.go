package app

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"klink/cmd/show"
	"klink/translate"
)

// printTranslation prints a translation as a table, and below it what to do about
// each reason, once.
func (s *shell) printTranslation(r TranslateResult) error {
	var b strings.Builder
	way, by := "from source to target", "by klink's map"
	if r.Direction == toSource {
		way = "from target back to source"
	}
	if r.From == byMM2 {
		by = "by MirrorMaker 2's topics"
	}
	fmt.Fprintf(&b, "link %s: %s, %s\nas of %s\n", r.Link, way, by, when(&r.AsOf))
	for _, t := range r.Reads {
		b.WriteString(readLine(t) + "\n")
	}
	for _, n := range r.Notes {
		b.WriteString("note: " + n + "\n")
	}
	if len(r.Groups) > 0 {
		b.WriteString("\n" + translationTable(r) + "\n")
	}
	if hints := translationHints(r); len(hints) > 0 {
		b.WriteString("\n" + strings.Join(hints, "\n") + "\n")
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

func readLine(t TranslateRead) string {
	line := fmt.Sprintf("read %s: %s", t.Topic, quantity(int(t.Records), "record"))
	switch {
	case t.TimedOut:
		line += fmt.Sprintf(", TIMED OUT at offset %d of %s", t.NextOffset, show.Records(t.EndOffset))
	case t.Complete:
		line += fmt.Sprintf(" to the end at offset %s", show.Records(t.EndOffset))
	}
	if t.Undecodable > 0 {
		line += fmt.Sprintf(", %s undecodable (last at offset %s)", humanize.Comma(t.Undecodable), show.Records(t.UndecodableAt))
	}
	if t.NewestAgeSeconds != nil {
		line += fmt.Sprintf(", the newest %s old", duration(*t.NewestAgeSeconds))
	}
	return line
}

func translationTable(r TranslateResult) string {
	t := plainTable("group", "topic", "partition", "source", "target", "kind", "read again", "age seconds", "reason")
	for _, g := range r.Groups {
		for _, p := range g.Partitions {
			notes := p.Reason
			if p.Ahead > 0 {
				notes = strings.TrimSpace(notes + fmt.Sprintf(" ahead by %d", p.Ahead))
			}
			if p.Stale {
				notes = strings.TrimSpace(notes + " STALE")
			}
			t.AppendRow(table.Row{g.Group, topicPair(p), p.Partition, show.Records(p.SourceOffset), show.Records(p.TargetOffset),
				p.Kind, show.Records(p.ReadAgain), show.Seconds(p.AgeSeconds), notes})
		}
		if len(g.Partitions) == 0 {
			t.AppendRow(table.Row{g.Group, "", "", "", "", "", "", "", g.Reason})
		}
	}
	t.SetColumnConfigs(rightAligned("partition", "source", "target", "read again", "age seconds"))
	return trimLines(t.Render())
}

// topicPair names a topic, on both sides where the names differ.
func topicPair(p TranslatedPartition) string {
	switch {
	case p.SourceTopic == nil || p.TargetTopic != nil && *p.SourceTopic == *p.TargetTopic:
		return orMissing(p.TargetTopic)
	case p.TargetTopic == nil:
		return *p.SourceTopic
	}
	return *p.SourceTopic + " -> " + *p.TargetTopic
}

// translationHints says of each reason what it means and what to do, once, with the
// first detail that there is.
func translationHints(r TranslateResult) (out []string) {
	var told []string
	tell := func(reason, detail string) {
		if reason == "" || slices.Contains(told, reason) {
			return
		}
		told = append(told, reason)
		a := translate.Reason(reason).About()
		text := reason + ": " + a.Explanation
		if detail != "" {
			text += ": " + detail
		}
		if a.Hint != "" {
			text += "\n  " + a.Hint
		}
		out = append(out, text)
	}
	for _, g := range r.Groups {
		tell(g.Reason, "")
		for _, p := range g.Partitions {
			tell(p.Reason, p.Detail)
		}
	}
	return out
}
