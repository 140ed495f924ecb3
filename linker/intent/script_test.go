package intent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A script has blocks of a comment, commands and, below a line of dashes, what
// follows from them. A command is a number, a verb, topics with commas between
// or * for the link, and settings.

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/fold_*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for block := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
				out = append(out, play(t, block))
			}
			golden(t, filepath.Base(f), strings.Join(out, "\n"))
		})
	}
}

// play runs one block and returns it with its outcome.
func play(t testing.TB, block string) string {
	t.Helper()
	input, _, _ := strings.Cut(block, "----")
	var cmds []Command
	for line := range strings.Lines(input) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			cmds = append(cmds, parse(t, line))
		}
	}
	return strings.TrimSpace(input) + "\n----\n" + show(cmds)
}

func parse(t testing.TB, line string) Command {
	t.Helper()
	fields := strings.Fields(line)
	n, err := strconv.Atoi(fields[0])
	if err != nil || len(fields) < 3 {
		t.Fatalf("no command: %q", line)
	}
	c := Command{Link: "l", Number: int32(n), ID: fields[0], Verb: Verb(fields[1])}
	if fields[2] != "*" {
		c.Topics = strings.Split(fields[2], ",")
	}
	for _, f := range fields[3:] {
		k, v, _ := strings.Cut(f, "=")
		switch k {
		case "fence":
			fence, err := strconv.ParseInt(v, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			c.Fence = int16(fence)
		case "switch":
			c.Switch = v
		case "next":
			c.Next = v
		case "group":
			c.Group = v
		case "wait":
			if c.Wait, err = time.ParseDuration(v); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("unknown setting %q", f)
		}
	}
	return c
}

// show tells of each command that it was refused, and what is wanted in the end.
func show(cmds []Command) string {
	var b strings.Builder
	for n := range cmds {
		if err := Fold(cmds[:n]).Admits(cmds[n]); err != nil {
			fmt.Fprintf(&b, "%d %v\n", cmds[n].Number, err)
		}
	}
	got := Fold(cmds)
	fmt.Fprintf(&b, "next %d, link %s\n", got.Next(), shown(got.Link()))
	names := append(got.Named(), "unnamed")
	for _, c := range cmds {
		names = append(names, c.Topics...)
	}
	slices.Sort(names)
	for _, topic := range slices.Compact(names) {
		fmt.Fprintf(&b, "%-8s %s\n", topic, shown(got.Of(topic)))
	}
	return b.String()
}

func shown(i Intent) string {
	out := string(i.Want)
	if i.Cause.Number != 0 {
		out += fmt.Sprintf(" since %d", i.Cause.Number)
	}
	if i.PausedByLink() {
		out += " by the link"
	}
	if i.Reversed() {
		out += " reversed into " + i.Cause.Next
	}
	if i.Fence != 0 {
		out += fmt.Sprintf(" fence %d", i.Fence)
	}
	if i.Again != 0 {
		out += fmt.Sprintf(" again %d", i.Again)
	}
	return out
}
