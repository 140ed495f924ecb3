package admit

import (
	"fmt"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/state"
)

// Refusal is why a topic is not mirrored.
type Refusal struct {
	Reason state.Reason
	// Detail says what was found, Hint what to do where that is not the reason's own.
	Detail, Hint string
}

// String is the reason, what was found, and what to do.
func (r *Refusal) String() string {
	hint := r.Hint
	if hint == "" {
		hint = r.Reason.About().Hint
	}
	return fmt.Sprintf("%s: %s (%s)", r.Reason, r.Detail, hint)
}

// Mirror is a mirror as it is wanted, and what is there of it now.
type Mirror struct {
	SourceTopic string
	SourceID    feed.TopicID
	// Target is the name of the topic that mirrors it by the configuration.
	Target string
	// There: the target topic exists. TargetID is its id, zero where that is not known.
	There    bool
	TargetID feed.TopicID
	// Running: whoever asks mirrors it at this moment, so that what is gone went just
	// now, and is not silently begun anew.
	Running bool
}

// ByRecord compares a mirror with what is on record of it on the target.
func ByRecord(rec control.TopicRecord, m Mirror) *Refusal {
	switch {
	case rec.TargetTopic != m.Target:
		return &Refusal{Reason: state.TopicRefused, Detail: fmt.Sprintf("this link mirrors it to %q so far, now %q is configured", rec.TargetTopic, m.Target),
			Hint: "undo the change of the topic's name on the target (mode, topics.rename, or checkpoint.source_alias, separator and replication_policy); " +
				"or, while no klink runs, take it off the record with klink remove, and have klink repair --recreate mirror it under the new name; " +
				"or use a new link name, where all topics of the link have new names"}
	case rec.TargetID.IsZero():
		return nil
	case (m.There || m.Running) && rec.SourceID != m.SourceID:
		return &Refusal{Reason: state.SourceRecreated, Detail: fmt.Sprintf("the source topic has id %s, was %s", m.SourceID, rec.SourceID)}
	case !m.There && m.Running:
		return &Refusal{Reason: state.TargetRecreated, Detail: "the target topic is gone"}
	}
	return nil
}

// ByTargetID compares the id of the target topic with the one on record. made says
// that whoever asks made it just now.
func ByTargetID(rec control.TopicRecord, id feed.TopicID, made bool) *Refusal {
	if made || rec.TargetID.IsZero() || rec.TargetID == id {
		return nil
	}
	return &Refusal{Reason: state.TargetRecreated, Detail: fmt.Sprintf("the target topic has id %s, was %s", id, rec.TargetID)}
}

// ByOwner is about a target topic that another mirror has, as control.ErrOwned says.
func ByOwner(owned error) *Refusal {
	return &Refusal{Reason: state.TopicRefused, Detail: owned.Error(),
		Hint: "a target topic belongs to one link; take it out of this one, or rename it with topics.rename"}
}
