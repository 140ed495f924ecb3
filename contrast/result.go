package contrast

import (
	"time"
)

// Result is what came out, in the shape of the JSON contract. What is nil was not
// measured (X3).
type Result struct {
	AsOf time.Time `json:"as_of"`
	// Seed and what else the load follows from.
	Seed             uint64  `json:"seed"`
	LoadSeconds      float64 `json:"load_seconds"`
	RecordsPerSecond int     `json:"records_per_second"`
	// Clusters and Machine say what it was measured on.
	Clusters string `json:"clusters"`
	Machine  string `json:"machine"`
	// Kept is whether every mode was finished and kept what it promises; Findings of
	// the modes say what not.
	Kept  bool         `json:"promises_kept"`
	Modes []ModeResult `json:"modes"`
	// Unfinished are the modes that are not in Modes, since the run was stopped.
	Unfinished []string `json:"unfinished"`
}

// Failed are the modes that have no measures, as something went wrong.
func (r Result) Failed() (names []string) {
	for _, m := range r.Modes {
		if m.Error != "" {
			names = append(names, m.Mode)
		}
	}
	return names
}

// Broke are the modes that did not keep what they promise.
func (r Result) Broke() (names []string) {
	for _, m := range r.Modes {
		if len(m.Findings) > 0 {
			names = append(names, m.Mode)
		}
	}
	return names
}

// ModeResult is one mode's part.
type ModeResult struct {
	Mode string `json:"mode"`
	// Error is why there are no measures; "" if there are.
	Error    string   `json:"error,omitempty"`
	Promise  Promise  `json:"promises"`
	Findings []string `json:"findings"`

	// Weight is nil, and all its keys absent, where there is an Error.
	*Weight
	// EqualShare is the share of copies at the source's offsets.
	EqualShare *float64      `json:"offsets_equal_share"`
	Topics     []TopicResult `json:"topics"`
	Groups     []GroupResult `json:"groups"`
	// ErrorMean and ErrorMax are over the partitions of all groups, in records.
	ErrorMean *float64 `json:"translation_error_mean_records"`
	ErrorMax  *int64   `json:"translation_error_max_records"`
	// CarriedSeconds is how long after the groups' last commits they were exact at
	// the target; nil if they never were in the PatienceSeconds that were given.
	CarriedSeconds  *float64 `json:"carried_seconds"`
	PatienceSeconds float64  `json:"patience_seconds"`
	// SwitchSeconds is from the source's death until each group was given a record
	// that it had not taken yet; nil if one never was.
	SwitchSeconds *float64 `json:"switch_seconds"`

	LagP50Seconds *float64 `json:"lag_p50_seconds"`
	LagP99Seconds *float64 `json:"lag_p99_seconds"`
	// MBPerSecond is in 10^6 bytes of values, CPUSecondsPerGB in core seconds of the
	// mirror alone for 10^9 of them.
	MBPerSecond     *float64 `json:"mb_per_second"`
	CPUSecondsPerGB *float64 `json:"cpu_seconds_per_gb"`
	PeakMemoryBytes *int64   `json:"peak_memory_bytes"`

	Course []Point `json:"course"`
}

// TopicResult sums up a topic's partitions.
type TopicResult struct {
	Topic string `json:"topic"`
	Weight
	EqualShare *float64 `json:"offsets_equal_share"`
}

// GroupResult is what a group met with.
type GroupResult struct {
	Group string `json:"group"`
	// ReadAgain counts records that it was given although they lie before its last
	// commit, NeverGiven copies behind it that it was not given.
	ReadAgain  int64 `json:"read_again"`
	NeverGiven int64 `json:"never_given"`
	// ErrorMean and ErrorMax are how far its places are off, over its partitions.
	ErrorMean *float64 `json:"translation_error_mean_records"`
	ErrorMax  *int64   `json:"translation_error_max_records"`
	// Unplaced counts partitions for which nothing said where to go on.
	Unplaced      int              `json:"partitions_unplaced"`
	SwitchSeconds *float64         `json:"switch_seconds"`
	Partitions    []GroupPartition `json:"partitions"`
}

// GroupPartition is a partition's part of it.
type GroupPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Committed is the source's offset, ResumedAt the target's; nil for none.
	Committed  int64  `json:"source_commit"`
	ResumedAt  *int64 `json:"resumed_at"`
	ReadAgain  int64  `json:"read_again"`
	NeverGiven int64  `json:"never_given"`
	Error      int64  `json:"translation_error_records"`
}

// Counts are the figures that the same seed gives again (X2), by name.
func (r ModeResult) Counts() map[string]int64 {
	counts := map[string]int64{"source_records": r.Acked, "records_lost": r.Lost, "copied_twice": r.Twice, "aborted_shown": r.Revealed, "out_of_order": r.Disorder}
	for _, t := range r.Topics {
		counts[t.Topic+" source_records"] = t.Acked
	}
	for _, g := range r.Groups {
		counts[g.Group+" read_again"], counts[g.Group+" never_given"] = g.ReadAgain, g.NeverGiven
		for _, p := range g.Partitions {
			counts[g.Group+" commits"] += p.Committed
		}
	}
	return counts
}

func share(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	s := float64(part) / float64(whole)
	return &s
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}
