package state

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew instead of comparing with it")

// allStates and allEvents are sorted as the table is printed.
var (
	allStates = []State{Pending, Padding, CatchingUp, Active, SourceUnavailable, TargetUnavailable, Halted,
		Paused, PendingStopped, Stopped, Removed}
	allEvents = []Event{Started, CaughtUp, FellBehind, SourceLost, TargetLost, HaltFound, PadBegun, Retried,
		ToMirror, ToPause, ToPend, ToStop, ToRemove}
)

// TestMovesPrinted holds the whole table in a form that a person reads.
func TestMovesPrinted(t *testing.T) {
	var b strings.Builder
	for _, s := range allStates {
		for _, e := range allEvents {
			reason := Reason("")
			switch e {
			case SourceLost, TargetLost, HaltFound:
				reason = Unreachable
			}
			p := Position{State: s}
			if s == Halted {
				p.Reason = TooLarge
			}
			n, err := p.Next(e, reason, "")
			if err != nil {
				fmt.Fprintf(&b, "%-18s %-12s -\n", s, e)
				continue
			}
			fmt.Fprintf(&b, "%-18s %-12s %s\n", s, e, n.State)
		}
	}
	golden(t, "moves.txt", b.String())
}

// TestReasonsPrinted holds every reason with its text; an operator reads these.
func TestReasonsPrinted(t *testing.T) {
	var names []string
	for r := range about {
		names = append(names, string(r))
	}
	sort.Strings(names)
	var b strings.Builder
	for _, n := range names {
		a := Reason(n).About()
		kind := "data"
		if a.Remote {
			kind = "remote"
		}
		if a.Explanation == "" || a.Hint == "" {
			t.Errorf("%s lacks a text", n)
		}
		fmt.Fprintf(&b, "%s (%s)\n  %s\n  %s\n", n, kind, a.Explanation, a.Hint)
	}
	golden(t, "reasons.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	goldenFile(t, filepath.Join("testdata", name), got)
}

func goldenFile(t *testing.T, path, got string) {
	t.Helper()
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

// TestG4_DataReasonsNeverEndByThemselves is S2.
func TestG4_DataReasonsNeverEndByThemselves(t *testing.T) {
	for r, a := range about {
		p := Position{State: Halted, Reason: r}
		n, err := p.Next(Retried, "", "")
		if a.Remote && (err != nil || n.State != Pending) {
			t.Errorf("%s is remote, yet a retry gives %v, %v", r, n, err)
		}
		if !a.Remote && (err == nil || n != p) {
			t.Errorf("%s is about data, yet a retry gives %v, %v", r, n, err)
		}
		for _, e := range []Event{Started, CaughtUp, FellBehind, SourceLost, TargetLost} {
			if n, err := p.Next(e, Unreachable, ""); err == nil || n != p {
				t.Errorf("%s left HALTED on %s", r, e)
			}
		}
	}
}

// TestUnknownMovesNothing is S1.
func TestUnknownMovesNothing(t *testing.T) {
	p := Position{State: Pending}
	if n, err := p.Next(CaughtUp, "", ""); err == nil || n != p {
		t.Errorf("PENDING moved on caught-up: %v, %v", n, err)
	}
	if n, err := p.Next(HaltFound, "", "x"); err == nil || n != p {
		t.Errorf("a halt without a reason was taken: %v, %v", n, err)
	}
	if n, err := p.Next("nonsense", "", ""); err == nil || n != p {
		t.Errorf("an unknown event was taken: %v, %v", n, err)
	}
}

// TestSeverityNamesEveryState: a state without a place would hide behind better ones.
func TestSeverityNamesEveryState(t *testing.T) {
	seen := map[int]State{}
	for _, s := range allStates {
		v := s.Severity()
		if v < 0 {
			t.Errorf("%s has no severity", s)
		}
		if o, ok := seen[v]; ok {
			t.Errorf("%s and %s are equally bad", s, o)
		}
		seen[v] = s
	}
	if len(moves) != len(allStates) {
		t.Errorf("the table has %d states, the test knows %d", len(moves), len(allStates))
	}
}

// TestOrders: what people ordered holds whatever else happens, and what was
// stopped is never only paused, nor goes on where it stood.
func TestOrders(t *testing.T) {
	orders := map[Event]State{ToMirror: Pending, ToPause: Paused, ToPend: PendingStopped, ToStop: Stopped, ToRemove: Removed}
	for _, s := range allStates {
		for _, e := range allEvents {
			p := Position{State: s, Reason: Unreachable, Detail: "before"}
			n, err := p.Next(e, Unreachable, "by ann")
			want, order := orders[e]
			final := s == Stopped && (e == ToPause || e == ToPend) || s == Removed && e != ToMirror && e != ToRemove
			switch {
			case order && final, !order && s.Ordered():
				if err == nil {
					t.Errorf("%s moved to %s on %s", s, n.State, e)
				}
			case order && (err != nil || n.State != want):
				t.Errorf("%s on %s: %v, %v", s, e, n, err)
			case e == ToMirror && (n.Reason != "" || n.Detail != ""):
				t.Errorf("%s on %s keeps %q %q", s, e, n.Reason, n.Detail)
			case order && e != ToMirror && n.Detail != "by ann":
				t.Errorf("%s on %s does not tell who: %q", s, e, n.Detail)
			case e == ToStop && n.Reason != Unreachable:
				t.Errorf("%s on %s forgets %s", s, e, Unreachable)
			}
		}
	}
}
