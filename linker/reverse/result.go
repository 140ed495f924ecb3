package reverse

import (
	"time"
)

// Result is what was found and done. Lists are never null; unknown numbers are.
type Result struct {
	// Link is the old link, Next the new one.
	Link string    `json:"link"`
	Next string    `json:"next"`
	AsOf time.Time `json:"as_of"`
	// DryRun: nothing was written.
	DryRun bool    `json:"dry_run"`
	Topics []Topic `json:"topics"`
	Groups []Group `json:"groups"`
	// MissingRights and UnknownRights are klink's on the old source, as it needs
	// them once that is the target.
	MissingRights []string `json:"missing_rights"`
	UnknownRights []string `json:"unknown_rights"`
	// Definition is the new link's file, YAML.
	Definition string `json:"definition"`
	// Written is the file that holds it, "" for none.
	Written string `json:"written,omitempty"`
	// Failed counts the topics that are not ok.
	Failed int `json:"failed"`
}

// Loses reports whether a topic was refused because the old source holds what
// the promoted side does not, or may: exit code 4.
func (r Result) Loses() bool {
	for _, t := range r.Topics {
		if !t.OK && t.Verdict.about().loses {
			return true
		}
	}
	return false
}

// Topic is one mirror topic, named as the old link has it.
type Topic struct {
	SourceTopic string `json:"source_topic"`
	TargetTopic string `json:"target_topic"`
	// OK: it goes, or went, on the other way.
	OK bool `json:"ok"`
	// Verdict is the worst of its partitions'.
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"`
	Hint    string  `json:"hint,omitempty"`
	// Recreate: its topic on the old source is to be, or was, deleted and mirrored
	// anew.
	Recreate bool `json:"recreate"`
	// TailRecords is how many records only the old source holds, of all partitions
	// that could be read.
	TailRecords int64       `json:"tail_records"`
	Partitions  []Partition `json:"partitions"`
}

// Partition is one partition of both sides. The old source is the source of the
// old link.
type Partition struct {
	Partition int32   `json:"partition"`
	Verdict   Verdict `json:"verdict"`
	Detail    string  `json:"detail,omitempty"`
	// SourceStart and SourceEnd are of the old source now, TargetStart and
	// TargetEnd of the promoted side; log ends.
	SourceStart *int64 `json:"source_start"`
	SourceEnd   *int64 `json:"source_end"`
	TargetStart *int64 `json:"target_start"`
	TargetEnd   *int64 `json:"target_end"`
	// CutEnd is where the promoted side ended at the cut, FenceOffset its first
	// fence marker.
	CutEnd      *int64 `json:"cut_end"`
	FenceOffset *int64 `json:"fence_offset"`
	// ComparedFrom is from where on both logs were compared, Equal how many records
	// were found to be the same.
	ComparedFrom *int64 `json:"compared_from"`
	Equal        int64  `json:"equal_records"`
	Tail         *Tail  `json:"tail"`
}

// Tail is what the promoted side never got.
type Tail struct {
	// Records is how many there are in the offsets From (inclusive) to End
	// (exclusive).
	Records int64 `json:"records"`
	From    int64 `json:"from"`
	End     int64 `json:"end"`
	// FirstAt and LastAt are the earliest and the latest of their timestamps.
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
}

// Group is a consumer group whose offsets go back.
type Group struct {
	Group string `json:"group"`
	// Partitions is how many offsets of it on the old source the new link may
	// overwrite.
	Partitions int `json:"partitions"`
}
