package app

import (
	"testing"

	"klink/linker/state"
)

// A topic that is not in its link's mode is named, with the reason.
func TestModesSection(t *testing.T) {
	r := state.Report{Links: []state.Link{{Mode: "mirror", Topics: []state.Topic{
		{SourceTopic: "kept", Mode: "mirror"},
		{SourceTopic: "taken", Mode: "checkpoint", Detail: "offsets cannot be kept: partition 1: other data"},
		{SourceTopic: "halted", Mode: "checkpoint", Reason: "FENCED", Detail: "told elsewhere"},
		{SourceTopic: "unknown"},
	}}, {Mode: "checkpoint", Topics: []state.Topic{{SourceTopic: "a", Mode: "checkpoint"}}}}}
	want := "\ntaken (checkpoint mode): offsets cannot be kept: partition 1: other data\nhalted (checkpoint mode)\n"
	if got := modesSection(r); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
