package httpd

import (
	"fmt"
	"time"

	"klink/linker/state"
)

const (
	// staleAfter is how old a partition's news may be. Idle partitions look at
	// both ends every few seconds.
	staleAfter = time.Minute
	// maxReasons bounds the answer of /readyz.
	maxReasons = 20
)

// blindSpots lists what klink cannot see (W2), at most maxReasons of them. A
// halted partition is none: klink sees it well.
func blindSpots(r state.Report) []string {
	if len(r.Links) == 0 {
		return []string{"no link has started yet"}
	}
	var out []string
	for _, l := range r.Links {
		out = append(out, linkSpots(r.AsOf, l)...)
	}
	if more := len(out) - maxReasons; more > 0 {
		out = append(out[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return out
}

func linkSpots(asOf time.Time, l state.Link) []string {
	switch l.State {
	case state.Active, state.Paused:
	case state.Pending, "":
		return []string{fmt.Sprintf("link %s: has not read its state yet%s", l.Name, because(l.Reason, l.Detail))}
	default:
		return []string{fmt.Sprintf("link %s: %s%s", l.Name, l.State, because(l.Reason, l.Detail))}
	}
	var out []string
	for _, t := range l.Topics {
		if spot := topicSpot(t); spot != "" {
			out = append(out, fmt.Sprintf("link %s: %s: %s", l.Name, t.SourceTopic, spot))
		}
		for _, p := range t.Partitions {
			if p.Worker != "" && p.Worker != l.Worker {
				continue // another process sees it, or not
			}
			if spot := partitionSpot(asOf, p); spot != "" {
				out = append(out, fmt.Sprintf("link %s: %s/%d: %s", l.Name, t.SourceTopic, p.Partition, spot))
			}
		}
	}
	return out
}

// topicSpot is about a topic of which not even the partitions can be seen. One
// that is not there yet is none, and so is one that nobody wants to be mirrored.
func topicSpot(t state.Topic) string {
	if len(t.Partitions) > 0 || t.State == state.Pending || t.State.Ordered() {
		return ""
	}
	return string(t.State) + because(t.Reason, t.Detail)
}

func partitionSpot(asOf time.Time, p state.Partition) string {
	age := asOf.Sub(p.AsOf.Time)
	switch p.State {
	case state.SourceUnavailable, state.TargetUnavailable:
		return string(p.State) + because(p.Reason, p.Detail)
	case state.Pending:
		if p.TargetEnd == nil {
			return "not looked at yet" + because(p.Reason, p.Detail)
		}
	case state.Active, state.CatchingUp:
		if !p.AsOf.IsZero() && age > staleAfter {
			return fmt.Sprintf("no news for %s", age.Round(time.Second))
		}
	}
	return ""
}

func because(reason, detail string) string {
	switch {
	case reason == "":
		return ""
	case detail == "":
		return " (" + reason + ")"
	default:
		return " (" + reason + ": " + detail + ")"
	}
}
