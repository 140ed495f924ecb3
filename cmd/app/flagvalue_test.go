package app

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestFlagValues(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"compare --last 5", `klink: compare: --last: "5" is no duration; allowed: a number with a unit, 0s or longer, e.g. 500ms, 5s, 10m or 24h; see klink compare --help`},
		{"pause --timeout abc", `--timeout: "abc" is no duration; allowed: `},
		{"pause --timeout=1d", `--timeout: "1d" is no duration; allowed: `},
		{"pause --timeout -5s", `--timeout: "-5s" is out of range; allowed: `},
		{"promote --timeout=-5s", `--timeout: "-5s" is out of range; allowed: `},
		{"repair --partition x", `--partition: "x" is no whole number; allowed: a whole number from 0 to 2147483647, e.g. 5`},
		{"repair --partition 1,2", `--partition: "1,2" is no whole number`},
		{"repair --partition -1", `--partition: "-1" is out of range; allowed: a whole number from 0 to 2147483647`},
		{"repair --partition 2147483648", `--partition: "2147483648" is out of range`},
		{"demo --rate 1.5", `--rate: "1.5" is no whole number; allowed: a whole number, 0 or more, e.g. 5`},
		{"demo --seconds --keep", `flag --seconds needs a value`},
		{"contrast --seed -1", `--seed: "-1" is out of range`},
		{"contrast --seed 18446744073709551616", `--seed: "18446744073709551616" is no whole number`},
		{"adopt --depth=", `--depth: "" is no whole number`},
		{"adopt --watch 5", `--watch: "5" is no duration`},
		{"pause --yes=maybe", `--yes: "maybe" is neither true nor false; allowed: true or false, or the flag alone`},
	} {
		r := execute(t.Context(), Parts{}, strings.Fields(c.line)...)
		if r.code != exitUsage || !strings.Contains(r.err, c.want) || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: %+v", c.line, r)
		}
	}
}

// Flags of keys that are in no file are held to the file's rules.
func TestFlagsAreHeldToTheFilesRules(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"reverse --source s:1 --target t:1 --topic a --yes --name A_B", "  --name: \"A_B\" is no name for a link; allowed: up to 100 of a to z, 0 to 9 and -\n"},
		{"pause --target t:1 --yes --link A_B", "  --link: \"A_B\" is no name for a link; allowed: "},
		{"status --http abc", "  --http: \"abc\" is no address; allowed: host:port with a port from 0 to 65535\n"},
		{"run --source s:1 --target t:1 --topic a --http abc", "  --http: \"abc\" is no address; allowed: "},
		{"run --source s --target t:1 --topic a", "  --source: \"s\" is no address; allowed: host:port with a port from 1 to 65535\n"},
	} {
		r := execute(t.Context(), Parts{}, strings.Fields(c.line)...)
		if r.code != exitUsage || !strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%s: %+v", c.line, r)
		}
	}
}

// No flag of any command leaves the refusal of a value to the cli library, and none
// of its kind is new to klink.
func TestEveryFlagRefusesInOurWords(t *testing.T) {
	for _, command := range testCommands().commands() {
		for _, f := range command.Flags {
			_, isSwitch := f.(*cli.BoolFlag)
			name := flagName(f.Names()[0])
			switch f.(type) {
			case *cli.StringFlag, *cli.StringSliceFlag: // whatever is wrong is told by who reads them
				continue
			}
			if !isNumber(f) && !isSwitch {
				t.Errorf("klink %s %s: what may stand in a %T?", command.Name, name, f)
			}
			r := execute(t.Context(), Parts{}, command.Name, name+"=5 x")
			if r.code != exitUsage || !strings.Contains(r.err, name+`: "5 x" is n`) || !strings.Contains(r.err, "; allowed: ") {
				t.Errorf("klink %s %s: %+v", command.Name, name, r)
			}
		}
	}
}

// What is accepted is what the cli library reads as well.
func FuzzFlagValues(f *testing.F) {
	for _, seed := range []string{"5s", "-1", "0x10", "1_000", "1h30m", "true", "", "99999999999999999999", "+5", "0b1"} {
		f.Add(seed)
	}
	flags := func() []cli.Flag {
		return []cli.Flag{&cli.DurationFlag{Name: "f"}, &cli.IntFlag{Name: "f"}, &cli.Int64Flag{Name: "f"}, &cli.Uint64Flag{Name: "f"},
			&cli.IntSliceFlag{Name: "f"}, &cli.BoolFlag{Name: "f"}}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, flag := range flags() {
			app := &cli.App{Flags: []cli.Flag{flag}, DisableSliceFlagSeparator: true, HideHelp: true, Writer: &strings.Builder{}, ErrWriter: &strings.Builder{},
				Action: func(*cli.Context) error { return nil }}
			if what := valueProblem(flag, text); what == "" {
				if err := app.Run([]string{"klink", "--f=" + text}); err != nil {
					t.Errorf("%T accepts %q, and the library says %v", flag, text, err)
				}
			}
		}
	})
}
