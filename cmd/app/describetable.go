package app

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/cmd/show"
	"klink/linker/describe"
	"klink/linker/ledger"
	"klink/linker/state"
)

// printDescription prints links, and topic by topic what is known of them.
func (s *shell) printDescription(r describe.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "as of %s\n", r.AsOf.UTC().Format(time.RFC3339))
	for _, l := range r.Links {
		fmt.Fprintf(&b, "\nlink %s (%s): %s%s\n", l.Name, l.Mode, s.paint(l.State), detailOf(l.Reason, l.Detail, 0))
		fmt.Fprintf(&b, "  source cluster %s, target cluster %s, klink %s\n", orMissing(l.SourceClusterID), orMissing(l.TargetClusterID), orMissing(l.KlinkVersion))
		writeOrders(&b, l)
		for _, t := range l.Topics {
			s.writeTopic(&b, t, l.Mode)
		}
		b.WriteString(groupsSection(state.Report{Links: []state.Link{l.Link}}, true))
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// writeTopic tells a topic's mode where it is not its link's.
func (s *shell) writeTopic(b *strings.Builder, t describe.Topic, mode string) {
	name := t.SourceTopic
	if t.TargetTopic != t.SourceTopic {
		name += " -> " + t.TargetTopic
	}
	if t.Mode != "" && t.Mode != mode {
		name += " (" + t.Mode + " mode)"
	}
	fmt.Fprintf(b, "\ntopic %s: %s%s\n", name, s.paint(t.State), detailOf(t.Reason, t.Detail, 0))
	fmt.Fprintf(b, "  source id %s, target id %s", orMissing(t.SourceID), orMissing(t.TargetID))
	if t.Generation != nil && *t.Generation > 0 {
		fmt.Fprintf(b, ", generation %d", *t.Generation)
	}
	if t.Compacted != nil && *t.Compacted {
		b.WriteString(", compacted")
	}
	b.WriteString("\n")
	if len(t.SourceSettings) > 0 {
		b.WriteString("  the source's own settings, for after promotion:\n")
	}
	for _, c := range t.SourceSettings {
		origin := ""
		if !c.Explicit {
			origin = "  (by default there)"
		}
		fmt.Fprintf(b, "    %s=%s%s\n", c.Name, c.Value, origin)
	}
	writeOutcome(b, t)
	if len(t.Partitions) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n\n%s\n", s.positions(t.Partitions), recordTable(t.Partitions))
	if audits := auditTable(t.Partitions); audits != "" {
		b.WriteString("\n" + audits + "\n")
	}
	if t.Partitions[0].Ledger.Ranges != nil {
		b.WriteString("\n" + rangesTable(t.Partitions) + "\n")
	}
	gap := "\n"
	for _, p := range t.Partitions {
		for _, line := range append(remarks(p), auditRemarks(p.Audit, t.SourceTopic)...) {
			fmt.Fprintf(b, "%s%s/%d: %s\n", gap, t.SourceTopic, p.Partition.Partition, line)
			gap = ""
		}
	}
}

// positions is the table of what moves.
func (s *shell) positions(ps []describe.Partition) string {
	t := plainTable("partition", "state", "source start", "source end", "source hw", "target start", "target end", "lag records", "lag seconds", "filled", "padded", "worker")
	for _, p := range ps {
		states := strings.Join(append([]string{s.paint(p.State)}, p.Flags...), " ")
		t.AppendRow(table.Row{p.Partition.Partition, states, show.Records(p.SourceStart), show.Records(p.SourceEnd), show.Records(p.SourceHighWatermark),
			show.Records(p.TargetStart), show.Records(p.TargetEnd), show.Records(p.LagRecords), show.Seconds(p.LagSeconds), p.Filled, p.Padded, p.Worker})
	}
	t.SetColumnConfigs(rightAligned("source start", "source end", "source hw", "target start", "target end", "lag records", "lag seconds", "filled", "padded"))
	return trimLines(t.Render())
}

// recordTable is the table of what is on record.
func recordTable(ps []describe.Partition) string {
	t := plainTable("partition", "source epochs from", "padded up to", "counters used", "not copies", "known below", "as of")
	for _, p := range ps {
		t.AppendRow(table.Row{p.Partition.Partition, epochs(p.SourceEpochs), padGoal(p.Pad), used(p.Counters), totals(p.Ledger.Totals, p.Ledger.UpTo),
			show.Records(p.Ledger.UpTo), when(p.Ledger.AsOf)})
	}
	t.SetColumnConfigs(rightAligned("counters used", "known below"))
	return trimLines(t.Render())
}

// rangesTable is the ledger: one line per range.
func rangesTable(ps []describe.Partition) string {
	t := plainTable("partition", "from", "end (exclusive)", "reason", "offsets")
	for _, p := range ps {
		for _, r := range p.Ledger.Ranges {
			reason, offsets := r.Reason, humanize.Comma(r.End-r.From)
			if reason == describe.Mixed {
				n := int64(0)
				for _, c := range r.Counts {
					n += c
				}
				reason, offsets = counts(r.Counts), fmt.Sprintf("%s of %s", humanize.Comma(n), offsets)
			}
			t.AppendRow(table.Row{p.Partition.Partition, r.From, r.End, reason, offsets})
		}
	}
	if t.Length() == 0 {
		return "no offset on record that is not a copy"
	}
	t.SetColumnConfigs(rightAligned("from", "end (exclusive)", "offsets"))
	return trimLines(t.Render())
}

// remarks are what a partition needs a sentence for.
func remarks(p describe.Partition) []string {
	var out []string
	if p.Reason != "" {
		out = append(out, strings.TrimSpace(detailOf(p.Reason, p.Detail, 0)))
		if p.Hint != "" {
			out[0] += "\n  " + p.Hint
		}
	} else if p.Detail != "" {
		out = append(out, p.Detail)
	}
	if pad := p.Pad; pad != nil && !pad.Done {
		line := fmt.Sprintf("padding (%s) from %d up to %d is at stage %s", pad.Reason, pad.From, pad.Goal, pad.Stage)
		if pad.RestorePolicy != nil {
			line += ", cleanup.policy is put back to " + *pad.RestorePolicy + " after it"
		}
		out = append(out, line)
	}
	if p.Counters.Low() {
		out = append(out, fmt.Sprintf("%.0f%% of the marker counters are used; once all are, the partition halts at the next gap", p.Counters.Percent()))
	}
	if n := p.Ledger.Unexplained; n > 0 {
		out = append(out, fmt.Sprintf("%s markers more: the target's cleaner removed what they stand for", humanize.Comma(n)))
	}
	if s := p.StaleKeys; s != nil {
		out = append(out, staleKeys(*s))
	}
	return append(out, p.Ledger.Notes...)
}

// staleKeys says what was missed, and since when that could be.
func staleKeys(s ledger.Stale) string {
	since := "it is not known when the mirror held all of the source before"
	if !s.Since.IsZero() {
		since = "the mirror held all of the source at " + when(&s.Since) + ", and came there more than delete.retention.ms later"
	}
	return fmt.Sprintf("tombstones may be missing at offsets %d to %d, so that keys deleted on the source live on: %s", s.From, s.End-1, since)
}

func plainTable(columns ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatUpper
	t.AppendHeader(columns)
	return t
}

func rightAligned(names ...string) []table.ColumnConfig {
	out := make([]table.ColumnConfig, len(names))
	for i, name := range names {
		out[i] = table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	return out
}

// epochs writes a lineage, the newest three steps of a longer one.
func epochs(all []describe.Epoch) string {
	const most = 3
	var parts []string
	if len(all) > most {
		parts, all = []string{fmt.Sprintf("%d older,", len(all)-most)}, all[len(all)-most:]
	}
	for _, e := range all {
		parts = append(parts, fmt.Sprintf("%d@%d", e.Epoch, e.First))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

func padGoal(p *describe.Pad) string {
	switch {
	case p == nil:
		return "-"
	case p.Done:
		return fmt.Sprint(p.Goal)
	default:
		return fmt.Sprintf("%d (%s)", p.Goal, p.Stage)
	}
}

func used(c describe.Counters) string {
	if c.Used == nil {
		return "?"
	}
	return fmt.Sprintf("%s (%.1f%%)", humanize.Comma(*c.Used), c.Percent())
}

// totals writes what is listed of each reason. Where nothing is listed that means
// none only as far as is known.
func totals(m map[string]int64, upTo *int64) string {
	switch {
	case len(m) > 0:
		return counts(m)
	case upTo == nil:
		return "?"
	default:
		return "none"
	}
}

func counts(m map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, reason+" "+humanize.Comma(m[reason]))
	}
	return strings.Join(parts, ", ")
}

func when(t *time.Time) string {
	if t == nil {
		return "?"
	}
	return t.UTC().Format(time.RFC3339)
}

func orMissing(s *string) string {
	if s == nil {
		return "?"
	}
	return *s
}
