package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"klink/linker/describe"
	"klink/linker/state"
)

// auditSection says of each link that is compared with its source how much of it
// was found equal, and where it differs.
func auditSection(r state.Report) string {
	var b strings.Builder
	for _, l := range r.Links {
		if line := auditSummary(l); line != "" {
			b.WriteString("\n" + line + "\n")
		}
		for _, t := range l.Topics {
			for _, p := range t.Partitions {
				for _, line := range auditRemarks(p.Audit, t.SourceTopic) {
					fmt.Fprintf(&b, "%s/%d: %s\n", t.SourceTopic, p.Partition, line)
				}
			}
		}
	}
	return b.String()
}

// auditSummary is "" where nothing was ever compared.
func auditSummary(l state.Link) string {
	var all, clean, differ int
	var oldest float64
	audited := false
	for _, t := range l.Topics {
		for _, p := range t.Partitions {
			all++
			switch a := p.Audit; {
			case a == nil:
			case a.Last != nil && a.Last.Findings > 0:
				audited = true
				differ++
			case a.CleanAgeSeconds != nil:
				audited = true
				clean++
				oldest = max(oldest, *a.CleanAgeSeconds)
			default:
				audited = true
			}
		}
	}
	if !audited {
		return ""
	}
	line := fmt.Sprintf("audit of link %s: %d of %s equal", l.Name, clean, quantity(all, "partition"))
	if clean > 0 {
		line += fmt.Sprintf(", as read %s ago or later", duration(oldest))
	}
	if differ > 0 {
		line += fmt.Sprintf("; %d differ", differ)
	}
	if rest := all - clean - differ; rest > 0 {
		line += fmt.Sprintf("; %d not compared yet", rest)
	}
	return line
}

// auditRemarks are lines about a partition that differs, or cannot be compared.
func auditRemarks(a *state.Audit, topic string) (lines []string) {
	if a == nil {
		return nil
	}
	if last := a.Last; last != nil && last.Findings > 0 {
		line := fmt.Sprintf("%s below offset %d", quantity(int(last.Findings), "difference"), last.To)
		if len(last.First) > 0 {
			f := last.First[0]
			line += fmt.Sprintf(", first %s at offset %d: %s", f.Kind, f.Offset, f.Detail)
		}
		lines = append(lines, line+"\n  klink compare "+topic+" shows all")
	}
	if a.Error != "" {
		lines = append(lines, "the audit could not compare it: "+a.Error)
	}
	return lines
}

// auditTable is the table of what was compared last, "" where nothing was.
func auditTable(ps []describe.Partition) string {
	t := plainTable("partition", "equal up to", "as read at", "age", "last compared", "up to", "records", "differences")
	for _, p := range ps {
		a := p.Audit
		if a == nil {
			continue
		}
		row := table.Row{p.Partition.Partition, "?", "?", "?", "?", "?", "?", "?"}
		if a.Clean != nil {
			row[1], row[2] = a.Clean.To, a.Clean.Began.UTC().Format(time.RFC3339)
		}
		if a.CleanAgeSeconds != nil {
			row[3] = duration(*a.CleanAgeSeconds)
		}
		if a.Last != nil {
			row[4], row[5], row[6], row[7] = a.Last.Ended.UTC().Format(time.RFC3339), a.Last.To, humanize.Comma(a.Last.Records), humanize.Comma(a.Last.Findings)
		}
		t.AppendRow(row)
	}
	if t.Length() == 0 {
		return ""
	}
	t.SetColumnConfigs(rightAligned("equal up to", "age", "up to", "records", "differences"))
	return trimLines(t.Render())
}
