package contrast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"klink/cmd/lab"
)

// evidence is all that a mode's result follows from (X1).
type evidence struct {
	prefix     string
	partitions []lab.Partition
	entries    map[lab.Partition][]Entry
	copies     map[lab.Partition][]Copy
	groups     []groupEvidence
	began      time.Time // the load, with the mirror beside it
	carried    *time.Duration
	pace       pace
	memory     *int64
}

// groupEvidence is what there is of one group.
type groupEvidence struct {
	name    string
	commits map[lab.Partition]int64 // its last ones at the source
	resumed map[lab.Partition]int64 // where it was told to go on
	given   map[lab.Partition][]Copy
	// switched is from the source's death to its first new record.
	switched *time.Duration
}

// result measures.
func (e evidence) result() ModeResult {
	r := ModeResult{Weight: &Weight{}, Findings: []string{}, Topics: []TopicResult{}, Groups: []GroupResult{}, MBPerSecond: e.pace.megabytesPerSecond(),
		CPUSecondsPerGB: e.pace.cpuPerGB(), PeakMemoryBytes: e.memory}
	if e.carried != nil {
		r.CarriedSeconds = seconds(*e.carried)
	}
	for _, p := range parts {
		t := e.topic(p)
		*r.Weight, r.Topics = r.plus(t.Weight), append(r.Topics, t)
	}
	r.EqualShare = share(r.SameOffset, r.Copied)
	e.measureGroups(&r)
	e.measureDelays(&r)
	return r
}

func (e evidence) topic(part part) TopicResult {
	t := TopicResult{Topic: part.name}
	for _, p := range e.partitions {
		if p.Topic == e.prefix+part.name {
			t.Weight = t.plus(Weigh(e.entries[p], e.copies[p], part.keys > 0))
		}
	}
	t.EqualShare = share(t.SameOffset, t.Copied)
	return t
}

func (e evidence) measureGroups(r *ModeResult) {
	var errors []int64
	all := true
	var last time.Duration
	for _, g := range e.groups {
		row := e.group(g)
		r.Groups = append(r.Groups, row)
		for _, p := range row.Partitions {
			errors = append(errors, p.Error)
		}
		if all = all && g.switched != nil; all {
			last = max(last, *g.switched)
		}
	}
	r.ErrorMean, r.ErrorMax = meanAndMax(errors)
	if all && len(e.groups) > 0 {
		r.SwitchSeconds = seconds(last)
	}
}

func (e evidence) group(g groupEvidence) GroupResult {
	r := GroupResult{Group: g.name, Partitions: []GroupPartition{}}
	if g.switched != nil {
		r.SwitchSeconds = seconds(*g.switched)
	}
	var errors []int64
	for _, p := range e.partitions {
		row := e.groupPartition(g, p)
		if row.ResumedAt == nil {
			r.Unplaced++
		}
		r.ReadAgain += row.ReadAgain
		r.NeverGiven += row.NeverGiven
		r.Partitions, errors = append(r.Partitions, row), append(errors, row.Error)
	}
	r.ErrorMean, r.ErrorMax = meanAndMax(errors)
	return r
}

func (e evidence) groupPartition(g groupEvidence, p lab.Partition) GroupPartition {
	commit := g.commits[p]
	row := GroupPartition{Topic: strings.TrimPrefix(p.Topic, e.prefix), Partition: p.Number, Committed: commit}
	resume := int64(-1)
	if at, ok := g.resumed[p]; ok {
		resume = at
		row.ResumedAt = &at
	}
	row.Error = Stand(e.entries[p], e.copies[p], commit, resume).Error()
	given := map[int64]bool{}
	for _, c := range g.given[p] {
		if given[c.Serial] || acknowledged(e.entries[p], c.Serial) && e.entries[p][c.Serial].Offset < commit {
			row.ReadAgain++
		}
		given[c.Serial] = true
	}
	for _, c := range e.copies[p] {
		if acknowledged(e.entries[p], c.Serial) && e.entries[p][c.Serial].Offset >= commit && !given[c.Serial] {
			row.NeverGiven++
		}
	}
	return row
}

func (e evidence) measureDelays(r *ModeResult) {
	var delays []time.Duration
	var entries [][]Entry
	var copies [][]Copy
	for _, p := range e.partitions {
		delays = append(delays, Delays(e.entries[p], e.copies[p])...)
		entries, copies = append(entries, e.entries[p]), append(copies, e.copies[p])
	}
	if p50 := Quantile(delays, 0.5); p50 != nil {
		r.LagP50Seconds, r.LagP99Seconds = seconds(*p50), seconds(*Quantile(delays, 0.99))
	}
	r.Course = Course(e.began, entries, copies)
}

func meanAndMax(all []int64) (mean *float64, most *int64) {
	if len(all) == 0 {
		return nil, nil
	}
	var sum int64
	for _, n := range all {
		sum += n
	}
	m, top := float64(sum)/float64(len(all)), slices.Max(all)
	return &m, &top
}

// judge names what a mode did not keep of its promises. Having copied nothing, or
// delivered nothing, keeps none.
func judge(r ModeResult) []string {
	findings := []string{}
	say := func(broken bool, format string, args ...any) {
		if broken {
			findings = append(findings, fmt.Sprintf(format, args...))
		}
	}
	p := r.Promise
	if p == (Promise{}) {
		return findings
	}
	say(r.Copied == 0, "nothing was mirrored")
	say(p.NothingLost && r.Lost > 0, "%d records are lost", r.Lost)
	say(p.NothingTwice && r.Twice > 0, "%d records were copied twice", r.Twice)
	say(p.NothingTwice && r.Revealed > 0, "%d records of aborted transactions can be seen", r.Revealed)
	say(p.NothingTwice && r.Disorder > 0, "%d records are out of order", r.Disorder)
	say(p.SameOffsets && r.SameOffset < r.Copied, "%d records are not at the source's offsets", r.Copied-r.SameOffset)
	for _, g := range r.Groups {
		say(g.SwitchSeconds == nil, "group %s was given no new record at the target", g.Group)
		say(p.NothingReadAgain && g.ReadAgain > 0, "group %s was given %d records again", g.Group, g.ReadAgain)
		say(p.NothingLost && p.NothingReadAgain && g.NeverGiven > 0, "group %s was not given %d records", g.Group, g.NeverGiven)
	}
	return findings
}
