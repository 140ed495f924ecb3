package show

import (
	"fmt"
	"slices"
	"strings"

	"klink/linker/state"
)

// Row is one line about some partitions of a topic that are in the same state
// for the same reason, or about a topic whose partitions are not known.
type Row struct {
	Link, Topic, Target string
	// Partitions names them, e.g. "0-31,40"; "" where none is known.
	Partitions string
	State      state.State
	Reason     string
	// Detail is that of the first partition, Others how many more have another one.
	Detail string
	Others int
	Hint   string
	// LagRecords is the sum, LagSeconds the largest (J2).
	LagRecords *int64
	LagSeconds *float64
	Flags      []string
}

// Rows returns the rows of a report in its order. With fold, neighbours in state
// and reason share a row; else each partition has its own.
func Rows(r state.Report, fold bool) []Row {
	var out []Row
	for _, l := range r.Links {
		for _, t := range l.Topics {
			out = append(out, topicRows(l.Name, t, fold)...)
		}
	}
	return out
}

func topicRows(link string, t state.Topic, fold bool) []Row {
	base := Row{Link: link, Topic: t.SourceTopic, Target: t.TargetTopic}
	if len(t.Partitions) == 0 {
		base.State, base.Reason, base.Detail, base.Hint = t.State, t.Reason, t.Detail, t.Hint
		return []Row{base}
	}
	var groups [][]state.Partition
	for _, p := range t.Partitions {
		i := slices.IndexFunc(groups, func(g []state.Partition) bool {
			return fold && g[0].State == p.State && g[0].Reason == p.Reason && g[0].Hint == p.Hint && slices.Equal(g[0].Flags, p.Flags) &&
				// Without a reason the detail is what sets a partition apart.
				(p.Reason != "" || (g[0].Detail == "") == (p.Detail == ""))
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], p)
	}
	rows := make([]Row, len(groups))
	for i, g := range groups {
		rows[i] = base.of(g)
	}
	return rows
}

// of returns the row with what a group of partitions says.
func (r Row) of(group []state.Partition) Row {
	first := group[0]
	r.State, r.Reason, r.Hint, r.Flags = first.State, first.Reason, first.Hint, first.Flags
	var records int64
	var seconds float64
	recordsKnown, secondsKnown := true, true
	numbers := make([]int32, len(group))
	for i, p := range group {
		numbers[i] = p.Partition
		if p.LagRecords == nil {
			recordsKnown = false
		} else {
			records += *p.LagRecords
		}
		if p.LagSeconds == nil {
			secondsKnown = false
		} else {
			seconds = max(seconds, *p.LagSeconds)
		}
		switch {
		case p.Detail == r.Detail, p.Detail == "":
		case r.Detail == "":
			r.Detail = p.Detail
		default:
			r.Others++
		}
	}
	r.Partitions = Ranges(numbers)
	if recordsKnown {
		r.LagRecords = &records
	}
	if secondsKnown {
		r.LagSeconds = &seconds
	}
	return r
}

// Ranges writes numbers of partitions in short: 0-3,7.
func Ranges(numbers []int32) string {
	numbers = slices.Sorted(slices.Values(numbers))
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, fmt.Sprint(numbers[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Records writes a number of records, "?" where it is unknown.
func Records(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// Seconds writes a time, "?" where it is unknown.
func Seconds(s *float64) string {
	if s == nil {
		return "?"
	}
	return fmt.Sprintf("%.1f", *s)
}
