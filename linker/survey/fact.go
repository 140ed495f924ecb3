package survey

import "fmt"

// Fact is one thing that stock brokers do and that keeping offsets rests on.
type Fact string

// The facts, in the order in which they are tried and shown.
const (
	AppendBase           Fact = "append_base"
	AppendRaw            Fact = "append_raw"
	LogEndExact          Fact = "log_end_exact"
	SequenceChecked      Fact = "sequence_checked"
	DuplicateAnswered    Fact = "duplicate_answered"
	ProducersListed      Fact = "producers_listed"
	MarkersAllowed       Fact = "markers_allowed"
	MarkersCounted       Fact = "markers_counted"
	MarkersOrdered       Fact = "markers_ordered"
	MarkersInvisible     Fact = "markers_invisible"
	SequenceAfterMarkers Fact = "sequence_after_markers"
	FenceHolds           Fact = "fence_holds"
	AppendTimeCleared    Fact = "append_time_cleared"
	SettingsChangeable   Fact = "settings_changeable"
	PadsTaken            Fact = "pads_taken"
	TrimMovesStart       Fact = "trim_moves_start"
	StartKept            Fact = "start_kept"
)

// facts says of each what it means, in the order above.
var facts = []struct {
	fact Fact
	text string
}{
	{AppendBase, "an answer to an append tells the offset"},
	{AppendRaw, "a batch is stored byte for byte as it was sent"},
	{LogEndExact, "the leader tells its true log end (OffsetForLeaderEpoch)"},
	{SequenceChecked, "a batch out of sequence is refused"},
	{DuplicateAnswered, "a batch sent again is answered with its old offset and not written"},
	{ProducersListed, "the leader tells a producer's last sequence (DescribeProducers)"},
	{MarkersAllowed, "a transaction marker may be written, and takes one offset (WriteTxnMarkers v1)"},
	{MarkersCounted, "many markers in one request take one offset each"},
	{MarkersOrdered, "a marker with a lower coordinator epoch is refused"},
	{MarkersInvisible, "consumers pass over markers without seeing a record"},
	{SequenceAfterMarkers, "data go on with the next sequence after markers"},
	{FenceHolds, "a marker of a higher producer epoch shuts older data out"},
	{AppendTimeCleared, "the log-append-time bit of a produced batch is cleared"},
	{SettingsChangeable, "settings of a topic can be changed (IncrementalAlterConfigs)"},
	{PadsTaken, "a compressed batch of empty records takes one offset each"},
	{TrimMovesStart, "the log start can be moved (DeleteRecords)"},
	{StartKept, "after a trim to the end the next append goes on at that offset"},
}

// Answer is whether a fact holds. The zero value is Unknown (S2).
type Answer int8

// The answers.
const (
	Unknown Answer = iota
	Yes
	No
)

// String returns yes, no or ?.
func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	default:
		return "?"
	}
}

// MarshalJSON writes true, false or null.
func (a Answer) MarshalJSON() ([]byte, error) {
	switch a {
	case Yes:
		return []byte("true"), nil
	case No:
		return []byte("false"), nil
	default:
		return []byte("null"), nil
	}
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *Answer) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true":
		*a = Yes
	case "false":
		*a = No
	case "null":
		*a = Unknown
	default:
		return fmt.Errorf("%s is no answer", b)
	}
	return nil
}

// Finding is what came out about one fact.
type Finding struct {
	Fact  Fact   `json:"fact"`
	Holds Answer `json:"holds"`
	// Text says what the fact is, Detail what was seen; Detail may be "".
	Text   string `json:"text"`
	Detail string `json:"detail"`
	// MissingRight is the right that was missing, as it is granted, or "".
	MissingRight string `json:"missing_right"`
}

// Complete returns one finding for each fact, in the order of the facts. What
// is not among the given ones is unknown.
func Complete(found []Finding) []Finding {
	byFact := make(map[Fact]Finding, len(found))
	for _, f := range found {
		byFact[f.Fact] = f
	}
	out := make([]Finding, 0, len(facts))
	for _, known := range facts {
		f := byFact[known.fact]
		f.Fact, f.Text = known.fact, known.text
		if f.Holds == Unknown && f.Detail == "" {
			f.Detail = "not tried"
		}
		out = append(out, f)
	}
	return out
}
