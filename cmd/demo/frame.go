package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"klink/linker/state"
)

// frame is one look at everything.
type frame struct {
	topics   []topic
	report   state.Report
	groups   []state.Group
	produced int64 // records that the source has acknowledged
	read     int64 // records that the group was given, with repetitions
}

// sum adds up partitions of a topic, or of all. Ends that klink does not know
// yet count as nothing; a lag that it does not know makes the whole unknown.
type sum struct {
	source, target, lag, committed, carried int64
	lagSeconds                              float64
	blind                                   bool // some lag is unknown
	states                                  map[state.State]int
	trouble                                 string // of the link, as long as no partition is known
}

// of sums up a topic, or all for "".
func (f frame) of(topic string) sum {
	s := sum{states: map[state.State]int{}}
	for _, l := range f.report.Links {
		if l.Reason != "" {
			s.trouble = fmt.Sprintf("%s: %s %s", l.State, l.Reason, l.Detail)
		}
		for _, t := range l.Topics {
			if topic == "" || t.SourceTopic == topic {
				s.add(t)
			}
		}
	}
	for _, g := range f.groups {
		for _, p := range g.Partitions {
			if topic == "" || p.SourceTopic == topic {
				s.committed += value(p.SourceOffset)
				s.carried += value(p.TargetOffset)
			}
		}
	}
	return s
}

func (s *sum) add(t state.Topic) {
	for _, p := range t.Partitions {
		s.source += value(p.SourceEnd)
		s.target += value(p.TargetEnd)
		s.blind = s.blind || p.LagRecords == nil || p.LagSeconds == nil
		s.lag += value(p.LagRecords)
		s.lagSeconds = max(s.lagSeconds, value(p.LagSeconds))
		s.states[p.State]++
	}
}

// lagWords are the lag in records and in seconds.
func (s sum) lagWords() (records, seconds string) {
	if s.blind {
		return "unknown", "-"
	}
	return humanize.Comma(s.lag), fmt.Sprintf("%.2f", s.lagSeconds)
}

func value[T int64 | float64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}

func (f frame) mirrored() int64 { return f.of("").target }

// summary is what the table does not say.
func (f frame) summary(clock string, rates [2]float64) string {
	return fmt.Sprintf("%s  produced %s (%.0f/s)  mirrored %s (%.0f/s)  group read %s",
		clock, humanize.Comma(f.produced), rates[0], humanize.Comma(f.mirrored()), rates[1], humanize.Comma(f.read))
}

// line is the frame in one plain line.
func (f frame) line(clock string, rates [2]float64) string {
	s := f.of("")
	records, seconds := s.lagWords()
	return fmt.Sprintf("%s  lag %s, %s s  committed %s, carried over %s  %s", f.summary(clock, rates),
		records, seconds, humanize.Comma(s.committed), humanize.Comma(s.carried), s.stateWords())
}

// stateWords counts partitions by state, worst first.
func (s sum) stateWords() string {
	states := make([]state.State, 0, len(s.states))
	for st := range s.states {
		states = append(states, st)
	}
	slices.SortFunc(states, func(a, b state.State) int { return b.Severity() - a.Severity() })
	var words []string
	for _, st := range states {
		words = append(words, fmt.Sprintf("%d %s", s.states[st], st))
	}
	if words == nil {
		return cmp.Or(s.trouble, "no partition yet")
	}
	return strings.Join(words, ", ")
}

// wholeTable is how many columns the whole table may take, with the longest
// state and millions of records.
const wholeTable = 100

// table is the frame as lines of a table no wider than the columns; 0 is no
// limit.
func (f frame) table(columns int, colour bool) []string {
	t := newTable(columns)
	t.AppendHeader(table.Row{"topic", "codec", "source", "target", "lag", "seconds", "state", "committed", "carried"})
	for _, c := range f.topics {
		s := f.of(c.name)
		records, seconds := s.lagWords()
		t.AppendRow(table.Row{c.name, c.codec, humanize.Comma(s.source), humanize.Comma(s.target), records, seconds, paint(s, colour), humanize.Comma(s.committed), humanize.Comma(s.carried)})
	}
	right := rightAligned("source", "target", "lag", "seconds", "committed", "carried")
	if columns > 0 && columns < wholeTable {
		right = append(right, table.ColumnConfig{Name: "committed", Hidden: true}, table.ColumnConfig{Name: "carried", Hidden: true})
	}
	t.SetColumnConfigs(right)
	return strings.Split(t.Render(), "\n")
}

func newTable(columns int) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Header = text.FormatUpper
	t.Style().Size.WidthMax = columns
	return t
}

func rightAligned(names ...string) (configs []table.ColumnConfig) {
	for _, name := range names {
		configs = append(configs, table.ColumnConfig{Name: name, Align: text.AlignRight, AlignHeader: text.AlignRight, AlignFooter: text.AlignRight})
	}
	return configs
}

// paint colours the states' words: red if any is in trouble, green if all are
// ACTIVE.
func paint(s sum, colour bool) string {
	words := s.stateWords()
	if !colour {
		return words
	}
	code := "33" // yellow
	for st := range s.states {
		if st.Severity() > state.Pending.Severity() {
			code = "31" // red
		}
	}
	if len(s.states) == 1 && s.states[state.Active] > 0 {
		code = "32" // green
	}
	return "\x1b[" + code + "m" + words + "\x1b[0m"
}
