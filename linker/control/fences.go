package control

import (
	"slices"

	"klink/linker/intent"
	"klink/linker/state"
)

// hintUnfinished is the hint of a topic that was failed over by a command that did not
// come to its end. A promotion puts its cut on record before it stops anything.
const hintUnfinished = "the failover was not finished, so what is cut off may still write, and the source's own settings are not in force: give klink failover again"

// Switches is what is on record of the switches of links.
type Switches interface {
	Topic(link, sourceTopic string) (TopicRecord, bool)
	Intents(link string) intent.Intents
	Cuts(link, switchID string) []CutRecord
}

// ShowFences flags the partitions of stopped topics of a link of which it is not certain
// that nobody writes there any more: their cut says so, or a failover has not put one on
// record. The flag goes as soon as neither is so.
func ShowFences(link string, all []state.Topic, on Switches) {
	in := on.Intents(link)
	switches := make(map[string]map[string]CutRecord) // by switch and topic
	for i, t := range all {
		want := in.Of(t.SourceTopic)
		id := want.Cause.Switch
		if want.Want != intent.Stopped || id == "" {
			continue
		}
		if switches[id] == nil {
			switches[id] = byTopic(on.Cuts(link, id))
		}
		c, cut := switches[id][t.SourceTopic]
		unfinished := !cut && want.Cause.Verb == intent.Failover && made(on, link, t.SourceTopic)
		open := make(map[int32]bool)
		for _, p := range c.Partitions {
			open[p.Partition] = p.Unfenced
		}
		all[i] = flagged(t, func(n int32) bool { return unfinished || open[n] })
		if !unfinished {
			continue
		}
		all[i].Hint = hintUnfinished
		for n := range all[i].Partitions {
			all[i].Partitions[n].Hint = hintUnfinished
		}
	}
}

// made tells whether a topic has partitions on the target, which a failover has to cut.
func made(on Switches, link, sourceTopic string) bool {
	r, ok := on.Topic(link, sourceTopic)
	return ok && !r.TargetID.IsZero() && r.Partitions > 0
}

func byTopic(cuts []CutRecord) map[string]CutRecord {
	out := make(map[string]CutRecord, len(cuts))
	for _, c := range cuts {
		out[c.Topic] = c
	}
	return out
}

// flagged is a topic with the flag on those partitions alone that are open. What it was
// made of stays as it is.
func flagged(t state.Topic, open func(partition int32) bool) state.Topic {
	t.Partitions = slices.Clone(t.Partitions)
	for n, p := range t.Partitions {
		flags := slices.DeleteFunc(slices.Clone(p.Flags), func(f string) bool { return f == state.Unfenced })
		if open(p.Partition) {
			flags = append(flags, state.Unfenced)
		}
		t.Partitions[n].Flags = flags
	}
	return t
}
