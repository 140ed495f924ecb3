package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PlanResult is what mirroring would be like. Nothing was written for it.
type PlanResult struct {
	AsOf   time.Time   `json:"as_of"`
	Topics []TopicPlan `json:"topics"`
	Rights
	Configs []ConfigDifference `json:"configs"`
	// Rates are those that times were estimated with, one entry for each link.
	Rates []LinkPace `json:"rates"`
	// Notes are sentences about what is selected and what is not.
	Notes []string `json:"notes"`
}

// LinkPace is the pace of a link's target and the markers it will have to take.
type LinkPace struct {
	Link string `json:"link"`
	Pace
	// ExpectedMarkers per second, once all is mirrored, by the gaps that the source
	// has been making of late; null where that is not known.
	ExpectedMarkers *float64 `json:"expected_markers_per_second"`
}

// TopicPlan is one topic of the source.
type TopicPlan struct {
	Link        string  `json:"link"`
	SourceTopic string  `json:"source_topic"`
	TargetTopic string  `json:"target_topic"`
	Verdict     Outlook `json:"verdict"`
	// Reasons are those of all partitions, each once.
	Reasons    []string        `json:"reasons"`
	Partitions []PartitionPlan `json:"partitions"`
}

// PartitionPlan is one partition; null is unknown.
type PartitionPlan struct {
	Partition int32    `json:"partition"`
	Verdict   Outlook  `json:"verdict"`
	Reasons   []string `json:"reasons"`
	// SourceEnd is the last stable offset, TargetEnd the log end, 0 where there is
	// no such partition yet.
	SourceStart *int64 `json:"source_start"`
	SourceEnd   *int64 `json:"source_end"`
	TargetEnd   *int64 `json:"target_end"`
	// PadOffsets are padded before the mirror begins, GapOffsets are filled.
	PadOffsets *int64 `json:"pad_offsets"`
	GapOffsets *int64 `json:"gap_offsets"`
	// GapEstimated: gaps, bytes and time are extrapolated from a part of the log.
	GapEstimated bool `json:"gap_estimated"`
	// DataBytes are those of record batches, PadBytes and GapBytes those written
	// beside them; of padding only a small part is on disk at any time.
	DataBytes *int64 `json:"data_bytes"`
	PadBytes  *int64 `json:"pad_bytes"`
	GapBytes  *int64 `json:"gap_bytes"`
	// EstimatedSeconds are for this partition alone.
	EstimatedSeconds *float64 `json:"estimated_seconds"`
}

// ConfigDifference is a setting in which source and target topic differ, or will;
// null is "not set" or "not known".
type ConfigDifference struct {
	Link        string  `json:"link"`
	SourceTopic string  `json:"source_topic"`
	TargetTopic string  `json:"target_topic"`
	Key         string  `json:"key"`
	Source      *string `json:"source"`
	Target      *string `json:"target"`
	// Planned is the value on the target while mirroring.
	Planned *string `json:"planned"`
	Why     string  `json:"why"`
}

// Join makes one result of those of several links; as of the oldest.
func Join(all ...PlanResult) PlanResult {
	out := PlanResult{Topics: []TopicPlan{}, Configs: []ConfigDifference{}, Rates: []LinkPace{}, Notes: []string{}}
	for _, r := range all {
		if out.AsOf.IsZero() || r.AsOf.Before(out.AsOf) {
			out.AsOf = r.AsOf
		}
		out.Topics = append(out.Topics, r.Topics...)
		out.Missing, out.Unknown = append(out.Missing, r.Missing...), append(out.Unknown, r.Unknown...)
		out.Configs = append(out.Configs, r.Configs...)
		out.Rates = append(out.Rates, r.Rates...)
		out.Notes = append(out.Notes, r.Notes...)
	}
	out.sort()
	return out
}

// refusedTopic is a topic that cannot be mirrored for a reason of its own.
func refusedTopic(link, source, target, reason string) TopicPlan {
	return TopicPlan{Link: link, SourceTopic: source, TargetTopic: target, Verdict: Refuse, Reasons: []string{reason}, Partitions: []PartitionPlan{}}
}

// conclude gives a topic the worst verdict of its partitions and all their
// reasons.
func (t *TopicPlan) conclude() {
	for _, p := range t.Partitions {
		t.Verdict = worst(t.Verdict, p.Verdict)
		for _, r := range p.Reasons {
			if !slices.Contains(t.Reasons, r) {
				t.Reasons = append(t.Reasons, r)
			}
		}
	}
}

// Unkept tells why a topic cannot keep its offsets and is for checkpoint mode; "" where
// it can, or where another mode would not help. known is false, and why says what is
// missing, where that could not be found out.
func (t TopicPlan) Unkept() (why string, known bool) {
	for _, p := range t.Partitions {
		if p.Verdict == Checkpoint {
			return fmt.Sprintf("partition %d: %s", p.Partition, strings.Join(p.Reasons, "; ")), true
		}
	}
	for _, p := range t.Partitions {
		if p.SourceStart == nil {
			return fmt.Sprintf("partition %d: %s", p.Partition, strings.Join(p.Reasons, "; ")), false
		}
	}
	if len(t.Partitions) == 0 {
		return strings.Join(t.Reasons, "; "), false
	}
	return "", true
}

// describe fills in the numbers of a partition.
func (p *PartitionPlan) describe(pos position, b beginning, a Amount, pace Pace) {
	p.SourceStart, p.SourceEnd, p.TargetEnd = &pos.src.LogStart, &pos.src.LastStable, &pos.dstEnd
	if b.obstacle != "" {
		return
	}
	gaps, data := a.GapOffsets(), a.Bytes
	padBytes, gapBytes := b.pads*padBytesX10/10, gaps*markerBytes
	seconds := pace.seconds(a, b.pads)
	p.PadOffsets, p.GapOffsets, p.GapEstimated = &b.pads, &gaps, a.Estimated
	p.DataBytes, p.PadBytes, p.GapBytes, p.EstimatedSeconds = &data, &padBytes, &gapBytes, &seconds
}

func (r *PlanResult) sort() {
	r.Rights.sort()
	slices.SortStableFunc(r.Topics, func(a, b TopicPlan) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.SourceTopic, b.SourceTopic))
	})
	slices.SortStableFunc(r.Configs, func(a, b ConfigDifference) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.SourceTopic, b.SourceTopic), cmp.Compare(a.Key, b.Key))
	})
}
