package show

import (
	"slices"

	"klink/linker/state"
)

// GroupRow is one line about a consumer group.
type GroupRow struct {
	Group, State string
	// Offsets is how many it has committed, OnTarget how many of them are there.
	Offsets, OnTarget int
	// AgeSeconds is that of the oldest; nil is unknown.
	AgeSeconds *float64
	// Reasons are those of the group and of its offsets, each once.
	Reasons []string
}

// GroupRows gives a line for each group.
func GroupRows(all []state.Group) []GroupRow {
	out := make([]GroupRow, 0, len(all))
	for _, g := range all {
		r := GroupRow{Group: g.Group, State: g.State, Offsets: len(g.Partitions), Reasons: GroupReasons(g)}
		for _, p := range g.Partitions {
			if p.OnTarget() {
				r.OnTarget++
			}
			if p.AgeSeconds != nil && (r.AgeSeconds == nil || *p.AgeSeconds > *r.AgeSeconds) {
				r.AgeSeconds = p.AgeSeconds
			}
		}
		out = append(out, r)
	}
	return out
}

// GroupReasons are those of a group and of its offsets, each once.
func GroupReasons(g state.Group) (out []string) {
	if g.Reason != "" {
		out = append(out, g.Reason)
	}
	for _, p := range g.Partitions {
		if p.Reason != "" && !slices.Contains(out, p.Reason) {
			out = append(out, p.Reason)
		}
	}
	return out
}
