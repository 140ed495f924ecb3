package control

import (
	"slices"

	"klink/linker/intent"
	"klink/linker/state"
)

// The hints of topics that were stopped by a command that did not come to its end. A
// promotion puts its cut on record before it stops anything.
const (
	hintUncut      = "the failover was not finished, so what is cut off may still write, and the source's own settings are not in force: give klink failover again"
	hintFailedOver = "the failover was not finished, so the source's own settings may not be in force: give klink failover again"
	hintPromoted   = "the promotion was not finished, so the source's own settings may not be in force: give klink promote again"
)

// Switches is what is on record of the switches of links.
type Switches interface {
	Topic(link, sourceTopic string) (TopicRecord, bool)
	Intents(link string) intent.Intents
	Cuts(link, switchID string) []CutRecord
}

// ShowFences flags the partitions of stopped topics of a link of which it is not certain
// that nobody writes there any more: their cut says so, or a failover has not put one on
// record; and those that were stopped by a command which has not come to its end. A flag
// goes as soon as none of that is so.
func ShowFences(link string, all []state.Topic, on Switches) {
	in := on.Intents(link)
	switches := make(map[string]map[string]CutRecord) // by switch and topic
	for i, t := range all {
		want := in.Of(t.SourceTopic)
		if want.Want != intent.Stopped {
			continue
		}
		id := want.Cause.Switch // "" where it is mirrored the other way
		if id != "" && switches[id] == nil {
			switches[id] = byTopic(on.Cuts(link, id))
		}
		r, _ := on.Topic(link, t.SourceTopic)
		var cut *CutRecord
		if c, ok := switches[id][t.SourceTopic]; ok {
			cut = &c
		}
		all[i] = flagged(t, cut, Unfinished(r, want, cut))
	}
}

// Unfinished is the hint of a topic that was stopped by a command which did not come to
// its end, as its cut says, nil for none on record; "" where nothing is left to do. That
// is so of all that a klink has switched which did not mark its cuts.
func Unfinished(r TopicRecord, stopped intent.Intent, cut *CutRecord) string {
	verb := stopped.Cause.Verb
	switch {
	case stopped.Want != intent.Stopped:
		return ""
	case cut == nil && verb == intent.Failover && made(r):
		return hintUncut
	case cut == nil || !cut.Unsettled:
		return ""
	case verb == intent.Failover:
		return hintFailedOver
	default:
		return hintPromoted
	}
}

// made tells whether a topic has partitions on the target, which a failover has to cut.
func made(r TopicRecord) bool { return !r.TargetID.IsZero() && r.Partitions > 0 }

func byTopic(cuts []CutRecord) map[string]CutRecord {
	out := make(map[string]CutRecord, len(cuts))
	for _, c := range cuts {
		out[c.Topic] = c
	}
	return out
}

// flagged is a stopped topic with the flags that its cut gives it, and no others of
// them; unfinished is its hint where its command has more to do. What it was made of
// stays as it is.
func flagged(t state.Topic, cut *CutRecord, unfinished string) state.Topic {
	open := make(map[int32]bool)
	if cut != nil {
		for _, p := range cut.Partitions {
			open[p.Partition] = p.Unfenced
		}
	}
	t.Partitions = slices.Clone(t.Partitions)
	for n, p := range t.Partitions {
		flags := slices.DeleteFunc(slices.Clone(p.Flags), func(f string) bool { return f == state.Unfenced || f == state.Unsettled })
		if open[p.Partition] || unfinished == hintUncut {
			flags = append(flags, state.Unfenced)
		}
		if unfinished != "" {
			flags = append(flags, state.Unsettled)
			t.Partitions[n].Hint = unfinished
		}
		t.Partitions[n].Flags = flags
	}
	if unfinished != "" {
		t.Hint = unfinished
	}
	return t
}
