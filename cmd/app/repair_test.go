package app

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"klink/cmd/config"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/state"
)

// goOn is a klink that mirrors again what a command is about.
func goOn(f *fakeConsole, c intent.Command) {
	for i, t := range f.link.Topics {
		if !slices.Contains(c.Topics, t.SourceTopic) {
			continue
		}
		t.Partitions = slices.Clone(t.Partitions)
		for j := range t.Partitions {
			t.Partitions[j].State, t.Partitions[j].Reason = state.CatchingUp, ""
		}
		f.link.Topics[i] = t
		f.link.Topics[i].State = state.CatchingUp
	}
}

func TestRemove(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded(intent.Command{Verb: intent.Pause, Topics: []string{"payments.eu"}})
	f.link.Topics[1].State = state.Paused
	f.notes = map[string][]string{"payments.eu": {"retention.ms=7 stays: somebody set it"}}
	r := execute(t.Context(), f.parts(), "remove", "orders", "payments.eu", "-c", file, "--yes")
	if r.code != 0 || f.last().Verb != intent.Remove || r.err != "" {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/remove.golden", r.out)
	golden(t, "testdata/help-remove.golden", execute(t.Context(), Parts{}, "remove", "--help").out)
	if diff := cmp.Diff([]string{"forget orders", "forget payments.eu"}, f.did); diff != "" {
		t.Error(diff)
	}
	r = execute(t.Context(), commanded().parts(), "remove", "-c", file, "--dry-run")
	if r.code != 0 || !strings.Contains(r.out, "while it is HALTED") {
		t.Errorf("%+v", r)
	}
}

// A link goes only with all its topics, and while nobody runs it.
func TestRemoveLink(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	r := execute(t.Context(), f.parts(), "remove", "-c", file, "--yes")
	if r.code != 1 || !strings.Contains(r.err, "a klink runs on the link") || slices.Contains(f.did, "forget the link") {
		t.Errorf("%+v, %v", r, f.did)
	}
	f.workers = 0
	if r = execute(t.Context(), f.parts(), "remove", "-c", file, "--yes"); r.code != 0 || f.did[len(f.did)-1] != "forget the link" {
		t.Errorf("%+v, %v", r, f.did)
	}
	f = commanded()
	f.workers, f.failing = 0, map[string]error{"forget orders": errors.New("alter configs: no answer")}
	r = execute(t.Context(), f.parts(), "remove", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || a.Failed != 1 || a.Topics[0].Reason != reasonFailed || slices.Contains(f.did, "forget the link") {
		t.Errorf("%+v, %v", r, f.did)
	}
	// What nobody confirmed may be written to still, and stays on record.
	f = commanded()
	f.obeys = nil
	if r = execute(t.Context(), f.parts(), "remove", "orders", "-c", file, "--yes", "--timeout", "5ms"); r.code != 1 || len(f.did) != 0 {
		t.Errorf("%+v, %v", r, f.did)
	}
	empty := commanded()
	empty.link.Topics, empty.workers = nil, 0
	if r = execute(t.Context(), empty.parts(), "remove", "-c", file, "--yes"); r.code != 0 || len(empty.commands) != 0 || len(empty.did) != 1 {
		t.Errorf("%+v, %v", r, empty.did)
	}
}

func TestRepairRetry(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	f.obeys = goOn
	r := execute(t.Context(), f.parts(), "repair", "--retry", "-c", file, "--yes")
	if c := f.last(); r.code != 0 || c.Verb != intent.Retry || !slices.Equal(c.Topics, []string{"orders"}) || len(c.Partitions) != 0 {
		t.Errorf("%+v, %+v", r, c)
	}
	golden(t, "testdata/repair-retry.golden", r.out)
	golden(t, "testdata/help-repair.golden", execute(t.Context(), Parts{}, "repair", "--help").out)

	f = commanded() // it halts still
	f.obeys = nil
	r = execute(t.Context(), f.parts(), "repair", "--retry", "orders", "--partition", "2", "-c", file, "--yes", "--timeout", "5ms", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || a.Command != "repair" || a.Topics[0].Reason != "DIVERGED" || a.Topics[0].Detail != "orders/2 is HALTED: records differ at offset 7" || a.Topics[0].Hint != "compare both logs" || !slices.Equal(f.last().Partitions, []int32{2}) {
		t.Errorf("%+v", r)
	}
	f = commanded()
	r = execute(t.Context(), f.parts(), "repair", "--retry", "orders", "--partition", "1", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 0 || len(f.commands) != 0 || a.Topics[0].Detail != "is not halted, as last recorded" {
		t.Errorf("%+v", r)
	}
}

func TestRepairRecreate(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded(intent.Command{Verb: intent.Failover, Topics: []string{"orders"}, Fence: 1, Switch: "s"})
	for i := range f.link.Topics[0].Partitions {
		p := &f.link.Topics[0].Partitions[i]
		p.TargetStart, p.TargetEnd, p.State = ptr(int64(10)), ptr(int64(1_000)), state.Stopped
	}
	f.mirrors = map[string]control.TopicRecord{"orders": {TargetID: feed.TopicID{1}}}
	f.obeys = func(f *fakeConsole, c intent.Command) {
		goOn(f, c)
		f.mirrors["orders"] = control.TopicRecord{TargetID: feed.TopicID{2}}
	}
	r := execute(t.Context(), f.parts(), "repair", "--recreate", "orders", "-c", file, "--dry-run")
	if r.code != 0 || len(f.did) != 0 {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/repair-recreate.golden", r.out)
	r = execute(t.Context(), f.parts(), "repair", "--recreate", "orders", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 0 || !a.Topics[0].OK || a.Topics[0].State != state.CatchingUp || f.last().Verb != intent.Recreate || !slices.Equal(f.did, []string{"delete orders"}) {
		t.Errorf("%+v, %v", r, f.did)
	}
	f.obeys = goOn // with the topic of before
	r = execute(t.Context(), f.parts(), "repair", "--recreate", "orders", "-c", file, "--yes", "-o", "json", "--timeout", "5ms")
	if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != reasonUnconfirmed {
		t.Errorf("%+v", r)
	}
	for _, untouched := range []bool{false, true} {
		f = commanded()
		f.untouched = map[string]bool{"orders": untouched}
		r = execute(t.Context(), f.parts(), "repair", "--recreate", "orders", "-c", file, "--dry-run", "-o", "json")
		if a := decodeOrder(t, r); strings.Contains(a.Topics[0].Detail, "klink did not write what it holds") != untouched {
			t.Errorf("%+v", r)
		}
	}
	f = commanded()
	f.failing = map[string]error{"deletable orders": errors.New("topic orders has id 0c now")}
	r = execute(t.Context(), f.parts(), "repair", "--recreate", "orders", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != reasonRefused || len(f.commands)+len(f.did) != 0 {
		t.Errorf("%+v, %v", r, f.did)
	}
	f = commanded()
	f.failing = map[string]error{"delete orders": errors.New("topic orders has id 0c now")}
	r = execute(t.Context(), f.parts(), "repair", "--recreate", "orders", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != reasonFailed || a.Topics[0].Detail != "topic orders has id 0c now" {
		t.Errorf("%+v", r)
	}
}

func TestRepairAccept(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	f.link.Topics[0].Partitions[2].TargetEnd = ptr(int64(20))
	f.obeys = func(f *fakeConsole, c intent.Command) {
		goOn(f, c)
		f.accepted = map[feed.Partition]ledger.Range{{Topic: "orders", Partition: 2}: {From: 7, End: 20}}
	}
	r := execute(t.Context(), f.parts(), "repair", "--accept", "orders", "-c", file, "--dry-run")
	if r.code != 0 || len(f.commands) != 0 {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/repair-accept.golden", r.out)
	r = execute(t.Context(), f.parts(), "repair", "--accept", "orders", "--partition", "2", "-c", file, "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 0 || a.Topics[0].Detail != "offsets 7 to 19 of partition 2" || a.Topics[0].State != state.CatchingUp ||
		f.last().Verb != intent.Accept || f.last().Group != "" || !slices.Equal(f.last().Partitions, []int32{2}) {
		t.Errorf("%+v, %+v", r, f.last())
	}
	for name, change := range map[string]func(*fakeConsole){
		"cannot be accepted": func(f *fakeConsole) { f.link.Topics[0].Partitions[2].Reason = string(state.Corrupt) },
		"no klink runs":      func(f *fakeConsole) { f.workers = 0 },
	} {
		f := commanded()
		change(f)
		r := execute(t.Context(), f.parts(), "repair", "--accept", "orders", "-c", file, "--yes", "-o", "json")
		if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != reasonRefused || !strings.Contains(a.Topics[0].Detail, name) || len(f.commands) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestRepairGroup(t *testing.T) {
	file := configFile(t, "", "east")
	f := commanded()
	r := execute(t.Context(), f.parts(), "repair", "--group", "billing", "--accept", "-c", file, "--yes")
	if c := f.last(); r.code != 0 || c.Verb != intent.Accept || c.Group != "billing" || len(c.Topics) != 0 || !strings.Contains(r.out, "group billing") {
		t.Errorf("%+v, %+v", r, c)
	}
	r = execute(t.Context(), f.parts(), "repair", "orders", "--group", "billing", "--accept", "-c", file, "--dry-run", "-o", "json")
	if a := decodeOrder(t, r); r.code != 0 || len(f.commands) != 1 || len(a.Topics) != 1 || !a.DryRun {
		t.Errorf("%+v", r)
	}
	if r = execute(t.Context(), f.parts(), "repair", "--group", "billing", "--accept", "-c", file); r.code != 2 || len(f.commands) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestRepairUsage(t *testing.T) {
	file := configFile(t, "", "east")
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "give one of --retry"}, {"--retry --recreate orders", "give one of --retry"}, {"--retry --group g", "goes with --accept"},
		{"--retry --partition 1", "one topic"}, {"--recreate --partition 1 orders", "one topic"}, {"--accept --group g orders --partition 1", "one topic"},
		{"--recreate", "to be named"}, {"--accept", "to be named"},
	} {
		f := commanded()
		r := execute(t.Context(), f.parts(), append([]string{"repair", "-c", file, "--yes"}, strings.Fields(c.args)...)...)
		if r.code != 2 || !strings.Contains(r.err, c.want) || len(f.commands) != 0 {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}

// lostRecord is a link whose topics klink does not know of any more.
func lostRecord() *fakeConsole {
	f := commanded()
	t := &f.link.Topics[0]
	t.State, t.Reason = state.Halted, string(state.NotAdopted)
	for i := range t.Partitions {
		t.Partitions[i].State, t.Partitions[i].Reason = state.Halted, string(state.NotAdopted)
	}
	klink := appender.ProducerID("SRC", [16]byte{1}, 0, 0)
	f.tails = map[string][]Tail{"orders": {{Partition: 0, End: 100, Producer: klink, Own: true}, {Partition: 1, End: 7, Producer: 4_000},
		{Partition: 2, Start: 9, End: 9, Producer: -1, Epoch: -1}, {Partition: 3, Start: 5, End: 60, Producer: klink, Own: true}}}
	f.obeys = goOn
	return f
}

func TestAdopt(t *testing.T) {
	file := configFile(t, "", "east")
	f := lostRecord()
	r := execute(t.Context(), f.parts(), "adopt", "-c", file, "--dry-run")
	if r.code != 0 || len(f.commands)+len(f.did) != 0 {
		t.Errorf("%+v", r)
	}
	golden(t, "testdata/adopt.golden", r.out)
	golden(t, "testdata/help-adopt.golden", execute(t.Context(), Parts{}, "adopt", "--help").out)
	r = execute(t.Context(), f.parts(), "adopt", "orders", "--target", "t:9092", "--yes", "-o", "json")
	if a := decodeOrder(t, r); r.code != 0 || !a.Topics[0].OK || f.last().Verb != intent.Adopt || !slices.Equal(f.did, []string{"adopt orders up to map[0:100 3:60]"}) {
		t.Errorf("%+v, %v", r, f.did)
	}
}

// What may be somebody else's is not adopted.
func TestAdoptRefuses(t *testing.T) {
	file := configFile(t, "", "east")
	for name, c := range map[string]struct {
		change func(*Tail)
		reason string
	}{
		"fenced":         {func(x *Tail) { x.Epoch = 1 }, "FENCED"},
		"another mirror": {func(x *Tail) { x.Own = false }, reasonRefused},
	} {
		f := lostRecord()
		c.change(&f.tails["orders"][3])
		r := execute(t.Context(), f.parts(), "adopt", "-c", file, "--yes", "-o", "json")
		if a := decodeOrder(t, r); r.code != 1 || a.Topics[0].Reason != c.reason || len(f.did)+len(f.commands) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	f := lostRecord()
	f.failing = map[string]error{"tails orders": errors.New("no answer")}
	if r := execute(t.Context(), f.parts(), "adopt", "-c", file, "--yes", "-o", "json"); r.code != 1 || !strings.Contains(r.out, "no answer") || len(f.commands) != 0 {
		t.Errorf("%+v", r)
	}
}

// A flag --group of repair is no part of a link made of flags.
func TestRepairWithoutAFile(t *testing.T) {
	f := commanded()
	f.link.Name = config.FlagLink
	if r := execute(t.Context(), f.parts(), "repair", "--group", "g", "--accept", "--target", "t:9092", "--yes"); r.code != 0 || f.last().Group != "g" {
		t.Errorf("%+v", r)
	}
}
