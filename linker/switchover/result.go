package switchover

import "time"

// Result is what promote, failover and forecast print. What is not known is nil,
// and null in JSON; never 0.
type Result struct {
	Link string `json:"link"`
	// Switch ties together the commands and cuts of one switch; nil where nothing
	// was written.
	Switch *string `json:"switch"`
	DryRun bool    `json:"dry_run"`
	// AsOf is when the numbers were as they are here.
	AsOf   time.Time `json:"as_of"`
	Topics []Topic   `json:"topics"`
	Groups []Group   `json:"groups"`
	// RecordsLost is the sum over all partitions, UnseenSeconds the longest of all.
	RecordsLost   *int64   `json:"records_lost"`
	UnseenSeconds *float64 `json:"unseen_seconds"`
	// Failed counts topics that are not ok.
	Failed int `json:"failed"`
	// Notes say what happened on the way: what was taken up from an earlier run,
	// what was rolled back, who was quicker.
	Notes []string `json:"notes"`
	// Warnings are rights that will be missed: those of a failover in a forecast, and
	// those of the way home in a promotion.
	Warnings []Warning `json:"warnings"`
}

// Topic is what became of one topic.
type Topic struct {
	SourceTopic string `json:"source_topic"`
	TargetTopic string `json:"target_topic"`
	// State is STOPPED where the record says so, PENDING_STOPPED while a promotion
	// holds it, else what the mirror reported last.
	State string `json:"state"`
	OK    bool   `json:"ok"`
	// Reason is UNFENCED or one of state.Reason, "" where all is well.
	Reason     string      `json:"reason"`
	Detail     string      `json:"detail"`
	Hint       string      `json:"hint"`
	Partitions []Partition `json:"partitions"`
}

// Partition has the numbers of one partition. Offsets named end are exclusive.
type Partition struct {
	Partition int32 `json:"partition"`
	// TargetEnd is the true log end, fences included.
	TargetEnd *int64 `json:"target_end"`
	// LastMirrored is the last offset of the source that is on the target; nil also
	// where there is none.
	LastMirrored *int64 `json:"last_mirrored"`
	// SourceEnd is the source's last stable offset as last seen, and when.
	SourceEnd     *int64     `json:"source_end"`
	SourceEndAsOf *time.Time `json:"source_end_as_of"`
	// RecordsLost is how many offsets of the source, as last seen, the target does
	// not have: those behind the last mirrored one, by the map in checkpoint mode. It is an upper bound of records: transaction markers count.
	RecordsLost *int64 `json:"records_lost"`
	// UnseenSeconds is the time since the source was last seen: what it took in
	// since is lost as well.
	UnseenSeconds *float64 `json:"unseen_seconds"`
	// OpenRecords is how many offsets of the source lay in transactions that were
	// open when it was last seen.
	OpenRecords *int64 `json:"open_records"`
	// Fenced tells that a fence stands in the log, FenceOffset where the first one
	// of this switch stands.
	Fenced      bool   `json:"fenced"`
	FenceOffset *int64 `json:"fence_offset"`
	Detail      string `json:"detail"`
}

// Group is what one consumer group meets on the target.
type Group struct {
	Group      string           `json:"group"`
	State      string           `json:"state"`
	Reason     string           `json:"reason"`
	Partitions []GroupPartition `json:"partitions"`
}

// GroupPartition is one committed offset of a group.
type GroupPartition struct {
	SourceTopic string `json:"source_topic"`
	Partition   int32  `json:"partition"`
	// SourceOffset is the commit on the source as last seen, AgeSeconds how long
	// ago the source had it: what the group did since, it does again.
	SourceOffset *int64   `json:"source_offset"`
	TargetOffset *int64   `json:"target_offset"`
	AgeSeconds   *float64 `json:"age_seconds"`
	// RecordsToRead is how many offsets lie between the commit and the end of what
	// was mirrored; in checkpoint mode how many records.
	RecordsToRead *int64 `json:"records_to_read"`
	// RecordsReadAgain are those of RecordsToRead that the group had read on the source
	// when it made its commit there.
	RecordsReadAgain *int64 `json:"records_read_again"`
	// RecordsReadAgainMM2 is what that would be at least in checkpoint mode if the
	// commit were translated as MirrorMaker 2 does, by the syncs that it keeps of the
	// same copies; nil in mirror mode, and where it would not translate the commit.
	RecordsReadAgainMM2 *int64 `json:"records_read_again_mm2"`
	Reason              string `json:"reason"`
}

// Words of Topic.State that no mirror reports, and of Topic.Reason beside the
// reasons of the state table.
const (
	stateStopped = "STOPPED"
	statePending = "PENDING_STOPPED"
	// Unfenced: nothing in the target's log keeps a klink that is cut off from the
	// control topic from writing.
	Unfenced = "UNFENCED"
)

// hintUnfenced is what to do about Unfenced.
const hintUnfenced = "run the same command again once the cause is gone; until then only the workers' own lease keeps a klink that lives on from writing"

func (r *Result) tally() {
	r.Failed = 0
	lost, unseen := int64(0), 0.0
	known, seen := true, true
	for _, t := range r.Topics {
		if !t.OK {
			r.Failed++
		}
		for _, p := range t.Partitions {
			if known = known && p.RecordsLost != nil; known {
				lost += *p.RecordsLost
			}
			if seen = seen && p.UnseenSeconds != nil; seen {
				unseen = max(unseen, *p.UnseenSeconds)
			}
		}
	}
	r.RecordsLost, r.UnseenSeconds = nil, nil
	if known {
		r.RecordsLost = &lost
	}
	if seen {
		r.UnseenSeconds = &unseen
	}
}
