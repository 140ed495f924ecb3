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

// TestShowFences: whoever comes back after a promotion or a failover that was killed
// sees that it was not finished, also where no klink lives.
func TestShowFences(t *testing.T) {
	cutOf := func(unfenced, unsettled bool) *CutRecord {
		return &CutRecord{Link: "l", Topic: "t", Switch: "s", At: time.Unix(9, 0), Unsettled: unsettled,
			Partitions: []CutPartition{{Partition: 0}, {Partition: 1, Unfenced: unfenced}}}
	}
	others := &CutRecord{Link: "l", Topic: "t", Switch: "other", At: time.Unix(9, 0), Unsettled: true}
	const both = state.Unfenced + " " + state.Unsettled
	for name, c := range map[string]struct {
		verb   intent.Verb
		target byte // the id of the target topic
		cut    *CutRecord
		flags  string
		hint   string
	}{
		"failed over and settled":             {intent.Failover, 2, cutOf(false, false), ",", ""},
		"a partition without a fence":         {intent.Failover, 2, cutOf(true, false), "," + state.Unfenced, ""},
		"killed before the cut":               {intent.Failover, 2, nil, both + "," + both, hintUncut},
		"killed before the settings":          {intent.Failover, 2, cutOf(false, true), state.Unsettled + "," + state.Unsettled, hintFailedOver},
		"killed, and no fence":                {intent.Failover, 2, cutOf(true, true), state.Unsettled + "," + both, hintFailedOver},
		"never made on the target":            {intent.Failover, 0, nil, ",", ""},
		"the cut of another switch":           {intent.Failover, 2, others, both + "," + both, hintUncut},
		"promoted and settled":                {intent.Promote, 2, cutOf(false, false), ",", ""},
		"promoted, killed before settings":    {intent.Promote, 2, cutOf(false, true), state.Unsettled + "," + state.Unsettled, hintPromoted},
		"held, which is undone by itself":     {intent.Pend, 2, cutOf(false, true), both + ",", ""},
		"mirrored, whatever was before":       {"", 2, nil, both + ",", ""},
		"mirrored the other way, as reversed": {intent.Reverse, 2, cutOf(false, true), ",", ""},
	} {
		v := onRecord{topic: TopicRecord{Link: "l", SourceTopic: "t", TargetTopic: "t", Partitions: 2}}
		v.topic.TargetID[0] = c.target
		switch c.verb {
		case "":
		case intent.Pend:
			v.commands = given(intent.Pend)
		case intent.Reverse:
			v.commands = given(intent.Pend, intent.Promote, intent.Reverse)
		default:
			v.commands = given(intent.Pend, c.verb)
		}
		if c.cut != nil {
			v.cuts = []CutRecord{*c.cut}
		}
		all := []state.Topic{{SourceTopic: "t", Partitions: []state.Partition{{Partition: 0, Flags: strings.Fields(both)}, {Partition: 1}}}}
		was := all[0].Partitions
		ShowFences("l", all, v)
		var flags []string
		for _, p := range all[0].Partitions {
			flags = append(flags, strings.Join(p.Flags, " "))
			if p.Hint != c.hint || all[0].Hint != c.hint {
				t.Errorf("%s: hints %q and %q", name, p.Hint, all[0].Hint)
			}
		}
		if got := strings.Join(flags, ","); got != c.flags || len(was[0].Flags) != 2 || len(was[1].Flags) != 0 {
			t.Errorf("%s: flags %q, of %+v", name, got, was)
		}
	}
}

// given are commands about topic t, one behind the other.
func given(verbs ...intent.Verb) []intent.Command {
	var out []intent.Command
	for i, v := range verbs {
		c := intent.Command{Link: "l", Number: int32(i + 1), ID: string(rune('a' + i)), Verb: v, Topics: []string{"t"}}
		switch v {
		case intent.Reverse:
			c.Next = "home"
		case intent.Pend:
			c.Switch, c.Wait = "s", time.Second
		default:
			c.Switch, c.Fence = "s", 1
		}
		out = append(out, c)
	}
	return out
}
