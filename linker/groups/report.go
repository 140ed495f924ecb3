package groups

import (
	"errors"

	"klink/fetcher/feed"
	"klink/linker/remote"
	"klink/linker/state"
)

// States of a group in reports.
const (
	// StateSynced: every commit of the source is on the target.
	StateSynced = "SYNCED"
	// StateSyncing: some are behind, or differ by name.
	StateSyncing = "SYNCING"
	// StateWaiting: nothing may be written now.
	StateWaiting = "WAITING"
)

// groupReport turns a round into the values that status shows.
func (c *Copier) groupReport(r *round) state.Group {
	g := state.Group{Group: r.group, State: StateSynced, Partitions: []state.GroupPartition{}}
	if r.err != nil {
		g.State, g.Reason = StateWaiting, r.err.Error()
		var f *remote.Fault
		if errors.As(r.err, &f) {
			g.Reason = string(f.Reason)
		}
		return g
	}
	now := c.o.Now()
	for _, st := range r.standings {
		key := groupPartition{r.group, st.Source.Target}
		p := state.GroupPartition{SourceTopic: st.Source.Partition.Topic, Partition: st.Source.Partition.Partition,
			SourceOffset: &st.Source.Offset, Reason: string(st.Verdict)}
		if st.Target != feed.Unknown {
			p.TargetOffset = &st.Target
		}
		if st.Target == st.Source.Offset {
			c.synced[key] = now
		}
		if at, ok := c.synced[key]; ok {
			age := now.Sub(at).Seconds()
			p.AgeSeconds = &age
		}
		switch st.Verdict {
		case Synced:
		case GroupActive, GroupUnknown:
			g.State, g.Reason = StateWaiting, string(st.Verdict)
		default:
			if g.State == StateSynced {
				g.State = StateSyncing
			}
		}
		g.Partitions = append(g.Partitions, p)
	}
	return g
}
