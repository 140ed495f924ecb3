package app

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/cmd/show"
	"klink/linker/reverse"
)

// reverseText writes a result: by topic, then what stands in the way, then the new
// link's file where it was not written to one. failed is what ended it, nil for nothing.
func (s *shell) reverseText(r reverse.Result, failed error) string {
	var b strings.Builder
	title := "link %s is turned around as link %s"
	switch {
	case r.Failed > 0:
		title = "link %s cannot be turned around as link %s"
	case failed != nil && !r.DryRun && !errors.Is(failed, reverse.ErrUnwritten):
		title = "link %s is not turned around as link %s, or in part"
	case r.DryRun:
		title = "link %s would be turned around as link %s (nothing was done)"
	}
	fmt.Fprintf(&b, title+", as of %s\n\n%s\n", r.Link, r.Next, r.AsOf.UTC().Format(time.RFC3339), s.reverseTopics(r))
	for _, t := range r.Topics {
		for _, line := range reverseRemarks(t) {
			b.WriteString("\n" + line + "\n")
		}
	}
	if len(r.Groups) > 0 {
		b.WriteString("\ngroups whose offsets on the old source the new link may overwrite: " + groupNames(r.Groups) + "\n")
	}
	list := strings.Builder{}
	writeList(&list, "rights that are missing on the old source:", r.MissingRights)
	writeList(&list, "rights on the old source that it does not tell of:", r.UnknownRights)
	if list.Len() > 0 {
		b.WriteString(strings.TrimPrefix(list.String(), "\n") + "\n")
	}
	switch {
	case r.Written != "":
		fmt.Fprintf(&b, "\nthe new link's file is %s: klink run -c %s\n", r.Written, r.Written)
	case r.Failed == 0 && r.Definition != "":
		b.WriteString("\nthe new link's file, for klink run -c FILE:\n\n" + r.Definition)
	}
	return b.String()
}

func (s *shell) reverseTopics(r reverse.Result) string {
	t := plainTable("topic", "partitions", "verdict", "equal records", "tail records", "copied anew")
	for _, x := range r.Topics {
		name := x.SourceTopic
		if x.SourceTopic != x.TargetTopic {
			name += " <- " + x.TargetTopic
		}
		equal, anew := int64(0), ""
		for _, p := range x.Partitions {
			equal += p.Equal
		}
		if x.Recreate {
			anew = "yes"
		}
		t.AppendRow(table.Row{name, len(x.Partitions), s.paintTurn(x), humanize.Comma(equal), humanize.Comma(x.TailRecords), anew})
	}
	t.Style().Format.Footer = text.FormatDefault
	t.SetColumnConfigs(rightAligned("partitions", "equal records", "tail records"))
	return trimLines(t.Render())
}

// reverseRemarks are what stands in a topic's way, and every tail.
func reverseRemarks(t reverse.Topic) []string {
	var out []string
	if !t.OK {
		line := strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", t.SourceTopic, t.Verdict, t.Detail), ": ")
		if t.Hint != "" {
			line += "\n  " + t.Hint
		}
		out = append(out, line)
	}
	for _, p := range t.Partitions {
		where := fmt.Sprintf("%s/%d: ", t.SourceTopic, p.Partition)
		if p.Tail != nil {
			out = append(out, fmt.Sprintf("%sthe old source alone has %s at offsets %d to %d, of %s to %s", where, quantity(int(p.Tail.Records), "record"),
				p.Tail.From, p.Tail.End-1, when(&p.Tail.FirstAt), when(&p.Tail.LastAt)))
		}
		if p.Detail != "" && p.Detail != t.Detail {
			out = append(out, fmt.Sprintf("%s%s: %s (old source %s to %s, promoted %s to %s)", where, p.Verdict, p.Detail,
				show.Records(p.SourceStart), show.Records(p.SourceEnd), show.Records(p.TargetStart), show.Records(p.TargetEnd)))
		}
	}
	return out
}

func groupNames(groups []reverse.Group) string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Group)
	}
	return few(names)
}

// paintTurn colours a verdict where colours are wanted.
func (s *shell) paintTurn(t reverse.Topic) string {
	code := "31"
	switch {
	case t.Recreate:
		code = "33"
	case t.OK:
		code = "32"
	}
	if !s.colour {
		return string(t.Verdict)
	}
	return "\x1b[" + code + "m" + string(t.Verdict) + "\x1b[0m"
}
