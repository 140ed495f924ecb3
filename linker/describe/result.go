package describe

import (
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/state"
)

// Result is what describe shows. Offsets named end or up_to are exclusive, all
// others inclusive.
type Result struct {
	// AsOf is when the states were as they are here.
	AsOf  time.Time `json:"as_of"`
	Links []Link    `json:"links"`
}

// Link is one link with what is on record about it; see D1 for what is nil.
type Link struct {
	state.Link
	SourceClusterID *string    `json:"source_cluster_id"`
	TargetClusterID *string    `json:"target_cluster_id"`
	KlinkVersion    *string    `json:"klink_version"`
	AppliedAt       *time.Time `json:"applied_at"`
	// Definition is the link as its file had it, as YAML without secrets.
	Definition *string `json:"definition"`
	Intent     Intent  `json:"intent"`
	// Commands are those that count, by number, and GroupAcks the workers' word
	// that they write no more group offsets for one.
	Commands  []Command `json:"commands"`
	GroupAcks []Ack     `json:"group_acks"`
	// Topics take the place of those of the report.
	Topics []Topic `json:"topics"`
}

// Topic is one mirrored topic.
type Topic struct {
	state.Topic
	SourceID *string `json:"source_id"`
	TargetID *string `json:"target_id"`
	// Generation counts how often the target was made anew.
	Generation *int32 `json:"generation"`
	// Compacted is true once the source's cleaner was seen to compact.
	Compacted *bool `json:"compacted"`
	// SourceSettings are the source's own values of what is forced on the target
	// while it mirrors. They come into force there at promotion.
	SourceSettings []Setting `json:"source_settings"`
	Intent         Intent    `json:"intent"`
	Acks           []Ack     `json:"acks"`
	Cuts           []Cut     `json:"cuts"`
	// Adoption is nil where there was none.
	Adoption *Adoption `json:"adoption"`
	// Partitions take the place of those of the report.
	Partitions []Partition `json:"partitions"`
}

// Setting is one setting of the source topic as last seen.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Explicit is true where it was set on the topic itself.
	Explicit bool `json:"explicit"`
}

// Partition is one mirrored partition.
type Partition struct {
	state.Partition
	// ProducerID is that of the link's writes, as text: it is above 2^53.
	ProducerID   *string  `json:"producer_id"`
	SourceEpochs []Epoch  `json:"source_epochs"`
	Pad          *Pad     `json:"pad"`
	Counters     Counters `json:"marker_counters"`
	Ledger       Ledger   `json:"ledger"`
	// StaleKeys is where tombstones may have been missed (POSSIBLY_STALE_KEYS), null
	// for nowhere as far as is on record.
	StaleKeys *ledger.Stale `json:"stale_keys"`

	// trail is where to look for more; the zero value where nothing is on record.
	trail trail
}

// Epoch says that the source's batches from First on have leader epoch Epoch.
type Epoch struct {
	Epoch int32 `json:"epoch"`
	First int64 `json:"first"`
}

// Pad is a pad goal: the offsets [From, Goal) of the target are padding.
type Pad struct {
	From   int64  `json:"from"`
	Goal   int64  `json:"goal"`
	Reason string `json:"reason"`
	Stage  string `json:"stage"`
	// RestorePolicy is the cleanup.policy to put back, null where it is not
	// changed.
	RestorePolicy *string    `json:"restore_policy"`
	TrimmedAt     *time.Time `json:"trimmed_at"`
	Done          bool       `json:"done"`
}

// Counters tells how many of a partition's marker counters are used. Each block
// that a process reserved counts as a whole.
type Counters struct {
	Used  *int64 `json:"used"`
	Limit int64  `json:"limit"`
}

// warnShare is the share of its counters from which on a partition is warned of.
const warnShare = 0.8

// Low reports whether 80 % or more are used. Once all are, no gap can be filled.
func (c Counters) Low() bool { return c.Used != nil && float64(*c.Used) >= warnShare*float64(c.Limit) }

// Percent is how much is used, 0 where it is unknown.
func (c Counters) Percent() float64 {
	if c.Used == nil {
		return 0
	}
	return 100 * float64(*c.Used) / float64(c.Limit)
}

// Ledger is what of one partition is not a copy.
type Ledger struct {
	// Totals is how many offsets have which reason. See D2.
	Totals map[string]int64 `json:"totals"`
	// Ranges is nil, and absent in JSON, where it was not asked for.
	Ranges []Range `json:"ranges,omitzero"`
	// AsOf is when the ledger was as it is here, UpTo the end (exclusive) of what
	// it covers; nil where nothing is on record.
	AsOf *time.Time `json:"as_of"`
	UpTo *int64     `json:"up_to"`
	// Unexplained is how many markers of the link have lost their reason (D3).
	Unexplained int64 `json:"unexplained"`
	// Notes say what could not be told.
	Notes []string `json:"notes"`
}

// Range is a stretch of offsets [From, End) in which some are not copies.
type Range struct {
	From int64 `json:"from"`
	End  int64 `json:"end"`
	// Reason is that of all offsets of the range, or Mixed.
	Reason string `json:"reason"`
	// Counts is how many offsets have which reason. What is missing to End-From
	// are copies.
	Counts map[string]int64 `json:"counts"`
}

// Mixed stands for the reason of a range in which not all offsets have the same
// or some are copies.
const Mixed = "mixed"

// trail is where the log of a partition goes on beyond the recorded index.
type trail struct {
	partition  feed.Partition
	id         feed.TopicID
	producerID int64
	// index is nil where none is on record, pad where nothing is padded.
	index *ledger.Stored
	pad   *ledger.Range
}

func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func id(v feed.TopicID) *string {
	if v.IsZero() {
		return nil
	}
	s := v.String()
	return &s
}

func padOf(r control.PadRecord) *Pad {
	p := &Pad{From: r.From, Goal: r.Goal, Reason: r.Reason.String(), Stage: r.Stage, RestorePolicy: known(r.RestorePolicy), Done: r.Done}
	if !r.TrimmedAt.IsZero() {
		p.TrimmedAt = &r.TrimmedAt
	}
	return p
}
