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

	"klink/comparator"
)

// printCompared prints a comparison as a table, and below it what was found.
// With fold, each topic has one line.
func (s *shell) printCompared(r comparator.Result, fold bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "as of %s: %s\n", r.AsOf.Format(time.RFC3339), s.paintEqual(r))
	if r.ResumedFrom != nil {
		fmt.Fprintf(&b, "went on from a comparison of %s: what that had compared is as of then\n", r.ResumedFrom.Format(time.RFC3339))
	}
	if len(r.Topics) > 0 {
		b.WriteString("\n" + comparedTable(r, fold) + "\n")
	}
	for _, t := range r.Topics {
		writeList(&b, "", topicFindings(t))
	}
	for _, g := range r.Groups {
		writeList(&b, "", groupFindings(g))
	}
	var configs []string
	for _, d := range r.Configs {
		configs = append(configs, fmt.Sprintf("%s %s: source %s, target %s, a mirror has %s", d.TargetTopic, d.Key, orDash(d.Source), orDash(d.Target), d.Expected))
	}
	writeList(&b, "settings that differ:", configs)
	writeList(&b, "access rules that differ:", aclFindings(r.ACLs))
	_, err := io.WriteString(s.out, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// paintEqual is the result in a word.
func (s *shell) paintEqual(r comparator.Result) string {
	word, code := "equal", "32" // green
	switch {
	case r.Differences > 0:
		word, code = quantity(int(r.Differences), "difference"), "31" // red
	case r.Failed > 0:
		word, code = quantity(r.Failed, "failure"), "31"
	}
	if !s.colour {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

// comparedRow is one line of the table.
type comparedRow struct {
	mode                                       comparator.Mode
	records, compacted, expired, lag, findings int64
	foreign, duplicates                        int64
	from, to                                   *int64
	digest                                     string
}

func (w *comparedRow) add(p comparator.PartitionResult) {
	w.records += p.RecordsCompared
	w.compacted += p.Compacted
	w.expired += p.Expired
	w.lag += p.LagRecords
	for _, n := range p.Counts {
		w.findings += n
	}
	w.foreign += orZero(p.Foreign)
	w.duplicates += orZero(p.Duplicates)
	w.from, w.to = &p.From, &p.To
	if p.Digest != nil {
		w.digest = (*p.Digest)[:digestShown]
	}
}

// amongCopies is empty in mirror mode, where nothing lies among copies.
func (w *comparedRow) amongCopies(n int64) string {
	if w.mode != comparator.Checkpoint {
		return ""
	}
	return humanize.Comma(n)
}

// digestShown is as much of a digest as tells two logs apart by eye.
const digestShown = 16

func comparedTable(r comparator.Result, fold bool) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatUpper
	t.AppendHeader(table.Row{"topic", "mode", "partitions", "from", "to", "records", "findings", "compacted", "expired", "foreign", "duplicates", "lag", "digest"})
	row := func(name string, partition any, w comparedRow) {
		t.AppendRow(table.Row{name, w.mode, partition, count(w.from), count(w.to), humanize.Comma(w.records), humanize.Comma(w.findings), humanize.Comma(w.compacted),
			humanize.Comma(w.expired), w.amongCopies(w.foreign), w.amongCopies(w.duplicates), humanize.Comma(w.lag), w.digest})
	}
	for _, x := range r.Topics {
		name := x.SourceTopic
		if x.TargetTopic != x.SourceTopic {
			name += " -> " + x.TargetTopic
		}
		all := comparedRow{mode: x.Mode}
		for _, p := range x.Partitions {
			one := comparedRow{mode: p.Mode}
			one.add(p)
			all.add(p)
			if !fold {
				row(name, p.Partition, one)
			}
		}
		if fold || len(x.Partitions) == 0 {
			row(name, len(x.Partitions), all)
		}
	}
	right := func(name string, hidden bool) table.ColumnConfig {
		return table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight, Hidden: hidden}
	}
	kept := !slices.ContainsFunc(r.Topics, func(t comparator.TopicResult) bool { return t.Mode == comparator.Checkpoint })
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "mode", Hidden: kept}, right("partitions", false), right("from", fold), right("to", fold), right("records", false), right("findings", false),
		right("compacted", false), right("expired", false), right("foreign", kept), right("duplicates", kept), right("lag", false), {Name: "digest", Hidden: fold}})
	return trimLines(t.Render())
}

