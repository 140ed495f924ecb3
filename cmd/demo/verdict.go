package demo

import (
	"fmt"
	"time"

	"klink/cmd/lab"
	"klink/cmd/lab/strict"
	"klink/linker/state"
)

// evidence is all that the verdict follows from.
type evidence struct {
	topics     []topic
	comparison lab.Comparison
	// group is what it was given, by partition; commits what it had committed on
	// either side when it moved, -1 for nothing.
	group   map[lab.Partition]delivered
	commits map[lab.Partition]commits
	// atDeath and atEnd are klink's reports when the source died and at the end.
	atDeath, atEnd state.Report
	// violations are batches that the target would have refused as a real broker.
	violations []*strict.Violation

	live time.Duration
	// switched and noticed are nil where it never came to that.
	switched, noticed *time.Duration
}

// commits are a group's committed offsets of one partition, -1 for none.
type commits struct{ source, target int64 }

// judge gives the closing result of the evidence.
func judge(e evidence) Result {
	r := Result{Findings: []string{}, Topics: []Topic{}, LiveSeconds: e.live.Seconds(),
		SwitchSeconds: seconds(e.switched), NoticedSeconds: seconds(e.noticed)}
	for _, t := range e.topics {
		row, findings := e.topic(t)
		r.Topics = append(r.Topics, row)
		r.Findings = append(r.Findings, findings...)
	}
	if e.switched == nil {
		r.Findings = append(r.Findings, "the group was given no record at the target")
	}
	r.Findings = append(r.Findings, halts(e.atEnd)...)
	for _, v := range e.violations {
		r.Findings = append(r.Findings, "a real broker would not take this batch of klink's: "+v.Error())
	}
	r.Equal = len(r.Findings) == 0
	return r
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.Seconds()
	return &s
}

// topic judges one topic.
func (e evidence) topic(t topic) (Topic, []string) {
	row := Topic{Topic: t.name, Codec: t.codec, State: stateOf(e.atDeath, t.name), Partitions: []Partition{}}
	var findings []string
	if row.State != state.Active {
		findings = append(findings, fmt.Sprintf("%s was %s, not %s, when the source died", t.name, row.State, state.Active))
	}
	for _, c := range e.comparison.Partitions {
		if c.Src.Topic != t.name {
			continue
		}
		p, found := e.partition(c)
		findings = append(findings, found...)
		row.Partitions = append(row.Partitions, p)
		row.Records += p.TargetEnd
		row.Compared += p.Compared
		row.Equal += p.Equal
		row.NeverMirrored += max(0, p.SourceEnd-p.TargetEnd)
		row.ReadTwice += p.ReadTwice
		row.Lost += p.Lost
	}
	if row.Compared == 0 {
		return row, append(findings, t.name+": no record was compared")
	}
	share := float64(row.Equal) / float64(row.Records)
	row.EqualShare = &share
	return row, findings
}

// partition judges one partition.
func (e evidence) partition(c lab.PartitionComparison) (Partition, []string) {
	p := Partition{Partition: c.Src.Number, SourceEnd: c.SrcBounds.End, TargetEnd: c.DstBounds.End,
		Compared: min(c.SrcDigest.Records, c.DstDigest.Records), SourceDigest: c.SrcDigest.Hex, TargetDigest: c.DstDigest.Hex}
	p.Equal = p.Compared
	var findings []string
	say := func(format string, args ...any) {
		findings = append(findings, c.Src.String()+fmt.Sprintf(format, args...))
	}
	if c.First != nil {
		p.Equal = max(0, c.First.Offset-c.SrcDigest.From)
		say(" differs %v", c.First)
	} else if c.SrcDigest.Hex != c.DstDigest.Hex {
		p.Equal = 0
		say(": the digests differ: source %s, target %s", c.SrcDigest.Hex, c.DstDigest.Hex)
	}
	if extra := p.TargetEnd - p.SourceEnd; extra > 0 {
		say(": the target has %s beyond the source's end at %d", count(extra, "record"), p.SourceEnd)
	}
	if empty := c.DstDigest.To - c.DstDigest.From - c.DstDigest.Records; empty > 0 {
		say(": the target has %s without a record", count(empty, "offset"))
	}
	e.reading(c.Src, &p, say)
	return p, findings
}

// reading judges what the group was given of a partition.
func (e evidence) reading(at lab.Partition, p *Partition, say func(string, ...any)) {
	d, c := e.group[at], e.commits[at]
	p.ReadTwice, p.Lost = d.twice(), d.lost(p.TargetEnd)
	p.SourceCommit, p.TargetCommit, p.ResumedAt = offset(c.source), offset(c.target), offset(d.resumedAt())
	if p.Lost > 0 {
		say(": the group was not given %s of the target's", count(p.Lost, "record"))
	}
	switch {
	case p.SourceCommit != nil && p.TargetCommit == nil:
		say(": the group had committed offset %d at the source and has no commit at the target", c.source)
	case c.target > c.source:
		say(": the group's commit at the target, %d, is beyond the one at the source, %d", c.target, c.source)
	case p.ResumedAt != nil && p.TargetCommit != nil && *p.ResumedAt != c.target:
		say(": the group went on at offset %d, its commit at the target was %d", *p.ResumedAt, c.target)
	}
}

func offset(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// stateOf is a topic's state in a report; PENDING if klink does not know it yet.
func stateOf(r state.Report, name string) state.State {
	for _, l := range r.Links {
		for _, t := range l.Topics {
			if t.SourceTopic == name {
				return t.State
			}
		}
	}
	return state.Pending
}

// halts names all that klink has halted.
func halts(r state.Report) (out []string) {
	for _, l := range r.Links {
		for _, t := range l.Topics {
			for _, p := range t.Partitions {
				if p.State == state.Halted {
					out = append(out, fmt.Sprintf("klink halted %s[%d] as %s: %s", t.SourceTopic, p.Partition, p.Reason, p.Detail))
				}
			}
		}
	}
	return out
}
