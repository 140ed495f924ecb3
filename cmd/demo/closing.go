package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
)

// Print writes the result as a table and in words.
func (r Result) Print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\n" + r.table() + "\n\n")
	if r.SwitchSeconds != nil {
		fmt.Fprintf(&b, "The switch took %s, from the source's death to the first record that the group was given\n"+
			"at the target; it was restarted there at once, so the time in which somebody notices is not in it.\n", took(*r.SwitchSeconds))
	}
	if r.NoticedSeconds != nil {
		fmt.Fprintf(&b, "klink showed all partitions as SOURCE_UNAVAILABLE after %s.\n", took(*r.NoticedSeconds))
	}
	sum := r.sum()
	fmt.Fprintf(&b, "never mirrored: %s that the source had and klink had not copied when it died;\n"+
		"  no copy of them exists.\n", count(sum.NeverMirrored, "record"))
	fmt.Fprintf(&b, "read twice: %s since the group's last commit that was carried over,\n"+
		"  as after any restart of a consumer.\n", count(sum.ReadTwice, "record"))
	fmt.Fprintf(&b, "lost: %s of the target's that the group was given on neither side.\n\n", count(sum.Lost, "record"))
	if r.Equal {
		fmt.Fprintf(&b, "EQUAL: all %s on the target are at the source's offsets, the same to the byte.\n", count(sum.Records, "record"))
	} else {
		fmt.Fprintf(&b, "NOT EQUAL:\n  %s\n", strings.Join(indented(r.Findings), "\n  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func indented(findings []string) (out []string) {
	for _, f := range findings {
		out = append(out, strings.ReplaceAll(f, "\n", "\n  "))
	}
	return out
}

func (r Result) table() string {
	t := newTable(0)
	head := table.Row{"topic", "codec", "parts", "records", "offsets\nequal", "compared\nby digest", "never\nmirrored", "read\ntwice", "lost"}
	t.AppendHeader(head)
	row := func(s Topic, parts int) table.Row {
		return table.Row{s.Topic, s.Codec, parts, humanize.Comma(s.Records), share(s.Equal, s.Records), humanize.Comma(s.Compared),
			humanize.Comma(s.NeverMirrored), humanize.Comma(s.ReadTwice), humanize.Comma(s.Lost)}
	}
	parts := 0
	for _, s := range r.Topics {
		t.AppendRow(row(s, len(s.Partitions)))
		parts += len(s.Partitions)
	}
	t.AppendFooter(row(r.sum(), parts))
	numbers := make([]string, 0, len(head))
	for _, name := range head[2:] {
		numbers = append(numbers, name.(string))
	}
	t.SetColumnConfigs(rightAligned(numbers...))
	return t.Render()
}

func (r Result) sum() Topic {
	all := Topic{Topic: "all"}
	for _, t := range r.Topics {
		all.Records += t.Records
		all.Compared += t.Compared
		all.Equal += t.Equal
		all.NeverMirrored += t.NeverMirrored
		all.ReadTwice += t.ReadTwice
		all.Lost += t.Lost
	}
	return all
}

// share writes equal/all as a percentage, rounded down: 100 % means all.
func share(equal, all int64) string {
	switch {
	case all == 0:
		return "?"
	case equal >= all:
		return "100 %"
	}
	return fmt.Sprintf("%.2f %%", math.Floor(float64(equal)/float64(all)*10_000)/100)
}

// took writes seconds as a duration.
func took(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// count writes a number with its noun.
func count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return humanize.Comma(n) + " " + noun
}

// hints says how to look at the clusters that were left running, e.g. at an
// offset of the first partition of a topic.
func hints(source, target, topic string, at int64) string {
	return fmt.Sprintf(`
The source is open again and takes %[1]d records/s; klink goes on mirroring. Ctrl-C ends everything.

  source  %[2]s
  target  %[3]s

Look at the same offset on both sides, e.g.
  kcat -C -q -b %[2]s -t %[4]s -p 0 -o %[5]d -c 3 -f 'offset %%o, time %%T, key %%k\n'
  kcat -C -q -b %[3]s -t %[4]s -p 0 -o %[5]d -c 3 -f 'offset %%o, time %%T, key %%k\n'
or with Kafka's own tool
  kafka-console-consumer.sh --bootstrap-server %[3]s --topic %[4]s --partition 0 --offset %[5]d --max-messages 3 --property print.offset=true
and at what klink has recorded there
  klink status --target %[3]s
`, keptRate, source, target, topic, at)
}
