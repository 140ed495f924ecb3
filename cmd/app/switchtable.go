package app

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/cmd/show"
	"klink/linker/state"
	"klink/linker/switchover"
)

// mostPartitions is how many partitions have a line each without being asked for
// by topic; of more, only those that somebody has to look at.
const mostPartitions = 100

// switchView says how the numbers of a switch are printed.
type switchView struct {
	switching
	// all prints every partition, however many there are.
	all bool
	// done is whether the command has done all it was to do.
	done bool
}

// printSwitch prints the numbers of a switch: by topic, by partition, in all, by
// group, and then what there is to know and to do.
func (s *shell) printSwitch(w io.Writer, r switchover.Result, v switchView) error {
	var b strings.Builder
	fmt.Fprintf(&b, "link %s, %s, as of %s\n\n%s\n", r.Link, v.title(r), r.AsOf.UTC().Format(time.RFC3339), s.switchTopics(r))
	lines, left := switchPartitions(r, v.all)
	if lines != "" {
		b.WriteString("\n" + lines + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%s more lose nothing; name topics, or use -o json, to see them\n", quantity(left, "partition"))
	}
	b.WriteString("\n" + lostLine(r, v) + "\n")
	if len(r.Groups) > 0 {
		b.WriteString("\n" + switchGroups(r.Groups) + "\n")
	}
	for _, line := range switchRemarks(r) {
		b.WriteString("\n" + line + "\n")
	}
	switch {
	case r.DryRun && v.access != LookOnly:
		b.WriteString("\n" + v.effect + "\n")
	case v.done && v.next != "":
		b.WriteString("\n" + v.next + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (v switchView) title(r switchover.Result) string {
	switch {
	case v.access == LookOnly:
		return "what a failover now would do"
	case r.DryRun:
		return "what " + v.name + " would do (nothing was done)"
	case r.Switch == nil:
		return v.name
	default:
		return v.name + " " + *r.Switch
	}
}

// switchTopics has a line per topic, and one for all of them.
func (s *shell) switchTopics(r switchover.Result) string {
	t := plainTable("topic", "partitions", "state", "fenced", "lost at most", "unseen seconds", "open records", "reason")
	var all []switchover.Partition
	for _, x := range r.Topics {
		name := x.SourceTopic
		if x.TargetTopic != x.SourceTopic {
			name += " -> " + x.TargetTopic
		}
		t.AppendRow(append(append(table.Row{name, len(x.Partitions), s.paint(state.State(x.State))}, lossNumbers(x.Partitions)...), x.Reason))
		all = append(all, x.Partitions...)
	}
	if len(r.Topics) > 1 {
		t.AppendFooter(append(table.Row{quantity(len(r.Topics), "topic"), len(all), ""}, lossNumbers(all)...))
	}
	t.Style().Format.Footer = text.FormatDefault
	t.SetColumnConfigs(rightAlignedWithFooter("partitions", "fenced", "lost at most", "unseen seconds", "open records"))
	return trimLines(t.Render())
}

// lossNumbers are the numbers of some partitions together; a sum over something
// unknown is unknown (J2).
func lossNumbers(ps []switchover.Partition) table.Row {
	fenced, lost, open, unseen := 0, new(int64), new(int64), new(float64)
	add := func(into *int64, n *int64) *int64 {
		if into == nil || n == nil {
			return nil
		}
		*into += *n
		return into
	}
	for _, p := range ps {
		if p.Fenced {
			fenced++
		}
		lost, open = add(lost, p.RecordsLost), add(open, p.OpenRecords)
		if p.UnseenSeconds == nil {
			unseen = nil
		} else if unseen != nil {
			*unseen = max(*unseen, *p.UnseenSeconds)
		}
	}
	return table.Row{fenced, count(lost), show.Seconds(unseen), count(open)}
}

// switchPartitions has a line per partition; left counts those that have none.
func switchPartitions(r switchover.Result, all bool) (lines string, left int) {
	total := 0
	for _, x := range r.Topics {
		total += len(x.Partitions)
	}
	t := plainTable("topic", "partition", "last mirrored", "target end", "source end", "seen at", "lost at most", "unseen seconds", "open records", "fence at")
	for _, x := range r.Topics {
		for _, p := range x.Partitions {
			if !all && total > mostPartitions && x.OK && harmless(p) {
				left++
				continue
			}
			t.AppendRow(table.Row{x.SourceTopic, p.Partition, lastMirrored(p), show.Records(p.TargetEnd), show.Records(p.SourceEnd), when(p.SourceEndAsOf),
				count(p.RecordsLost), show.Seconds(p.UnseenSeconds), count(p.OpenRecords), fenceAt(p)})
		}
	}
	if t.Length() == 0 {
		return "", left
	}
	t.SetColumnConfigs(rightAligned("partition", "last mirrored", "target end", "source end", "lost at most", "unseen seconds", "open records", "fence at"))
	return trimLines(t.Render()), left
}

// harmless tells a partition on which nothing is lost.
func harmless(p switchover.Partition) bool {
	return p.RecordsLost != nil && *p.RecordsLost == 0 && p.OpenRecords != nil && *p.OpenRecords == 0
}

// lastMirrored tells a partition on which nothing was mirrored from one of which
// nothing is known.
func lastMirrored(p switchover.Partition) string {
	if p.LastMirrored == nil && p.TargetEnd != nil {
		return "-"
	}
	return show.Records(p.LastMirrored)
}

func fenceAt(p switchover.Partition) string {
	if !p.Fenced {
		return "-"
	}
	return show.Records(p.FenceOffset)
}

// lostLine says in a sentence what is lost.
func lostLine(r switchover.Result, v switchView) string {
	verb := "lost"
	if r.DryRun || v.access == LookOnly || v.access == BothSides && r.Switch == nil { // a promotion that was not done loses nothing
		verb = "would be lost"
	}
	since := "what it took in since it was last seen, for an unknown time"
	if r.UnseenSeconds != nil {
		since = fmt.Sprintf("what it took in during the %s seconds since it was last seen", show.Seconds(r.UnseenSeconds))
	}
	switch {
	case r.RecordsLost != nil && *r.RecordsLost == 0 && v.done && !r.DryRun && v.access == BothSides:
		return "nothing is lost: the source had no record more when it was looked at last"
	case r.RecordsLost == nil:
		return verb + ": unknown in all, since the ends of some partitions are not known; and " + since
	case *r.RecordsLost == 0:
		return verb + ": nothing that the source was seen to have; but " + since
	default:
		return fmt.Sprintf("%s: at most %s that the source was seen to have, and %s", verb, quantity(int(*r.RecordsLost), "record"), since)
	}
}

// groupSums are what a group's partitions have in common; nil where one of them does
// not know.
type groupSums struct {
	toRead, again, sampled *int64
	age                    *float64
}

func sumsOf(g switchover.Group) groupSums {
	s := groupSums{new(int64), new(int64), new(int64), new(float64)}
	add := func(sum **int64, n *int64) {
		if *sum == nil || n == nil {
			*sum = nil
			return
		}
		**sum += *n
	}
	for _, p := range g.Partitions {
		add(&s.toRead, p.RecordsToRead)
		add(&s.again, p.RecordsReadAgain)
		add(&s.sampled, p.RecordsReadAgainMM2)
		if s.age != nil && p.AgeSeconds != nil {
			*s.age = max(*s.age, *p.AgeSeconds)
		} else {
			s.age = nil
		}
	}
	return s
}

const sampledColumn = "read again by MM2's syncs"

// switchGroups has a line per consumer group. What MirrorMaker 2 would make of it is
// there in checkpoint mode, where it could know of any.
func switchGroups(groups []switchover.Group) string {
	columns := []any{"group", "partitions", "state", "records to read", "read again"}
	contrast := slices.ContainsFunc(groups, func(g switchover.Group) bool {
		return slices.ContainsFunc(g.Partitions, func(p switchover.GroupPartition) bool { return p.RecordsReadAgainMM2 != nil })
	})
	if contrast {
		columns = append(columns, sampledColumn)
	}
	t := plainTable(append(columns, "commit age seconds", "reason")...)
	for _, g := range groups {
		s := sumsOf(g)
		row := table.Row{g.Group, len(g.Partitions), g.State, count(s.toRead), count(s.again)}
		if contrast {
			row = append(row, count(s.sampled))
		}
		t.AppendRow(append(row, show.Seconds(s.age), g.Reason))
	}
	t.SetColumnConfigs(rightAligned("partitions", "records to read", "read again", sampledColumn, "commit age seconds"))
	return trimLines(t.Render())
}

// switchRemarks are what topics, partitions and the way there need a sentence for.
func switchRemarks(r switchover.Result) []string {
	var out []string
	for _, t := range r.Topics {
		if line := strings.TrimPrefix(strings.TrimSpace(detailOf(t.Reason, t.Detail, 0)), ": "); line != "" {
			line = t.SourceTopic + ": " + line
			if t.Hint != "" {
				line += "\n  " + t.Hint
			}
			out = append(out, line)
		}
	}
	out = append(append(out, partitionRemarks(r.Topics)...), r.Notes...)
	for _, w := range r.Warnings {
		out = append(out, fmt.Sprintf("warning: %s: %s\n  %s", w.Right, w.Detail, w.Hint))
	}
	return out
}

// partitionRemarks says what several partitions have in common once.
func partitionRemarks(topics []switchover.Topic) []string {
	var details []string
	of := map[string][]string{}
	for _, t := range topics {
		numbers := map[string][]int32{}
		for _, p := range t.Partitions {
			if p.Detail != "" && !slices.Contains(details, p.Detail) {
				details = append(details, p.Detail)
			}
			numbers[p.Detail] = append(numbers[p.Detail], p.Partition)
		}
		for detail, ns := range numbers {
			of[detail] = append(of[detail], t.SourceTopic+"/"+show.Ranges(ns))
		}
	}
	for i, d := range details {
		details[i] = few(of[d]) + ": " + d
	}
	return details
}
