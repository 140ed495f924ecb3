package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testCommands() *shell { return &shell{} }

func TestArrange(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"klink status", "klink status"},
		{"klink status orders -o json", "klink status -o json -- orders"},
		{"klink status -o json orders payments --http x:1 a", "klink status -o json --http x:1 -- orders payments a"},
		{"klink status --output=json orders", "klink status --output=json -- orders"},
		{"klink status -c f -- orders", "klink status -c f -- orders"},
		{"klink run -c f --link east", "klink run -c f --link east"},
		{"klink run --topic a --topic b*", "klink run --topic a --topic b*"},
		{"klink run orders --help", "klink run --help -- orders"},
		{"klink help", "klink --help"},
		{"klink -h", "klink --help"},
		{"klink help status", "klink status --help"},
		{"klink --version -o json", "klink version -o json"},
	} {
		got, err := arrange(strings.Fields(c.line), testCommands().commands())
		if diff := cmp.Diff(strings.Fields(c.want), got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.line, err, diff)
		}
	}
}

func TestArrangeRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"klink", "name a command: run, "},
		{"klink stats", `unknown command "stats" (did you mean status?)`},
		{"klink orders", `unknown command "orders"; there are`},
		{"klink -o json status", "-o stands before the command"},
		{"klink status --outptu json", "unknown flag --outptu (did you mean --output?)"},
		{"klink status orders --dry-run", "unknown flag --dry-run"},
		{"klink status -- -orders", "unknown flag --orders"},
		{"klink status -o", "flag -o needs a value"},
		{"klink status -c -o json", "flag -c needs a value"},
		{"klink status --help false", "write --help=false"},
	} {
		got, err := arrange(strings.Fields(c.line), testCommands().commands())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}

func FuzzArrange(f *testing.F) {
	f.Add("status orders -o json")
	f.Add("run --topic a --topic b -- c")
	f.Add("help -h --x=y = -")
	commands := testCommands().commands()
	// What is accepted begins with a command; no topic begins with -; nothing is
	// made up: each word out was a word in, or is the program, a command, --help or
	// the -- before the topics.
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Fields(line)
		out, err := arrange(append([]string{"klink"}, words...), commands)
		if err != nil {
			return
		}
		if len(out) < 2 || (out[1] != "--help" && !slices.Contains(commandNames(commands), out[1])) {
			t.Fatalf("%q", out)
		}
		topics := false
		for _, w := range out[2:] {
			if topics && strings.HasPrefix(w, "-") {
				t.Errorf("topic %q in %q", w, out)
			}
			topics = topics || w == "--"
			if w != "--" && w != "--help" && !slices.Contains(words, w) {
				t.Errorf("%q was not given: %q", w, out)
			}
		}
	})
}
