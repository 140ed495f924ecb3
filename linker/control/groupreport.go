package control

import (
	"time"

	"klink/linker/state"
)

// groupReports builds what status shows of a link's groups from what is on record
// of them; ages are as of a time.
func (v *View) groupReports(link string, asOf time.Time) []state.Group {
	sources := make(map[string]string)
	for _, t := range v.Topics(link) {
		sources[t.TargetTopic] = t.SourceTopic
	}
	out := []state.Group{}
	for _, r := range v.Groups(link) {
		g := state.Group{Group: r.Group, Partitions: []state.GroupPartition{}}
		for _, o := range r.Offsets {
			source, ok := sources[o.Topic]
			if !ok {
				continue
			}
			p := state.GroupPartition{SourceTopic: source, Partition: o.Partition, SourceOffset: knownOffset(o.SourceOffset),
				TargetOffset: knownOffset(o.Written), Reason: o.Reason}
			if !o.At.IsZero() {
				age := max(0, asOf.Sub(o.At)).Seconds()
				p.AgeSeconds = &age
			}
			g.Partitions = append(g.Partitions, p)
		}
		g.State, g.Reason = state.GroupStanding(g.Partitions)
		out = append(out, g)
	}
	return out
}
