package groups

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// Report returns the groups for status, sorted by name: those with offsets on
// mirrored topics, those that are not carried, and the patterns of the filter
// that match nothing.
func (d *Desk) Report(now time.Time) []state.Group {
	out := make([]state.Group, 0, len(d.groups))
	for _, e := range d.groups {
		if g, ok := e.report(now); ok {
			out = append(out, g)
		}
	}
	for _, p := range d.unmatched {
		out = append(out, state.Group{Group: p, State: state.GroupWaiting, Reason: string(FilterUnmatched), Partitions: []state.GroupPartition{}})
	}
	slices.SortFunc(out, func(a, b state.Group) int { return cmp.Compare(a.Group, b.Group) })
	return out
}

func (e *entry) report(now time.Time) (state.Group, bool) {
	g := state.Group{Group: e.name, Partitions: []state.GroupPartition{}}
	switch {
	case e.foreign:
		g.State, g.Reason = state.GroupWaiting, string(NotCarried)
		return g, true
	case len(e.facts) == 0 && e.trouble == Synced:
		return g, false // C018: it has no offset on a mirrored topic
	}
	for _, p := range slices.SortedFunc(maps.Keys(e.facts), compare) {
		g.Partitions = append(g.Partitions, e.facts[p].report(p, now))
	}
	g.State, g.Reason = state.GroupStanding(g.Partitions)
	if e.trouble != Synced {
		g.State, g.Reason = state.GroupWaiting, string(e.trouble)
	}
	return g, true
}

func (f *fact) report(p feed.Partition, now time.Time) state.GroupPartition {
	out := state.GroupPartition{SourceTopic: p.Topic, Partition: p.Partition, SourceOffset: told(f.offset),
		TargetOffset: told(f.target), Reason: string(f.verdict)}
	if !f.synced.IsZero() {
		age := max(0, now.Sub(f.synced)).Seconds()
		out.AgeSeconds = &age
	}
	return out
}

func told(offset int64) *int64 {
	if offset < 0 {
		return nil
	}
	return &offset
}

// Tally counts offsets by verdict; for metrics.
func (d *Desk) Tally() map[Verdict]int64 {
	out := make(map[Verdict]int64)
	for _, e := range d.groups {
		for _, f := range e.facts {
			out[f.verdict]++
		}
	}
	return out
}

// Stalest is the age of the offset that has gone longest without the source and
// the target being known to agree, false where no offset was ever synced.
func (d *Desk) Stalest(now time.Time) (age time.Duration, ok bool) {
	for _, e := range d.groups {
		for _, f := range e.facts {
			if !f.synced.IsZero() && f.offset != feed.Unknown {
				age, ok = max(age, now.Sub(f.synced)), true
			}
		}
	}
	return age, ok
}

// Worst is the first by name of the verdicts that a group has among some.
func (d *Desk) Worst(group string, of map[Verdict]bool) Verdict {
	worst := Synced
	if e := d.groups[group]; e != nil {
		for _, f := range e.facts {
			if of[f.verdict] && (worst == Synced || f.verdict < worst) {
				worst = f.verdict
			}
		}
	}
	return worst
}
