package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/cmd/config"
	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/state"
)

// fakeConsole is the record of a link without a cluster.
type fakeConsole struct {
	link     state.Link
	commands []intent.Command
	acks     map[string][]control.AckRecord
	workers  int
	// rival is what wins over the next command, openErr what Open says.
	rival   *intent.Command
	openErr error
	// obeys is what a running klink does about a command.
	obeys  func(*fakeConsole, intent.Command)
	opened bool
	// tails are what Tails reads, did what was done beside commands, failing what is
	// not to succeed.
	tails   map[string][]Tail
	did     []string
	failing map[string]error
	mirrors map[string]control.TopicRecord
	// notes are those of Forget.
	notes map[string][]string
	// accepted is what the ledger has as such.
	accepted map[feed.Partition]ledger.Range
	// untouched are topics that klink wrote nothing to.
	untouched map[string]bool
}

func (f *fakeConsole) Link() state.Link                                      { return f.link }
func (f *fakeConsole) Commands() []intent.Command                            { return f.commands }
func (f *fakeConsole) Acks(topic string) []control.AckRecord                 { return f.acks[topic] }
func (f *fakeConsole) Changed() <-chan struct{}                              { return nil }
func (f *fakeConsole) Workers(context.Context) (int, error)                  { return f.workers, nil }
func (f *fakeConsole) Close()                                                {}
func (f *fakeConsole) open(context.Context, *config.Config) (Console, error) { return f, nil }
func (f *fakeConsole) parts() Parts                                          { return Parts{Console: f.open} }

func (f *fakeConsole) Mirror(topic string) (control.TopicRecord, bool) {
	r, ok := f.mirrors[topic]
	return r, ok
}

func (f *fakeConsole) Accepted(topic string, partition int32) (from, end int64, ok bool) {
	r, ok := f.accepted[feed.Partition{Topic: topic, Partition: partition}]
	return r.From, r.End, ok
}

func (f *fakeConsole) Wrote(topic string, _ int32) bool { return !f.untouched[topic] }

func (f *fakeConsole) Tails(_ context.Context, topic string) ([]Tail, error) {
	return f.tails[topic], f.failing["tails "+topic]
}

func (f *fakeConsole) act(what string) error {
	f.did = append(f.did, what)
	return f.failing[what]
}

func (f *fakeConsole) Adopt(_ context.Context, topic string, ends map[int32]int64) error {
	return f.act(fmt.Sprintf("adopt %s up to %v", topic, ends))
}
func (f *fakeConsole) Deletable(_ context.Context, topic string) error {
	return f.failing["deletable "+topic]
}
func (f *fakeConsole) Delete(_ context.Context, topic string) error { return f.act("delete " + topic) }
func (f *fakeConsole) Forget(_ context.Context, topic string) ([]string, error) {
	return f.notes[topic], f.act("forget " + topic)
}
func (f *fakeConsole) ForgetLink(context.Context) error { return f.act("forget the link") }

func (f *fakeConsole) Open(context.Context) error {
	f.opened = f.openErr == nil
	return f.openErr
}

func (f *fakeConsole) Give(_ context.Context, c intent.Command) error {
	if !f.opened {
		return errors.New("not open")
	}
	if r := f.rival; r != nil {
		r.Number = c.Number
		f.commands = append(f.commands, *r)
		return &control.LostError{Winner: *r}
	}
	f.commands = append(f.commands, c)
	if f.obeys != nil {
		f.obeys(f, c)
	}
	return nil
}

// confirmAll is a klink that confirms for all partitions at once.
func confirmAll(f *fakeConsole, c intent.Command) {
	for i, t := range f.link.Topics {
		if len(c.Topics) > 0 && !slices.Contains(c.Topics, t.SourceTopic) {
			continue
		}
		a := control.AckRecord{Link: c.Link, Topic: t.SourceTopic, Worker: "w", Number: c.Number}
		for j, p := range t.Partitions {
			a.Partitions = append(a.Partitions, control.Acked{Partition: p.Partition, End: 100, Wrote: true})
			if c.Verb == intent.Resume {
				f.link.Topics[i].Partitions[j].State = state.CatchingUp
			}
		}
		f.acks[t.SourceTopic] = append(f.acks[t.SourceTopic], a)
	}
}

// commanded is a console of link east with the topics of testReport, after some
// commands.
func commanded(commands ...intent.Command) *fakeConsole {
	for i := range commands {
		c := &commands[i]
		c.Link, c.Number, c.ID, c.At, c.By = "east", int32(i+1), "0a", asOf, "ops@desk"
	}
	return &fakeConsole{link: testReport("east").Links[0], commands: commands, acks: map[string][]control.AckRecord{}, workers: 1, obeys: confirmAll}
}

