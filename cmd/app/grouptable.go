package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"klink/cmd/show"
	"klink/linker/groups"
	"klink/linker/state"
)

// groupTable shows the groups of a link: one line each, or with single lines one
// for each of its offsets.
func groupTable(all []state.Group, single bool) string {
	if single {
		return offsetTable(all)
	}
	t := plainTable("group", "state", "offsets", "on target", "age seconds", "reason")
	for _, g := range show.GroupRows(all) {
		t.AppendRow(table.Row{g.Group, g.State, g.Offsets, g.OnTarget, show.Seconds(g.AgeSeconds), strings.Join(g.Reasons, " ")})
	}
	t.SetColumnConfigs(rightAligned("offsets", "on target", "age seconds"))
	return trimLines(t.Render())
}

// offsetTable has a line for each offset; groups without any have one too.
func offsetTable(all []state.Group) string {
	t := plainTable("group", "topic", "partition", "source", "target", "age seconds", "reason")
	for _, g := range all {
		for _, p := range g.Partitions {
			reason := p.Reason
			if reason == "" {
				reason = g.Reason
			}
			t.AppendRow(table.Row{g.Group, p.SourceTopic, p.Partition, show.Records(p.SourceOffset), show.Records(p.TargetOffset), show.Seconds(p.AgeSeconds), reason})
		}
		if len(g.Partitions) == 0 {
			t.AppendRow(table.Row{g.Group, "", "", "", "", "", g.Reason})
		}
	}
	t.SetColumnConfigs(rightAligned("partition", "source", "target", "age seconds"))
	return trimLines(t.Render())
}

// groupHints says of each reason what it means and what to do, once.
func groupHints(all []state.Group) (out []string) {
	where := make(map[string][]string)
	var order []string
	for _, g := range all {
		for _, r := range show.GroupReasons(g) {
			if where[r] == nil {
				order = append(order, r)
			}
			where[r] = append(where[r], g.Group)
		}
	}
	for _, r := range order {
		names := where[r]
		text := "group " + names[0]
		if len(names) > 1 {
			text = fmt.Sprintf("group %s (and %d more)", names[0], len(names)-1)
		}
		a := groups.Verdict(r).About()
		if text += ": " + r; a.Explanation != "" {
			text += ": " + a.Explanation
		}
		if a.Hint != "" {
			text += "\n  " + a.Hint
		}
		out = append(out, text)
	}
	return out
}

// groupsSection is the part of status that is about groups, "" where there are
// none. With single lines, only offsets on the topics of the report are shown.
func groupsSection(r state.Report, single bool) string {
	var b strings.Builder
	for _, l := range r.Links {
		all := l.Groups
		if single {
			all = onTopics(l)
		}
		if len(all) == 0 {
			continue
		}
		title := ""
		if len(r.Links) > 1 {
			title = "groups of link " + l.Name + "\n"
		}
		fmt.Fprintf(&b, "\n%s%s\n", title, groupTable(all, single))
		if todo := groupHints(all); len(todo) > 0 {
			b.WriteString("\n" + strings.Join(todo, "\n") + "\n")
		}
	}
	return b.String()
}

// onTopics keeps of a link's groups what is on its topics.
func onTopics(l state.Link) (out []state.Group) {
	for _, g := range l.Groups {
		kept := g
		kept.Partitions = nil
		for _, p := range g.Partitions {
			if slices.ContainsFunc(l.Topics, func(t state.Topic) bool { return t.SourceTopic == p.SourceTopic }) {
				kept.Partitions = append(kept.Partitions, p)
			}
		}
		if len(kept.Partitions) > 0 {
			out = append(out, kept)
		}
	}
	return out
}
