package admit

import (
	"fmt"

	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// Unmapped is what is said of a target to which copies went without a map.
const Unmapped = "this link has copied to the target before, and nothing is on record of where the copies lie"

// Record is what is on record on a link's target.
type Record interface {
	Link(name string) (control.LinkRecord, bool)
	Topic(link, sourceTopic string) (control.TopicRecord, bool)
	Epochs(link, sourceTopic string, partition int32) []control.Epoch
	Intents(link string) intent.Intents
	// Owned is control.ErrOwned where another mirror has the target topic of a record.
	Owned(r control.TopicRecord) error
}

// Beforehand tells, before a klink starts, what it would refuse.
type Beforehand struct {
	Link string
	// Record is nil where there is none yet.
	Record Record
	// Inflows are the mirrors that end in topics of the source, by their names, and
	// TargetCluster is the id of the target; "" where it is not known.
	Inflows       map[string]control.Inflow
	TargetCluster string
	// Drifts: the link is in checkpoint mode.
	Drifts bool
}

// Refusal is why a klink that starts now would not mirror a topic, in the order in
// which it looks; "" where it would.
func (b *Beforehand) Refusal(m Mirror) string {
	m.Running = false
	var rec control.TopicRecord
	if b.Record != nil {
		if i := b.Record.Intents(b.Link).Of(m.SourceTopic); i.Want != intent.Mirror {
			return fmt.Sprintf("%s: %s (%s)", control.OrderedState(i.Want), i.Detail(), i.Hint())
		}
		known := false
		if rec, known = b.Record.Topic(b.Link, m.SourceTopic); known {
			if r := ByRecord(rec, m); r != nil {
				return r.String()
			}
			if b.unmapped(rec, m) {
				return (&Refusal{Reason: state.MapLost, Detail: Unmapped}).String()
			}
		} else if err := b.Record.Owned(control.TopicRecord{Link: b.Link, SourceTopic: m.SourceTopic, TargetTopic: m.Target}); err != nil {
			return ByOwner(err).String()
		}
	}
	loop := Loop{Inflow: b.Inflows[m.SourceTopic], TargetCluster: b.TargetCluster, Target: m.Target,
		Drifts: b.Drifts || rec.Mode == control.ModeCheckpoint, Begun: !rec.TargetID.IsZero()}
	if r := ByLoop(loop); r != nil {
		return r.String()
	}
	if r := ByTargetID(rec, m.TargetID, false); r != nil && !m.TargetID.IsZero() {
		return r.String()
	}
	return ""
}

// unmapped tells whether a topic was mirrored in mirror mode until now, where the link
// is for checkpoint mode: klink will find records of its own on the target, and no map.
func (b *Beforehand) unmapped(rec control.TopicRecord, m Mirror) bool {
	was, _ := b.Record.Link(b.Link)
	if !b.Drifts || was.Mode != string(control.ModeMirror) || rec.Mode == control.ModeCheckpoint || !m.There || rec.TargetID != m.TargetID {
		return false
	}
	for n := range rec.Partitions {
		if len(b.Record.Epochs(b.Link, rec.SourceTopic, n)) > 0 {
			return true
		}
	}
	return false
}
