package describe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/state"
)

// The details of topics that the report lacks.
const (
	notReported = "on record, and not in the report of the running klink"
	noState     = "on record, and no state of it"
)

// Complete returns a link's part of a report with the topics that are on record
// and missing in it (D4), as they were last recorded.
func Complete(l state.Link, v *control.View) state.Link {
	l.Topics = slices.Clone(l.Topics)
	add := func(t state.Topic, detail string) {
		same := func(o state.Topic) bool { return o.SourceTopic == t.SourceTopic }
		if !slices.ContainsFunc(l.Topics, same) {
			t.Detail = detail
			l.Topics = append(l.Topics, t)
		}
	}
	for _, s := range v.States(l.Name) {
		add(s.Topic, notReported)
	}
	for _, r := range v.Topics(l.Name) {
		mode := cmp.Or(string(r.Mode), l.Mode)
		t := state.Topic{SourceTopic: r.SourceTopic, TargetTopic: r.TargetTopic, Mode: mode, State: state.Pending, Partitions: []state.Partition{}}
		for n := range r.Partitions {
			t.Partitions = append(t.Partitions, state.Partition{Partition: n, Mode: mode, State: state.Pending, Flags: []string{}})
		}
		add(t, noState)
	}
	return l
}

// Describe adds to one link of a report what is on record about it.
func Describe(l state.Link, v *control.View, d Detail) Link {
	intents := v.Intents(l.Name)
	out := Link{Link: l, Topics: make([]Topic, 0, len(l.Topics)), Intent: intentOf(intents.Link()),
		Commands: commands(v.Commands(l.Name)), GroupAcks: acks(v.Acks(l.Name, ""))}
	out.Intent.ByLink = false // it is the link
	r, ok := v.Link(l.Name)
	if ok {
		out.SourceClusterID, out.TargetClusterID = known(r.SourceClusterID), known(r.TargetClusterID)
		out.KlinkVersion, out.Definition = known(r.KlinkVersion), known(r.Definition)
		if !r.AppliedAt.IsZero() {
			out.AppliedAt = &r.AppliedAt
		}
	}
	cuts := cutsByTopic(v.Cuts(l.Name, ""))
	for _, t := range l.Topics {
		topic := describeTopic(t, v, about{l.Name, r.SourceClusterID, d})
		topic.Intent, topic.Cuts = intentOf(intents.Of(t.SourceTopic)), listed(cuts[t.SourceTopic])
		out.Topics = append(out.Topics, topic)
	}
	return out
}

// Detail is how much of a ledger is told.
type Detail bool

// The details: the totals alone, or the ranges as well.
const (
	TotalsOnly Detail = false
	WithRanges Detail = true
)

// about is what all partitions of a link have in common.
type about struct {
	link, srcCluster string
	detail           Detail
}

func describeTopic(t state.Topic, v *control.View, a about) Topic {
	out := Topic{Topic: t, SourceSettings: []Setting{}, Partitions: make([]Partition, 0, len(t.Partitions)),
		Acks: acks(v.Acks(a.link, t.SourceTopic)), Adoption: adoption(v.Adopt(a.link, t.SourceTopic))}
	r, ok := v.Topic(a.link, t.SourceTopic)
	if ok {
		out.SourceID, out.TargetID = id(r.SourceID), id(r.TargetID)
		out.Generation, out.Compacted = &r.Generation, &r.Compacted
		settings := r.SourceConfigs.All()
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			out.SourceSettings = append(out.SourceSettings, Setting{name, settings[name].Value, settings[name].Explicit})
		}
	}
	for _, p := range t.Partitions {
		d := Partition{Partition: p, SourceEpochs: []Epoch{}, Counters: Counters{Limit: ledger.CounterLimit}}
		if ok {
			d.trace(r, v, a)
		}
		d.Ledger = d.trail.ledger(a.detail)
		if r, ok := v.Ledger(a.link, t.SourceTopic, p.Partition); ok {
			d.Ledger.AsOf, d.StaleKeys = &r.AsOf, r.Stale
		}
		out.Partitions = append(out.Partitions, d)
	}
	return out
}

// trace fills in what is on record of a partition, and where its log goes on.
func (p *Partition) trace(r control.TopicRecord, v *control.View, a about) {
	n := p.Partition.Partition
	for _, e := range v.Epochs(a.link, r.SourceTopic, n) {
		p.SourceEpochs = append(p.SourceEpochs, Epoch(e))
	}
	used := int64(v.CounterEnd(a.link, r.SourceTopic, r.SourceID, n))
	p.Counters.Used = &used
	p.trail.partition, p.trail.id = feed.Partition{Topic: r.TargetTopic, Partition: n}, r.TargetID
	if a.srcCluster != "" && !r.TargetID.IsZero() {
		p.trail.producerID = appender.ProducerID(a.srcCluster, r.SourceID, n, r.Generation)
		id := strconv.FormatInt(p.trail.producerID, 10)
		p.ProducerID = &id
	}
	if l, ok := v.Ledger(a.link, r.SourceTopic, n); ok {
		p.trail.index = &l.Index
	}
	if pad, ok := v.Pad(a.link, r.SourceTopic, n); ok {
		p.Pad, p.trail.pad = padOf(pad), padded(pad, p.TargetEnd)
	}
}

// padded is the part of a pad goal that is reached as far as is known. Pads are
// appended in order, so that is up to the target's end.
func padded(r control.PadRecord, end *int64) *ledger.Range {
	out := &ledger.Range{From: r.From, End: r.Goal, Reason: r.Reason}
	if !r.Done {
		if end == nil {
			return nil
		}
		out.End = min(r.Goal, *end)
	}
	if out.End <= out.From {
		return nil
	}
	return out
}

// ledger tells what is on record.
func (t trail) ledger(d Detail) Ledger {
	tally := newTally(t)
	upTo, ok := tally.reach()
	tally.padBelow(unbounded)
	l := tally.ledger(d)
	if ok {
		l.UpTo = &upTo
	}
	return l
}
