package app

import (
	"time"

	"klink/translate"
)

// staleAfter is the age from which on a group's offset counts as stale: twice the
// interval in which MirrorMaker 2 looks at groups by default
// (emit.checkpoints.interval.seconds).
const staleAfter = 2 * time.Minute

// The ways that are translated, and what by.
const (
	toTarget = "to_target"
	toSource = "to_source"
	byMap    = "klink_map"
	byMM2    = "mm2"
)

// TranslateResult is what klink translate found.
type TranslateResult struct {
	AsOf time.Time `json:"as_of"`
	Link string    `json:"link"`
	// Direction is to_target or to_source; From is klink_map or mm2.
	Direction string `json:"direction"`
	From      string `json:"from"`
	// Reads are the topics of a MirrorMaker 2, or of klink's, that were read.
	Reads  []TranslateRead   `json:"reads"`
	Groups []TranslatedGroup `json:"groups"`
	// Unanswered counts partitions without an answer, and groups without partitions.
	Unanswered int `json:"unanswered"`
	// Notes say what could not be asked.
	Notes []string `json:"notes"`
}

// TranslateRead is how one topic was read.
type TranslateRead struct {
	Topic string `json:"topic"`
	// Complete: all was read that was there when the read began. TimedOut: time was
	// over before.
	Complete    bool  `json:"complete"`
	TimedOut    bool  `json:"timed_out"`
	Records     int64 `json:"records"`
	Undecodable int64 `json:"undecodable"`
	// UndecodableAt is the offset of the last one, null for none.
	UndecodableAt *int64 `json:"undecodable_at"`
	NextOffset    int64  `json:"next_offset"`
	EndOffset     *int64 `json:"end_offset"`
	// Newest is the time of the newest record, null for none.
	Newest           *time.Time `json:"newest"`
	NewestAgeSeconds *float64   `json:"newest_age_seconds"`
}

// TranslatedGroup is one consumer group.
type TranslatedGroup struct {
	Group      string                `json:"group"`
	Partitions []TranslatedPartition `json:"partitions"`
	// Reason is why there are none.
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

// TranslatedPartition is one offset of a group, on both sides.
type TranslatedPartition struct {
	SourceTopic  *string `json:"source_topic"`
	TargetTopic  *string `json:"target_topic"`
	Partition    int32   `json:"partition"`
	SourceOffset *int64  `json:"source_offset"`
	TargetOffset *int64  `json:"target_offset"`
	// Kind is exact, next, clamped or sampled; "" without an answer.
	Kind string `json:"kind"`
	// ReadAgain is how many records are read again at most, Ahead by how many offsets
	// the group is ahead of what was copied.
	ReadAgain *int64 `json:"read_again_records"`
	Ahead     int64  `json:"ahead_offsets"`
	// Origin is where the offset that was translated comes from: committed, recorded
	// or checkpoint.
	Origin string `json:"origin"`
	// CommittedAt is when it was committed or recorded, AsOf until when it is known to
	// have been the group's.
	CommittedAt *time.Time `json:"committed_at"`
	AsOf        *time.Time `json:"as_of"`
	AgeSeconds  *float64   `json:"age_seconds"`
	Stale       bool       `json:"stale"`
	// Checkpoint is what MirrorMaker 2's own client would answer; null for nothing.
	Checkpoint *TranslatedCheckpoint `json:"checkpoint"`
	Reason     string                `json:"reason"`
	Detail     string                `json:"detail"`
	Hint       string                `json:"hint"`
}

// TranslatedCheckpoint is a checkpoint as it was read.
type TranslatedCheckpoint struct {
	SourceOffset *int64    `json:"source_offset"`
	TargetOffset int64     `json:"target_offset"`
	At           time.Time `json:"at"`
}

// newTranslateResult is one without groups.
func newTranslateResult(link string, req TranslateRequest) TranslateResult {
	r := TranslateResult{AsOf: time.Now().UTC(), Link: link, Direction: toTarget, From: byMap,
		Reads: []TranslateRead{}, Groups: []TranslatedGroup{}, Notes: []string{}}
	if req.Back {
		r.Direction = toSource
	}
	if req.MirrorMaker {
		r.From = byMM2
	}
	return r
}

// read adds how a topic was read.
func (r *TranslateResult) read(t translate.Read) {
	out := TranslateRead{Topic: t.Topic, Complete: t.Complete, TimedOut: t.TimedOut, Records: t.Records, Undecodable: t.Undecodable,
		UndecodableAt: knownOffset(t.UndecodableAt), NextOffset: t.Next, EndOffset: knownOffset(t.End)}
	out.Newest, out.NewestAgeSeconds = r.since(t.Newest)
	r.Reads = append(r.Reads, out)
}

// since gives a time and its age; zero is unknown.
func (r *TranslateResult) since(at time.Time) (*time.Time, *float64) {
	if at.IsZero() {
		return nil, nil
	}
	at = at.UTC()
	age := max(0, r.AsOf.Sub(at)).Seconds()
	return &at, &age
}

// group adds a group with its answers; details say more of single reasons.
func (r *TranslateResult) group(name string, answers []translate.Answer, details map[translate.Partition]string) {
	g := TranslatedGroup{Group: name, Partitions: []TranslatedPartition{}}
	for _, a := range answers {
		p := r.partition(a)
		p.Detail = details[a.Source]
		g.Partitions = append(g.Partitions, p)
		if a.Reason != "" {
			r.Unanswered++
		}
	}
	r.Groups = append(r.Groups, g)
}

// unknownGroup adds a group of which nothing is known, and why.
func (r *TranslateResult) unknownGroup(name string, why translate.Reason) {
	r.Groups = append(r.Groups, TranslatedGroup{Group: name, Partitions: []TranslatedPartition{},
		Reason: string(why), Hint: why.About().Hint})
	r.Unanswered++
}

func (r *TranslateResult) partition(a translate.Answer) TranslatedPartition {
	p := TranslatedPartition{SourceTopic: known(a.Source.Topic), TargetTopic: known(a.Target.Topic), Partition: max(a.Source.Number, a.Target.Number),
		SourceOffset: knownOffset(a.Asked.Offset), TargetOffset: knownOffset(a.Offset), Kind: string(a.Kind), ReadAgain: knownOffset(a.ReadAgain),
		Ahead: a.Ahead, Origin: string(a.Asked.Origin), Reason: string(a.Reason), Hint: a.Reason.About().Hint}
	if r.Direction == toSource {
		p.SourceOffset, p.TargetOffset = p.TargetOffset, p.SourceOffset
	}
	p.CommittedAt, _ = r.since(a.Asked.At)
	p.AsOf, p.AgeSeconds = r.since(a.Asked.AsOf)
	p.Stale = p.AgeSeconds != nil && *p.AgeSeconds > staleAfter.Seconds()
	if c := a.Checkpoint; c != nil {
		p.Checkpoint = &TranslatedCheckpoint{SourceOffset: knownOffset(c.Up), TargetOffset: c.Down, At: c.At.UTC()}
	}
	return p
}

// known gives a text, nil where it is not known.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// knownOffset gives an offset or a count, nil where it is not known.
func knownOffset(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
