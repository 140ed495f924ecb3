package intent

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew instead of comparing with it")

func golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got); read it, then run with -rewrite:\n%s", path, d)
	}
}

// rows are the intents that the table tells apart.
func rows() []Intent {
	var out []Intent
	for _, w := range wants {
		out = append(out, Intent{Want: w, Cause: Command{Topics: []string{"t"}}})
	}
	return append(out, Intent{Want: Stopped, Cause: Command{Verb: Reverse, Next: "home", Topics: []string{"t"}}})
}

// TestMovesPrinted holds the whole table in a form that a person reads.
func TestMovesPrinted(t *testing.T) {
	var b strings.Builder
	for _, i := range rows() {
		for _, v := range verbs {
			outcome := fmt.Sprint("-  ", i.Allows(v))
			if i.Allows(v) == nil {
				outcome = string(moves[i.row()][v])
			}
			fmt.Fprintf(&b, "%-18s %-9s %s\n", i.row(), v, outcome)
		}
	}
	golden(t, "moves.txt", b.String())
}

func TestEveryWantIsInTheTable(t *testing.T) {
	for _, i := range rows() {
		if len(moves[i.row()]) == 0 {
			t.Errorf("%s has no row", i.row())
		}
		for v, to := range moves[i.row()] {
			if !v.Known() || to == reversed || len(moves[to]) == 0 {
				t.Errorf("%s: %s leads to %q", i.row(), v, to)
			}
		}
	}
	if len(moves) != len(rows()) {
		t.Errorf("%d rows for %d", len(moves), len(rows()))
	}
}

// N2.
func TestOnlyThreeVerbsLeaveStopped(t *testing.T) {
	for _, v := range verbs {
		for _, i := range []Intent{{Want: Stopped}, {Want: Stopped, Cause: Command{Verb: Reverse}}} {
			to, ok := moves[i.row()][v]
			allowed := v == Recreate || v == Remove || v == Reverse || v == Adopt && i.Reversed()
			if ok != allowed || v == Reverse && to != Stopped {
				t.Errorf("%s of %s: %q, %v", v, i.row(), to, ok)
			}
		}
	}
}

func TestRefusalsSayWhatStandsInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		i    Intent
		v    Verb
		want string
	}{
		"promote of a mirror":   {Intent{Want: Mirror}, Promote, "not stopped for this promotion"},
		"promotion of a paused": {Intent{Want: Paused}, Pend, "resume it first"},
		"pause while pending":   {Intent{Want: PendingStop}, Pause, "a promotion is under way"},
		"resume of a stopped":   {Intent{Want: Stopped}, Resume, "only reverse, repair --recreate and remove"},
		"failover twice":        {Intent{Want: Stopped}, Failover, "it was promoted or failed over"},
		"resume of a removed":   {Intent{Want: Removed}, Resume, "adopt goes on with what is there"},
		"reverse too early":     {Intent{Want: Mirror}, Reverse, "neither promoted nor failed over"},
		"of a newer klink":      {Intent{Want: Mirror}, "freeze", "no verb of this klink"},
		"the zero intent":       {Intent{}, Promote, "not stopped for this promotion"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.i.Allows(c.v)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Verb != c.v || refused.Want != c.i.Want || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := (Intent{}).Allows(Pause); err != nil {
		t.Errorf("the zero intent is to mirror: %v", err)
	}
}

func TestCheck(t *testing.T) {
	good := Command{Link: "l", Number: 1, ID: "a", Verb: Pause, Topics: []string{"a", "b"}}
	for name, c := range map[string]struct {
		change func(*Command)
		want   string
	}{
		"as it is":              {func(*Command) {}, ""},
		"pause of the link":     {func(c *Command) { c.Topics = nil }, ""},
		"accept of a group":     {func(c *Command) { c.Verb, c.Group, c.Topics = Accept, "g", nil }, ""},
		"pend":                  {func(c *Command) { c.Verb, c.Switch, c.Wait = Pend, "s", 1 }, ""},
		"failover":              {func(c *Command) { c.Verb, c.Switch, c.Fence = Failover, "s", 1 }, ""},
		"reverse":               {func(c *Command) { c.Verb, c.Next = Reverse, "home" }, ""},
		"retry of partitions":   {func(c *Command) { c.Verb, c.Partitions = Retry, []int32{4, 2} }, ""},
		"unknown verb":          {func(c *Command) { c.Verb = "freeze" }, "unknown verb"},
		"no link":               {func(c *Command) { c.Link = "" }, "no link"},
		"no id":                 {func(c *Command) { c.ID = "" }, "no id"},
		"number 0":              {func(c *Command) { c.Number = 0 }, "begin at 1"},
		"failover of no topics": {func(c *Command) { c.Verb, c.Switch, c.Fence, c.Topics = Failover, "s", 1, nil }, "no topics"},
		"accept of nothing":     {func(c *Command) { c.Verb, c.Topics = Accept, nil }, "no topics"},
		"not sorted":            {func(c *Command) { c.Topics = []string{"b", "a"} }, "not sorted"},
		"twice":                 {func(c *Command) { c.Topics = []string{"a", "a"} }, "named twice"},
		"no name":               {func(c *Command) { c.Topics = []string{""} }, "without a name"},
		"pause of a group":      {func(c *Command) { c.Group = "g" }, "a group is accepted"},
		"failover, no fence":    {func(c *Command) { c.Verb, c.Switch = Failover, "s" }, "no fence"},
		"promote, no switch":    {func(c *Command) { c.Verb, c.Fence = Promote, 1 }, "no switch"},
		"pend without an end":   {func(c *Command) { c.Verb, c.Switch = Pend, "s" }, "no end"},
		"reverse to nowhere":    {func(c *Command) { c.Verb = Reverse }, "no next link"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := good
			c.change(&cmd)
			err := cmd.Check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