// last returns the newest command.
func (f *fakeConsole) last() intent.Command { return f.commands[len(f.commands)-1] }

type orderAnswer struct {
	Command string `json:"_command"`
	Version int    `json:"_version"`
	orderResult
}

func decodeOrder(t testing.TB, r result) orderAnswer {
	t.Helper()
	var a orderAnswer
	if err := json.Unmarshal([]byte(r.out), &a); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return a
}

func TestPause(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	r := execute(t.Context(), f.parts(), "pause", "-c", file, "--yes")
	if c := f.last(); r.code != 0 || r.err != "" || c.Verb != intent.Pause || len(c.Topics) != 0 || c.Number != 1 || len(c.ID) < 8 || !strings.Contains(c.By, "@") || time.Since(c.At) > time.Minute {
		t.Errorf("%+v, %+v", r, c)
	}
	golden(t, "testdata/pause.golden", r.out)
	golden(t, "testdata/help-pause.golden", execute(t.Context(), Parts{}, "pause", "--help").out)

	f = commanded()
	r = execute(t.Context(), f.parts(), "pause", "x.pay*", "-c", file, "--yes", "-o", "json")
	a := decodeOrder(t, r)
	if r.code != 0 || a.Command != "pause" || a.Version != 1 || a.Link != "east" || a.DryRun || a.Failed != 0 || len(a.Topics) != 1 || a.Topics[0].SourceTopic != "payments.eu" || !a.Topics[0].OK || a.Topics[0].State != state.Paused {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"payments.eu"}, f.last().Topics); diff != "" {
		t.Error(diff)
	}
}

func TestResume(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded(intent.Command{Verb: intent.Pause}, intent.Command{Verb: intent.Pause, Topics: []string{"payments.eu"}})
	r := execute(t.Context(), f.parts(), "resume", "-c", file, "--yes")
	if r.code != 0 || f.last().Verb != intent.Resume || len(f.last().Topics) != 0 {
		t.Errorf("%+v, %+v", r, f.last())
	}
	golden(t, "testdata/resume.golden", r.out) // payments.eu was paused by name as well
	golden(t, "testdata/help-resume.golden", execute(t.Context(), Parts{}, "resume", "--help").out)

	// A paused link cannot be resumed topic by topic.
	f = commanded(intent.Command{Verb: intent.Pause})
	r = execute(t.Context(), f.parts(), "resume", "orders", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || len(f.commands) != 1 || a.Topics[0].Reason != reasonRefused || !strings.Contains(a.Topics[0].Detail, "the link is paused as a whole") || !strings.Contains(a.Topics[0].Detail, "by ops@desk at 2026-01-31T12:00:00Z") {
		t.Errorf("%+v", r)
	}
}

// What is so already is done without another command.
func TestOrderAgain(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded(intent.Command{Verb: intent.Pause, Topics: []string{"orders"}})
	r := execute(t.Context(), f.parts(), "pause", "orders", "-c", file, "--yes")
	if r.code != 0 || len(f.commands) != 1 || f.opened || !strings.Contains(r.out, "was paused before, by ops@desk") {
		t.Errorf("%+v", r)
	}
	// A topic that was paused by name is not waited for when its link is: nobody confirms
	// that a second time. The link is paused all the same, also where no topic changes.
	own := intent.Command{Verb: intent.Pause, Topics: []string{"orders", "payments.eu"}}
	for _, names := range [][]string{{"orders"}, {"orders", "payments.eu"}} {
		own.Topics = names
		f = commanded(own)
		f.obeys = func(f *fakeConsole, c intent.Command) {
			if confirmAll(f, c); len(c.Topics) == 0 {
				delete(f.acks, "orders")
			}
		}
		r = execute(t.Context(), f.parts(), "pause", "-c", file, "--yes", "--timeout", "5ms")
		if r.code != 0 || len(f.commands) != 2 || len(f.last().Topics) != 0 || !strings.Contains(r.out, "was paused before, by ops@desk") {
			t.Errorf("%v: %+v", names, r)
		}
	}
	f = commanded()
	r = execute(t.Context(), f.parts(), "resume", "-c", file, "--yes")
	if r.code != 0 || len(f.commands) != 0 || !strings.Contains(r.out, "was not paused") {
		t.Errorf("%+v", r)
	}
}

// What may not be done fails, and the rest is done.
func TestOrderRefused(t *testing.T) {
	f := commanded(intent.Command{Verb: intent.Failover, Topics: []string{"orders"}, Fence: 1, Switch: "s"})
	r := execute(t.Context(), f.parts(), "pause", "*", "-c", configFile(t, "", "east"), "--yes", "-o", "json")
	a := decodeOrder(t, r)
	if r.code != 1 || !strings.Contains(r.err, "klink: pause: 1 of 2 topics failed\n") || a.Failed != 1 || a.Topics[0].Reason != reasonRefused || !a.Topics[1].OK {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"payments.eu"}, f.last().Topics); diff != "" {
		t.Error(diff)
	}
}

