package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"klink/cmd/config"
	"klink/linker/reverse"
)

// fakeReverser tells a result, and remembers what it was asked.
type fakeReverser struct {
	result reverse.Result
	err    error
	asked  []string
	last   reverse.Request
}

func (f *fakeReverser) Close() {}

func (f *fakeReverser) Topics(words []string) ([]string, error) {
	return namedTopics(testReport("east").Links[0], words)
}

func (f *fakeReverser) Check(_ context.Context, r reverse.Request) (reverse.Result, error) {
	f.asked, f.last = append(f.asked, "check"), r
	out := f.result
	out.DryRun = true
	return out, f.err
}

func (f *fakeReverser) Do(_ context.Context, r reverse.Request) (reverse.Result, error) {
	f.asked, f.last = append(f.asked, "do"), r
	return f.result, f.err
}

func (f *fakeReverser) parts() Parts {
	return Parts{Reverse: func(context.Context, *config.Config) (Reverser, error) { return f, nil }}
}

func turned() reverse.Result {
	same := reverse.Partition{Partition: 0, Verdict: reverse.InPlace, SourceStart: new(int64), SourceEnd: ptr(int64(1_000)), TargetStart: new(int64), TargetEnd: ptr(int64(1_500)), Equal: 1_000}
	return reverse.Result{Link: "east", Next: "east-back", AsOf: asOf, Groups: []reverse.Group{{Group: "billing", Partitions: 2}},
		MissingRights: []string{}, UnknownRights: []string{"Alter (or ClusterAction) on the cluster"},
		Topics:     []reverse.Topic{{SourceTopic: "orders", TargetTopic: "x.orders", OK: true, Verdict: reverse.InPlace, Partitions: []reverse.Partition{same}}},
		Definition: "links:\n  - name: east-back\n"}
}

func withTail() reverse.Result {
	r := turned()
	p := reverse.Partition{Partition: 3, Verdict: reverse.HasTail, Detail: "20 records behind the cut", SourceEnd: ptr(int64(1_020)), TargetEnd: ptr(int64(1_000)), Equal: 1_000,
		Tail: &reverse.Tail{Records: 20, From: 1_000, End: 1_020, FirstAt: asOf, LastAt: asOf}}
	r.Topics = append(r.Topics, reverse.Topic{SourceTopic: "payments.eu", TargetTopic: "payments.eu", Verdict: reverse.HasTail, Detail: "20 records behind the cut",
		Hint: "--recreate deletes it", TailRecords: 20, Partitions: []reverse.Partition{p}})
	r.Failed = 1
	return r
}

func TestReverse(t *testing.T) {
	file := configFile(t, "", "east")
	f := &fakeReverser{result: turned()}
	r := execute(t.Context(), f.parts(), "reverse", "-c", file, "--yes", "orders", "--name", "home", "--recreate")
	if r.code != 0 || r.err != "" || !slices.Equal(f.asked, []string{"do"}) || f.last.Link != "east" || f.last.Next != "home" || !f.last.Recreate ||
		!slices.Equal(f.last.Topics, []string{"orders"}) || !strings.Contains(f.last.Definition, "name: east") {
		t.Errorf("%+v, %+v", r, f)
	}
	golden(t, "testdata/reverse.golden", r.out)
	golden(t, "testdata/help-reverse.golden", execute(t.Context(), Parts{}, "reverse", "--help").out)

	f = &fakeReverser{result: withTail()}
	r = execute(t.Context(), f.parts(), "reverse", "-c", file, "--dry-run")
	if r.code != 4 || !slices.Equal(f.asked, []string{"check"}) || !strings.Contains(r.err, "1 of 2 topics would lose records") {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/reverse-tail.golden", r.out)
	r = execute(t.Context(), f.parts(), "reverse", "-c", file, "--yes", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 4 || got["_command"] != "reverse" || got["next"] != "east-back" {
		t.Errorf("%v: %+v", err, r)
	}
	f = &fakeReverser{result: turned(), err: fmt.Errorf("%w: home.yaml is there", reverse.ErrFile)}
	if r = execute(t.Context(), f.parts(), "reverse", "-c", file, "--yes", "--write", "home.yaml"); r.code != 2 || f.last.Write != "home.yaml" {
		t.Errorf("%+v", r)
	}
	// Nobody is told that all is done where it is not, or that nothing is where it is.
	for _, c := range []struct {
		err         error
		code        int
		title, says string
	}{
		{reverse.ErrLost, 1, "link east is not turned around as link east-back, or in part, as of", "klink: reverse: somebody else"},
		{fmt.Errorf("%w: %w", reverse.ErrUnwritten, reverse.ErrFile), 1, "link east is turned around as link east-back, as of", "klink: reverse: the link is turned around, and only"},
	} {
		f = &fakeReverser{result: turned(), err: c.err}
		if r = execute(t.Context(), f.parts(), "reverse", "-c", file, "--yes"); r.code != c.code || !strings.HasPrefix(r.out, c.title) || !strings.HasPrefix(r.err, c.says) {
			t.Errorf("%v: %+v", c.err, r)
		}
	}
}

// Whoever is asked has seen what would be done; what cannot be done is not asked.
func TestReverseAsks(t *testing.T) {
	file := configFile(t, "", "east")
	for _, c := range []struct {
		result reverse.Result
		answer string
		code   int
		asked  string
	}{
		{turned(), "", 2, "[]"}, {turned(), "y\n", 0, "[check do]"}, {turned(), "n\n", 2, "[check]"}, {withTail(), "y\n", 4, "[check]"},
	} {
		f := &fakeReverser{result: c.result}
		var out, errOut bytes.Buffer
		s := &shell{parts: f.parts(), in: strings.NewReader(c.answer), out: &out, errOut: &errOut, interactive: c.answer != ""}
		if code := s.execute(t.Context(), []string{"klink", "reverse", "-c", file}); code != c.code || fmt.Sprint(f.asked) != c.asked {
			t.Errorf("%q: %d, %v, %s", c.answer, code, f.asked, &errOut)
		}
	}
}

// A link made of flags has a definition as well.
func TestReverseDefinition(t *testing.T) {
	l := config.DefaultLink()
	l.Name, l.Source.Brokers, l.Target.Brokers, l.Topics.Include = "default", []string{"s:1"}, []string{"t:1"}, []string{"/a{1,2}/"}
	text, err := definition("", l)
	if err != nil {
		t.Fatal(err)
	}
	turned, err := reverse.TurnDefinition(text, "default", "back", []reverse.Renamed{{Source: "a", Target: "b"}})
	if err != nil || !strings.Contains(turned.File, "t:1") {
		t.Errorf("%v: %s", err, turned)
	}
}
