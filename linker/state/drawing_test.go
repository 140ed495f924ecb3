package state

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// underWay are the states from which people may order the same: in the drawing
// they stand in one box.
var underWay = []State{Pending, Padding, CatchingUp, Active, SourceUnavailable, TargetUnavailable, Halted}

// meanings are what the drawing says below itself, one line for each state.
var meanings = map[State]string{
	Pending:           "known, and not looked at yet, or about to be tried again",
	Padding:           "an empty target is brought up to the offset at which the source's log starts",
	CatchingUp:        "mirrored, and behind the source",
	Active:            "mirrored, and at the source's end",
	SourceUnavailable: "the source cannot be read; tried again by itself",
	TargetUnavailable: "the target cannot be written; tried again by itself",
	Halted:            "stopped for the reason that is shown with it; the others go on",
	Paused:            "`klink pause`: nothing is written until `klink resume`",
	PendingStopped:    "`klink promote` is making sure that nothing is left to mirror",
	Stopped:           "promoted or failed over: the topic belongs to whoever writes to it now",
	Removed:           "taken out of the link",
}

// TestDrawingIsTheTable keeps docs/states.md, which shows the table of moves, in
// step with it.
func TestDrawingIsTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The states of a partition\n\nDrawn from the table in `linker/state`; a test compares them (`-rewrite` draws it anew).\n" +
		"A topic shows the worst of its partitions' states.\n\n```mermaid\nstateDiagram-v2\n    [*] --> PENDING\n    state mirroring {\n")
	for _, from := range underWay {
		for _, to := range underWay {
			names := events(from, to, false)
			if from == Halted { // the one move to PENDING that people order in order to try again
				names = append(names, events(from, to, true)...)
			}
			arrow(&b, "        ", string(from), to, names)
		}
	}
	b.WriteString("    }\n")
	for _, to := range allStates[len(underWay):] {
		first := events(underWay[0], to, true)
		for _, from := range underWay {
			if !slices.Equal(events(from, to, true), first) {
				t.Errorf("orders lead from %s elsewhere than from %s", from, underWay[0])
			}
		}
		arrow(&b, "    ", "mirroring", to, first)
	}
	for _, from := range allStates[len(underWay):] {
		for _, to := range allStates {
			arrow(&b, "    ", string(from), to, events(from, to, true))
		}
	}
	b.WriteString("```\n\n| state | what it means |\n|---|---|\n")
	for _, s := range allStates {
		if meanings[s] == "" {
			t.Errorf("%s has no meaning", s)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", s, meanings[s])
	}
	goldenFile(t, filepath.Join("..", "..", "docs", "states.md"), b.String())
}

// events lists what leads from one state to another, in the table's order: either
// what people order, or all else.
func events(from, to State, orders bool) (names []string) {
	for _, e := range allEvents {
		if next, ok := moves[from][e]; ok && next == to && from != to && strings.HasPrefix(string(e), "to-") == orders {
			names = append(names, string(e))
		}
	}
	return names
}

func arrow(b *strings.Builder, indent, from string, to State, events []string) {
	if len(events) > 0 {
		fmt.Fprintf(b, "%s%s --> %s: %s\n", indent, from, to, strings.Join(events, ", "))
	}
}
