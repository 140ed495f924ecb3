package control

import (
	"slices"
	"strings"
	"testing"
	"time"

	"klink/linker/intent"
	"klink/linker/state"
)

// onRecord is a record of one topic.
type onRecord struct {
	topic    TopicRecord
	commands []intent.Command
	cuts     []CutRecord
}

func (r onRecord) Topic(string, string) (TopicRecord, bool) { return r.topic, true }
func (r onRecord) Intents(string) intent.Intents            { return intent.Fold(r.commands) }
func (r onRecord) Cuts(_, id string) []CutRecord {
	return slices.DeleteFunc(slices.Clone(r.cuts), func(c CutRecord) bool { return c.Switch != id })
}

// TestShowFences: whoever comes back after a failover that was killed sees that it was
// not finished, also where no klink lives.
func TestShowFences(t *testing.T) {
	cutOf := func(unfenced bool) *CutRecord {
		return &CutRecord{Link: "l", Topic: "t", Switch: "s", At: time.Unix(9, 0), Partitions: []CutPartition{{Partition: 0}, {Partition: 1, Unfenced: unfenced}}}
	}
	for name, c := range map[string]struct {
		verb     intent.Verb
		target   byte // the id of the target topic
		cut      *CutRecord
		flags    string
		finished bool
	}{
		"failed over and cut":           {intent.Failover, 2, cutOf(false), ",", true},
		"a partition without a fence":   {intent.Failover, 2, cutOf(true), ",UNFENCED", true},
		"killed before the cut":         {intent.Failover, 2, nil, "UNFENCED,UNFENCED", false},
		"never made on the target":      {intent.Failover, 0, nil, ",", true},
		"promoted, which cuts before":   {intent.Promote, 2, cutOf(false), ",", true},
		"the cut of another switch":     {intent.Failover, 2, &CutRecord{Link: "l", Topic: "t", Switch: "other", At: time.Unix(9, 0)}, "UNFENCED,UNFENCED", false},
		"mirrored, whatever was before": {"", 2, nil, "UNFENCED,", true},
	} {
		v := onRecord{topic: TopicRecord{Link: "l", SourceTopic: "t", TargetTopic: "t", Partitions: 2}}
		v.topic.TargetID[0] = c.target
		if c.verb != "" {
			v.commands = []intent.Command{{Link: "l", Number: 1, ID: "a", Verb: intent.Pend, Topics: []string{"t"}, Switch: "s"},
				{Link: "l", Number: 2, ID: "b", Verb: c.verb, Topics: []string{"t"}, Switch: "s", Fence: 1}}
		}
		if c.cut != nil {
			v.cuts = []CutRecord{*c.cut}
		}
		all := []state.Topic{{SourceTopic: "t", Partitions: []state.Partition{{Partition: 0, Flags: []string{state.Unfenced}}, {Partition: 1}}}}
		was := all[0].Partitions
		ShowFences("l", all, v)
		var flags []string
		for _, p := range all[0].Partitions {
			flags = append(flags, strings.Join(p.Flags, " "))
			if (p.Hint == hintUnfinished) == c.finished {
				t.Errorf("%s: hint %q", name, p.Hint)
			}
		}
		if got := strings.Join(flags, ","); got != c.flags || len(was[0].Flags) != 1 || len(was[1].Flags) != 0 {
			t.Errorf("%s: flags %q, of %+v", name, got, was)
		}
	}
}
