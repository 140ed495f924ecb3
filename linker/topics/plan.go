package topics

import (
	"fmt"

	"klink/linker/state"
)

// Plan is what one source topic is to become on the target.
type Plan struct {
	Source SourceTopic
	// Target is the name there.
	Target     string
	Partitions int32
	// Replicas is the replication factor asked for; it is never lowered (T3).
	Replicas  int16
	Overrides map[string]string
	// CopyRetention is that of the PlanOptions.
	CopyRetention bool
	// Recorded is that of the PlanOptions, for this topic; nil for nothing on
	// record.
	Recorded func() Recorded
	// Reason is not "" where the topic cannot be mirrored as it is; Detail says
	// why. Ensure passes it over.
	Reason state.Reason
	Detail string
}

// PlanOptions are a link's settings.
type PlanOptions struct {
	// ReplicationFactor of created topics; 0 is that of the source.
	ReplicationFactor int16
	Overrides         map[string]string
	// CopyRetention is for links that do not follow the source's log start: the
	// target topics get the source's retention settings and delete by
	// themselves. Else their retention is off, and trimming them is up to klink.
	CopyRetention bool
	// Recorded tells what is on record of a source topic's mirror. It is asked
	// after the target topic was looked at, and must be safe for concurrent use.
	// Optional.
	Recorded func(source string) Recorded
	// Owner tells which source topic of this link a target topic belongs to on
	// record, so that a newcomer whose name falls together with it is the one
	// refused. Optional.
	Owner func(target string) (source string, ok bool)
}

// PlanAll plans every discovered topic, in the same order.
func PlanAll(found []SourceTopic, o PlanOptions) []Plan {
	sources := make(map[string][]string)
	for _, t := range found {
		sources[t.Target] = append(sources[t.Target], t.Name)
	}
	out := make([]Plan, 0, len(found))
	for _, t := range found {
		p := Plan{Source: t, Target: t.Target, Partitions: int32(len(t.Leaders)), Replicas: int16(t.Replicas),
			Overrides: o.Overrides, CopyRetention: o.CopyRetention}
		if o.Recorded != nil {
			p.Recorded = func() Recorded { return o.Recorded(t.Name) }
		}
		if o.ReplicationFactor > 0 {
			p.Replicas = o.ReplicationFactor
		}
		p.Reason, p.Detail = refusal(t, sources[t.Target], o.Owner)
		out = append(out, p)
	}
	return out
}

func refusal(t SourceTopic, rivals []string, owner func(string) (string, bool)) (state.Reason, string) {
	if t.Reason != "" {
		return t.Reason, t.Detail
	}
	if err := checkTargetName(t.Target); err != nil {
		return state.TopicRefused, fmt.Sprintf("its name on the target, %q, %v", t.Target, err)
	}
	if owner != nil {
		if source, ok := owner(t.Target); ok {
			if source == t.Name {
				return "", ""
			}
			return state.TopicRefused, fmt.Sprintf("its name on the target, %q, belongs to the mirror of %q", t.Target, source)
		}
	}
	if len(rivals) > 1 {
		return state.TopicRefused, fmt.Sprintf("its name on the target, %q, would be that of %d source topics: %q", t.Target, len(rivals), rivals)
	}
	return "", ""
}
