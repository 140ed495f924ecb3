package demo

import "klink/linker/state"

// Result is what came out, in the shape of the JSON contract: nil is unknown.
type Result struct {
	// Equal is whether nothing is wrong; Findings say what is.
	Equal    bool     `json:"equal"`
	Findings []string `json:"findings"`

	Group         string   `json:"group"`
	SourceBrokers []string `json:"source_brokers"`
	TargetBrokers []string `json:"target_brokers"`

	// LiveSeconds is how long the source lived, with the mirror beside it.
	LiveSeconds float64 `json:"live_seconds"`
	// SwitchSeconds is from the source's death to the first record that the group
	// was given at the target.
	SwitchSeconds *float64 `json:"switch_seconds"`
	// NoticedSeconds is from the source's death until klink showed every partition
	// as SOURCE_UNAVAILABLE.
	NoticedSeconds *float64 `json:"noticed_seconds"`

	Topics []Topic `json:"topics"`
}

// Topic sums up its partitions.
type Topic struct {
	Topic string `json:"topic"`
	Codec string `json:"codec"`
	// State is klink's when the source died.
	State      state.State `json:"state"`
	Records    int64       `json:"target_records"`
	Compared   int64       `json:"records_compared"`
	Equal      int64       `json:"records_equal"`
	EqualShare *float64    `json:"offsets_equal_share"`
	// NeverMirrored counts the source's records beyond the target's ends.
	NeverMirrored int64       `json:"never_mirrored"`
	ReadTwice     int64       `json:"read_twice"`
	Lost          int64       `json:"lost"`
	Partitions    []Partition `json:"partitions"`
}

// Partition is one partition's part. Ends are exclusive.
type Partition struct {
	Partition    int32  `json:"partition"`
	SourceEnd    int64  `json:"source_end"`
	TargetEnd    int64  `json:"target_end"`
	Compared     int64  `json:"records_compared"`
	Equal        int64  `json:"records_equal"`
	SourceDigest string `json:"source_digest"`
	TargetDigest string `json:"target_digest"`
	// SourceCommit and TargetCommit are the group's committed offsets when it
	// moved, ResumedAt the offset of the first record it was given at the target.
	SourceCommit *int64 `json:"source_commit"`
	TargetCommit *int64 `json:"target_commit"`
	ResumedAt    *int64 `json:"resumed_at"`
	ReadTwice    int64  `json:"read_twice"`
	Lost         int64  `json:"lost"`
}
