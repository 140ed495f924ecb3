package state

import "time"

// Report is what status shows, in the shape of the JSON contract. Nil means
// unknown.
type Report struct {
	AsOf  time.Time `json:"as_of"`
	Links []Link    `json:"links"`
}

// Link is one link's part of a Report.
type Link struct {
	// Worker is the process that reports; partitions with another one are as that
	// one recorded them last.
	Worker string `json:"-"`
	Name   string `json:"name"`
	Mode   string `json:"mode"`
	State  State  `json:"state"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
	// Warnings are rights that a failover or a promotion would miss.
	Warnings []Warning `json:"warnings"`
	Topics   []Topic   `json:"topics"`
	Groups   []Group   `json:"groups"`
	// Checkpoints is absent where no topic can be in checkpoint mode, and where no
	// process of the link was asked.
	Checkpoints *Checkpoints `json:"checkpoints,omitempty"`
}

// Warning is a right that a failover or a promotion needs on the target and that
// is not seen to be there.
type Warning struct {
	// Right is the missing right, as "Operation on resource".
	Right string `json:"right"`
	// Known is false where the cluster does not tell whether it is there.
	Known bool `json:"known"`
	// Detail says what will not be possible, Hint what to do.
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

// Topic is one mirrored topic; its state is the worst of its partitions.
type Topic struct {
	SourceTopic string      `json:"source_topic"`
	TargetTopic string      `json:"target_topic"`
	Mode        string      `json:"mode"`
	State       State       `json:"state"`
	Reason      string      `json:"reason"`
	Detail      string      `json:"detail"`
	Hint        string      `json:"hint"`
	Partitions  []Partition `json:"partitions"`
}

// Partition is one mirrored partition. Offsets named end are exclusive.
type Partition struct {
	Partition int32  `json:"partition"`
	Mode      string `json:"mode"`
	State     State  `json:"state"`
	// Reason is a Reason's name, or "" where nothing is wrong.
	Reason string `json:"reason"`
	// Detail holds the numbers of this very case, Hint what to do about it.
	Detail string `json:"detail"`
	Hint   string `json:"hint"`

	SourceStart *int64 `json:"source_start"`
	// SourceEnd is the last stable offset.
	SourceEnd           *int64 `json:"source_end"`
	SourceHighWatermark *int64 `json:"source_high_watermark"`
	// OpenRecords is how many offsets of the source lie beyond SourceEnd and below
	// the high watermark: they wait for the end of a transaction and are no lag.
	OpenRecords *int64 `json:"open_records"`
	TargetStart *int64 `json:"target_start"`
	// TargetEnd is the true log end of the target partition.
	TargetEnd *int64 `json:"target_end"`

	LagRecords *int64 `json:"lag_records"`
	// LagSeconds is the time since klink first saw the end that is not mirrored
	// yet, by klink's own clock.
	LagSeconds *float64 `json:"lag_seconds"`

	Filled int64 `json:"filled"`
	Padded int64 `json:"padded"`
	// Flags are Unguarded, Unfenced, Unsettled, PossiblyStaleKeys, PossiblyDouble and
	// Differs.
	Flags  []string `json:"flags"`
	Worker string   `json:"worker"`
	AsOf   Seen     `json:"as_of"`
	// Audit is absent where the link never compared what it mirrored.
	Audit *Audit `json:"audit,omitempty"`
}

// Flags of a Partition, beside its state.
const (
	// Unguarded: the broker may have forgotten the mirror's producer.
	Unguarded = "UNGUARDED"
	// Unfenced: the partition was failed over, and it is not certain that the broker
	// refuses what a klink that was cut off may still send: there is no fence, or the
	// failover did not come to its end.
	Unfenced = "UNFENCED"
	// Unsettled: the promotion or failover that stopped the partition did not come to its
	// end; the source's own settings may not be in force. It goes when the command is
	// given again.
	Unsettled = "UNSETTLED"
	// PossiblyDouble: some records may have been copied twice; the detail and the ledger
	// have their number at most. Only in checkpoint mode.
	PossiblyDouble = "POSSIBLY_DOUBLE"
	// PossiblyStaleKeys: the source's cleaner may have removed tombstones that the
	// mirror did not see. It stays until the topic is mirrored anew.
	PossiblyStaleKeys = "POSSIBLY_STALE_KEYS"
)

// OpenRecords returns a Partition's from the last stable offset and the high
// watermark; nil where either is. Ends that were seen at different times may cross:
// then nothing is open.
func OpenRecords(stable, high *int64) *int64 {
	if stable == nil || high == nil {
		return nil
	}
	n := max(0, *high-*stable)
	return &n
}

// Seen is a time at which something was seen; never, the zero value, is null in
// JSON (S3).
type Seen struct{ time.Time }

// MarshalJSON writes RFC 3339, or null for never.
func (s Seen) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return s.UTC().MarshalJSON()
}

// Group is one consumer group whose offsets are carried over.
type Group struct {
	Group      string           `json:"group"`
	State      string           `json:"state"`
	Reason     string           `json:"reason"`
	Partitions []GroupPartition `json:"partitions"`
}

// GroupPartition is one committed offset of a Group.
type GroupPartition struct {
	SourceTopic  string   `json:"source_topic"`
	Partition    int32    `json:"partition"`
	SourceOffset *int64   `json:"source_offset"`
	TargetOffset *int64   `json:"target_offset"`
	AgeSeconds   *float64 `json:"age_seconds"`
	Reason       string   `json:"reason"`
}
