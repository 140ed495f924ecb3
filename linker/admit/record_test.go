package admit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

var (
	one, two = feed.TopicID{1}, feed.TopicID{2}
	// mirrored is a mirror that is on record, and wanted is the same as it is wanted.
	mirrored = control.TopicRecord{Link: "east", SourceTopic: "a", SourceID: one, TargetTopic: "a", TargetID: two}
	wanted   = Mirror{SourceTopic: "a", SourceID: one, Target: "a", There: true, TargetID: two}
)

func edited[T any](v T, edit func(*T)) T { edit(&v); return v }

func TestByRecord(t *testing.T) {
	for name, c := range map[string]struct {
		rec  control.TopicRecord
		is   Mirror
		want state.Reason
	}{
		"as it was":                     {mirrored, wanted, ""},
		"another name":                  {mirrored, edited(wanted, func(m *Mirror) { m.Target = "src.a" }), state.TopicRefused},
		"a claim":                       {edited(mirrored, func(r *control.TopicRecord) { r.TargetID, r.SourceID = feed.TopicID{}, two }), wanted, ""},
		"source made anew":              {mirrored, edited(wanted, func(m *Mirror) { m.SourceID = two }), state.SourceRecreated},
		"both gone and made anew":       {mirrored, edited(wanted, func(m *Mirror) { m.SourceID, m.There = two, false }), ""},
		"source made anew just now":     {mirrored, edited(wanted, func(m *Mirror) { m.SourceID, m.There, m.Running = two, false, true }), state.SourceRecreated},
		"target gone before the start":  {mirrored, edited(wanted, func(m *Mirror) { m.There = false }), ""},
		"target gone while it mirrored": {mirrored, edited(wanted, func(m *Mirror) { m.There, m.Running = false, true }), state.TargetRecreated},
	} {
		r := ByRecord(c.rec, c.is)
		if (r != nil) != (c.want != "") || r != nil && (r.Reason != c.want || r.Detail == "") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// AD2.
func TestByTargetID(t *testing.T) {
	for name, c := range map[string]struct {
		id      feed.TopicID
		made    bool
		refused bool
	}{"the same": {id: two}, "another": {id: one, refused: true}, "made just now": {id: one, made: true}, "without an id": {refused: true}} {
		if r := ByTargetID(mirrored, c.id, c.made); (r != nil) != c.refused || r != nil && r.Reason != state.TargetRecreated {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := ByTargetID(control.TopicRecord{}, one, false); r != nil {
		t.Errorf("%+v", r)
	}
}

// onRecord is a record of one mirror.
type onRecord struct {
	topic    control.TopicRecord
	mode     string // of the link
	epochs   []control.Epoch
	owned    error
	commands []intent.Command
}

func (r onRecord) Topic(string, string) (control.TopicRecord, bool) {
	return r.topic, r.topic.SourceTopic != ""
}
func (r onRecord) Link(string) (control.LinkRecord, bool) {
	return control.LinkRecord{Mode: r.mode}, true
}
func (r onRecord) Epochs(string, string, int32) []control.Epoch { return r.epochs }
func (r onRecord) Intents(string) intent.Intents                { return intent.Fold(r.commands) }
func (r onRecord) Owned(control.TopicRecord) error              { return r.owned }

func TestBeforehand(t *testing.T) {
	back := map[string]control.Inflow{"a": {Link: "back", SourceTopic: "a", Begun: true, Clusters: "DST"}}
	stopped := map[string]control.Inflow{"a": edited(back["a"], func(i *control.Inflow) { i.Stopped = true })}
	begun := onRecord{topic: edited(mirrored, func(r *control.TopicRecord) { r.Partitions = 1 }), mode: "mirror", epochs: make([]control.Epoch, 1)}
	for name, c := range map[string]struct {
		b    Beforehand
		is   Mirror
		want string // a part of it; "" for none
	}{
		"no record":               {Beforehand{}, wanted, ""},
		"nothing of it":           {Beforehand{Record: onRecord{}}, wanted, ""},
		"as it was":               {Beforehand{Record: onRecord{topic: mirrored}, TargetCluster: "DST"}, wanted, ""},
		"owned":                   {Beforehand{Record: onRecord{owned: errors.New("somebody has it")}}, wanted, "TOPIC_REFUSED: somebody has it (a target topic belongs to one link;"},
		"the mode was changed":    {Beforehand{Record: onRecord{topic: edited(mirrored, func(r *control.TopicRecord) { r.TargetTopic = "src.a" })}}, wanted, `TOPIC_REFUSED: this link mirrors it to "src.a" so far, now "a" is configured (undo the change of the topic's name on the target (mode, `},
		"another target topic":    {Beforehand{Record: onRecord{topic: mirrored}}, edited(wanted, func(m *Mirror) { m.TargetID = one }), "TARGET_RECREATED: the target topic has id "},
		"its id is not known":     {Beforehand{Record: onRecord{topic: mirrored}}, edited(wanted, func(m *Mirror) { m.TargetID = feed.TopicID{} }), ""},
		"gone, and running":       {Beforehand{Record: onRecord{topic: mirrored}}, edited(wanted, func(m *Mirror) { m.There, m.Running = false, true }), ""},
		"a loop":                  {Beforehand{Record: onRecord{}, Inflows: back, TargetCluster: "DST"}, wanted, "TOPIC_REFUSED: the source topic is a mirror of the target's: link back mirrors it from topic a of cluster DST (records would go round for ever:"},
		"unknown cluster":         {Beforehand{Inflows: back}, wanted, ""},
		"a way home":              {Beforehand{Inflows: stopped, TargetCluster: "DST"}, wanted, ""},
		"a way home, drifting":    {Beforehand{Inflows: stopped, TargetCluster: "DST", Drifts: true}, wanted, "until it was stopped"},
		"from mirror mode":        {Beforehand{Record: begun, Drifts: true}, wanted, "MAP_LOST: " + Unmapped + " (nothing is copied, "},
		"which it never was in":   {Beforehand{Record: edited(begun, func(r *onRecord) { r.mode = "checkpoint" }), Drifts: true}, wanted, ""},
		"but nothing was written": {Beforehand{Record: edited(begun, func(r *onRecord) { r.epochs = nil }), Drifts: true}, wanted, ""},
		"but for this topic":      {Beforehand{Record: edited(begun, func(r *onRecord) { r.topic.Mode = control.ModeCheckpoint }), Drifts: true}, wanted, ""},
		"but it is gone":          {Beforehand{Record: begun, Drifts: true}, edited(wanted, func(m *Mirror) { m.There = false }), ""},
		"paused": {Beforehand{Link: "east", Record: onRecord{topic: mirrored, commands: []intent.Command{
			{Link: "east", ID: "1", Number: 1, Verb: intent.Pause, Topics: []string{"a"}, By: "ops", At: time.Unix(0, 0)}}}}, wanted, "PAUSED: paused by ops"},
	} {
		got := c.b.Refusal(c.is)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