// Of two who give opposite commands one is told of the other.
func TestOrderOverruled(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded(intent.Command{Verb: intent.Pause})
	f.rival = &intent.Command{Verb: intent.Pause, Topics: []string{"orders"}, By: "night@desk", At: asOf}
	r := execute(t.Context(), f.parts(), "resume", "-c", file, "--yes")
	if r.code != 1 || !strings.Contains(r.out, reasonOverruled) || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "pause of orders came first, by night@desk at 2026-01-31T12:00:00Z") {
		t.Errorf("%+v", r)
	}
	// The same command by another is as good as one's own.
	f = commanded()
	f.rival = &intent.Command{Verb: intent.Pause, By: "night@desk", At: asOf}
	f.workers = 0
	if r = execute(t.Context(), f.parts(), "pause", "-c", file, "--yes"); r.code != 0 {
		t.Errorf("%+v", r)
	}
}

// Who obeys, and what is said where nobody does.
func TestOrderObeyed(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	f.obeys, f.workers = nil, 0
	r := execute(t.Context(), f.parts(), "pause", "orders", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 0 || a.Topics[0].Detail != "no running klink: it takes effect at the next start" || a.Topics[0].State != state.Halted {
		t.Errorf("%+v", r)
	}
	f = commanded()
	f.obeys = func(f *fakeConsole, c intent.Command) {
		f.acks["orders"] = []control.AckRecord{{Number: c.Number, Partitions: []control.Acked{{Partition: 1}}}, {Number: c.Number - 1, Partitions: []control.Acked{{Partition: 0}}}}
	}
	r = execute(t.Context(), f.parts(), "pause", "orders", "-c", file, "--yes", "--timeout", "5ms", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != reasonUnconfirmed || a.Topics[0].Detail != "not confirmed within --timeout 5ms, by whoever mirrors partitions 0,2-3" || len(f.commands) != 1 {
		t.Errorf("%+v", r)
	}
	f = commanded()
	f.openErr = errors.New("write __klink: missing right: Write on topic __klink")
	r = execute(t.Context(), f.parts(), "pause", "orders", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != reasonFailed || !strings.Contains(a.Topics[0].Detail, "missing right") {
		t.Errorf("%+v", r)
	}
}

// Nothing is done without a yes.
func TestConfirm(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	if r := execute(t.Context(), f.parts(), "pause", "-c", file); r.code != 2 || r.out != "" || !strings.Contains(r.err, "add --yes to do it, or --dry-run") {
		t.Errorf("%+v", r)
	}
	r := execute(t.Context(), f.parts(), "pause", "-c", file, "--dry-run")
	if r.code != 0 || r.err != "" {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/pause-dry-run.golden", r.out)
	if a := decodeOrder(t, execute(t.Context(), f.parts(), "pause", "-c", file, "--dry-run", "-o", "json")); !a.DryRun {
		t.Errorf("%+v", a)
	}
	for answer, code := range map[string]int{"n\n": 2, "\n": 2, "": 2, "yes\n": 0, "Y\n": 0} {
		f := commanded()
		var out, errOut bytes.Buffer
		s := &shell{parts: f.parts(), in: strings.NewReader(answer), out: &out, errOut: &errOut, interactive: true}
		got := s.execute(t.Context(), []string{"klink", "pause", "-c", file})
		if got != code || len(f.commands) != 1-min(code, 1) || !strings.Contains(errOut.String(), "to be paused") || !strings.Contains(errOut.String(), "Go on? [y/N]") {
			t.Errorf("%q: %d, %v, %s%s", answer, got, f.commands, &out, &errOut)
		}
	}
	if len(f.commands) != 0 {
		t.Errorf("%+v", f.commands)
	}
}

func TestOrderUsage(t *testing.T) {
	f := commanded()
	file := configFile(t, "", "east")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":       {[]string{"--yes"}, 2, "needs to know the target"},
		"two links":     {[]string{"--yes", "-c", configFile(t, "", "east", "west")}, 2, "choose with --link one of east, west"},
		"format":        {[]string{"--yes", "-c", file, "-o", "xml"}, 2, "allowed: table, json"},
		"no such topic": {[]string{"--yes", "-c", file, "ordres"}, 1, `no topic "ordres" is mirrored (did you mean orders?)`},
	} {
		if r := execute(t.Context(), f.parts(), append([]string{"pause"}, c.args...)...); r.code != c.code || !strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
