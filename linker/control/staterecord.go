package control

import (
	"cmp"
	"slices"
	"time"

	"klink/linker/state"
)

// partitionsPerPart bounds one state record: some 400 bytes a partition keep it
// near 200 KB, and hints that are not their reasons' own below 500 KB; brokers take
// 1 MiB by default.
const partitionsPerPart = 500

// stateValue is stored apart from the JSON of the status command, so that
// either can change without the other.
type stateValue struct {
	Version     int              `json:"version"`
	TargetTopic string           `json:"target_topic"`
	Mode        string           `json:"mode"`
	State       string           `json:"state"`
	Reason      string           `json:"reason,omitempty"`
	Detail      string           `json:"detail,omitempty"`
	Hint        string           `json:"hint,omitempty"` // where it is not the reason's own
	Parts       int              `json:"parts"`
	AsOf        time.Time        `json:"as_of"`
	Partitions  []partitionValue `json:"partitions"`
}

// partitionValue leaves out what is unknown: a nil stays absent, and never
// turns into 0 (S3).
type partitionValue struct {
	Partition   int32      `json:"partition"`
	Mode        string     `json:"mode,omitempty"`
	State       string     `json:"state"`
	Reason      string     `json:"reason,omitempty"`
	Detail      string     `json:"detail,omitempty"`
	Hint        string     `json:"hint,omitempty"`
	SourceStart *int64     `json:"source_start,omitempty"`
	SourceEnd   *int64     `json:"source_end,omitempty"`
	SourceHW    *int64     `json:"source_high_watermark,omitempty"`
	TargetStart *int64     `json:"target_start,omitempty"`
	TargetEnd   *int64     `json:"target_end,omitempty"`
	LagRecords  *int64     `json:"lag_records,omitempty"`
	LagSeconds  *float64   `json:"lag_seconds,omitempty"`
	Filled      int64      `json:"filled,omitempty"`
	Padded      int64      `json:"padded,omitempty"`
	Flags       []string   `json:"flags,omitempty"`
	Worker      string     `json:"worker,omitempty"`
	AsOf        *time.Time `json:"as_of,omitempty"`
}

// encodeState cuts a topic's state into records of at most partitionsPerPart.
func encodeState(r StateRecord) (keys []Key, values []any) {
	parts := max(1, (len(r.Topic.Partitions)+partitionsPerPart-1)/partitionsPerPart)
	for part := range parts {
		lo := part * partitionsPerPart
		hi := min(lo+partitionsPerPart, len(r.Topic.Partitions))
		v := stateValue{Version: versions[KindState], TargetTopic: r.Topic.TargetTopic, Mode: r.Topic.Mode,
			State: string(r.Topic.State), Reason: r.Topic.Reason, Detail: r.Topic.Detail, Hint: ownHint(r.Topic.Reason, r.Topic.Hint), Parts: parts, AsOf: r.AsOf.UTC(),
			Partitions: make([]partitionValue, 0, hi-lo)}
		for _, p := range r.Topic.Partitions[lo:hi] {
			v.Partitions = append(v.Partitions, encodePartition(p))
		}
		keys = append(keys, Key{Kind: KindState, Link: r.Link, Topic: r.Topic.SourceTopic, Part: part})
		values = append(values, v)
	}
	return keys, values
}

func encodePartition(p state.Partition) partitionValue {
	v := partitionValue{Partition: p.Partition, Mode: p.Mode, State: string(p.State), Reason: p.Reason,
		Detail: p.Detail, Hint: ownHint(p.Reason, p.Hint), SourceStart: p.SourceStart, SourceEnd: p.SourceEnd, SourceHW: p.SourceHighWatermark,
		TargetStart: p.TargetStart, TargetEnd: p.TargetEnd, LagRecords: p.LagRecords, LagSeconds: p.LagSeconds,
		Filled: p.Filled, Padded: p.Padded, Flags: p.Flags, Worker: p.Worker}
	if !p.AsOf.IsZero() {
		at := p.AsOf.UTC()
		v.AsOf = &at
	}
	return v
}

func (v partitionValue) partition(asOf time.Time) state.Partition {
	p := state.Partition{Partition: v.Partition, Mode: v.Mode, State: state.State(v.State), Reason: v.Reason,
		Detail: v.Detail, SourceStart: v.SourceStart, SourceEnd: v.SourceEnd, SourceHighWatermark: v.SourceHW,
		OpenRecords: state.OpenRecords(v.SourceEnd, v.SourceHW), TargetStart: v.TargetStart, TargetEnd: v.TargetEnd, LagRecords: v.LagRecords, LagSeconds: v.LagSeconds,
		Filled: v.Filled, Padded: v.Padded, Flags: v.Flags, Worker: v.Worker, AsOf: state.Seen{Time: asOf}}
	if p.Flags == nil {
		p.Flags = []string{}
	}
	if v.AsOf != nil {
		p.AsOf.Time = *v.AsOf
	}
	p.Hint = cmp.Or(v.Hint, hintOf(v.Reason))
	return p
}

// hintOf is a reason's fixed hint, "" for no reason.
func hintOf(reason string) string {
	if reason == "" {
		return ""
	}
	return state.Reason(reason).About().Hint
}

// ownHint is what has to be recorded of a hint: nothing of one that follows from its
// reason, or from an order.
func ownHint(reason, hint string) string {
	if reason == "" || hint == hintOf(reason) {
		return ""
	}
	return hint
}

// joinState puts the parts of one topic together. Part 0 tells how many there
// are; a part left over from a larger past is not used.
func joinState(link, topic string, parts map[int]stateValue) (StateRecord, bool) {
	head, ok := parts[0]
	if !ok {
		return StateRecord{}, false
	}
	partitions := 0
	for _, v := range parts {
		partitions += len(v.Partitions)
	}
	r := StateRecord{Link: link, AsOf: head.AsOf, Topic: state.Topic{SourceTopic: topic,
		TargetTopic: head.TargetTopic, Mode: head.Mode, State: state.State(head.State), Reason: head.Reason, Detail: head.Detail, Hint: cmp.Or(head.Hint, hintOf(head.Reason)),
		Partitions: make([]state.Partition, 0, partitions)}}
	for part := range head.Parts {
		v := parts[part]
		for _, p := range v.Partitions {
			r.Topic.Partitions = append(r.Topic.Partitions, p.partition(v.AsOf))
		}
	}
	slices.SortFunc(r.Topic.Partitions, func(a, b state.Partition) int { return cmp.Compare(a.Partition, b.Partition) })
	return r, true
}