// topicFindings are lines about a topic and its partitions.
func topicFindings(t comparator.TopicResult) (lines []string) {
	if t.Error != "" {
		lines = append(lines, t.SourceTopic+": "+t.Error)
	}
	for _, d := range t.Differences {
		lines = append(lines, t.SourceTopic+": "+d)
	}
	for _, p := range t.Partitions {
		where := fmt.Sprintf("%s/%d", t.SourceTopic, p.Partition)
		if p.Error != "" {
			lines = append(lines, where+": not compared to the end: "+p.Error)
		}
		shown := map[comparator.Kind]int64{}
		for _, f := range p.Findings {
			shown[f.Kind] += f.Records
			lines = append(lines, fmt.Sprintf("%s: %s at offset %d: %s", where, f.Kind, f.Offset, f.Detail))
			lines = appendShown(lines, "source", f.Source)
			lines = appendShown(lines, "target", f.Target)
		}
		for _, kind := range comparator.Kinds() {
			if more := p.Counts[kind] - shown[kind]; more > 0 {
				lines = append(lines, fmt.Sprintf("%s: %s: %s more", where, kind, humanize.Comma(more)))
			}
		}
		lines = append(lines, keyLines(where, p)...)
	}
	return lines
}

func appendShown(lines []string, side string, r *comparator.Shown) []string {
	if r == nil {
		return lines
	}
	at := "without time"
	if r.TimestampMillis != nil {
		at = time.UnixMilli(*r.TimestampMillis).UTC().Format(time.RFC3339Nano)
	}
	return append(lines, fmt.Sprintf("  %s %d: %s, key %s, value %s, %d headers, of batch %d to %d (%s)", side, r.Offset, at, orNull(r.Key), orNull(r.Value),
		len(r.Headers), r.Batch.Base, r.Batch.Last, r.Batch.Codec))
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}

func keyLines(where string, p comparator.PartitionResult) (lines []string) {
	for _, k := range p.Keys {
		lines = append(lines, fmt.Sprintf("%s: key %q: latest at %s on the source, at %s on the target", where, k.Key, offsetOrNone(k.SourceOffset), offsetOrNone(k.TargetOffset)))
	}
	if p.KeysDiffering != nil && *p.KeysDiffering > int64(len(p.Keys)) {
		lines = append(lines, fmt.Sprintf("%s: %s more keys", where, humanize.Comma(*p.KeysDiffering-int64(len(p.Keys)))))
	}
	return lines
}

func offsetOrNone(n *int64) string {
	if n == nil {
		return "no offset"
	}
	return fmt.Sprint(*n)
}

func aclFindings(all []comparator.ACLResult) (lines []string) {
	for _, a := range all {
		if a.Error != "" {
			lines = append(lines, fmt.Sprintf("link %s: not compared: %s", a.Link, a.Error))
		}
		for _, d := range a.Differences {
			side := "the source alone"
			if d.Kind == comparator.Extra {
				side = "the target alone"
			}
			lines = append(lines, fmt.Sprintf("%s: %s %s of %s from host %s: on %s", d.SourceTopic, strings.ToLower(d.Permission), d.Operation, d.Principal, d.Host, side))
		}
	}
	return lines
}

func groupFindings(g comparator.GroupResult) (lines []string) {
	if g.Error != "" {
		lines = append(lines, fmt.Sprintf("group %s: %s", g.Group, g.Error))
	}
	for _, p := range g.Partitions {
		lines = append(lines, fmt.Sprintf("group %s: %s at %s/%d: source %s, target %s: %s", g.Group, p.Kind, p.SourceTopic, p.Partition,
			offsetOrNone(p.SourceOffset), offsetOrNone(p.TargetOffset), p.Detail))
	}
	return lines
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
