package reverse

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/ledger"
)

func (r Result) topic(t testing.TB, name string) Topic {
	t.Helper()
	i := slices.IndexFunc(r.Topics, func(x Topic) bool { return x.SourceTopic == name })
	if i < 0 {
		t.Fatalf("no topic %s in %+v", name, r.Topics)
	}
	return r.Topics[i]
}

// requireVerdict fails the test unless a topic has the verdict.
func (r Result) requireVerdict(t testing.TB, name string, want Verdict) Topic {
	t.Helper()
	x := r.topic(t, name)
	if x.Verdict != want {
		t.Fatalf("%s is %s (%s), want %s", name, x.Verdict, x.Detail, want)
	}
	return x
}

// startStopped is a stopped link with a topic of two partitions that are equal.
func startStopped(t testing.TB, names ...string) *pairing {
	t.Helper()
	p := startPairing(t, 2, names...)
	for _, n := range names {
		p.both(t, n, 0, 0, "a", "b", "c")
		p.both(t, n, 1, 0, "d")
	}
	stop(t, p.dst, p.name, "s1", 2, names...)
	return p
}

func TestReverseInPlace(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders", "compacted")
	p.dst.write(t, target("orders"), 0, 3, "new")
	p.src.commit(t, "g", "orders", 0, 2)
	p.src.commit(t, "g", "compacted", 1, 1)
	p.src.commit(t, "left-out", "orders", 0, 1)
	file := filepath.Join(t.TempDir(), "back.yaml")

	dry, err := p.reverser().Check(t.Context(), Request{Link: "east", Write: file})
	must(t, err)
	if !dry.DryRun || dry.Failed != 0 || dry.Next != "east-back" || !slices.Equal(dry.Groups, []Group{{"g", 2}}) {
		t.Errorf("%+v", dry)
	}
	if _, err := control.Read(t.Context(), p.src.admin); err == nil {
		t.Fatal("a check made the control topic on the old source")
	}
	res, err := p.reverser().Do(t.Context(), Request{Link: "east", Write: file})
	must(t, err)
	for _, n := range []string{"orders", "compacted"} {
		x := res.requireVerdict(t, n, InPlace)
		if !x.OK || x.Recreate || x.TailRecords != 0 || len(x.Partitions) != 2 || x.Partitions[0].Equal != 3 || *x.Partitions[0].CutEnd != 3 {
			t.Errorf("%+v", x)
		}
	}
	text, err := os.ReadFile(file)
	must(t, err)
	if res.Written != file || string(text) != res.Definition || !strings.Contains(res.Definition, "name: east-back") {
		t.Errorf("%q, %q", res.Written, text)
	}
	p.requireTurned(t, 0)

	again, err := p.reverser().Do(t.Context(), Request{Link: "east", Write: file})
	must(t, err)
	if x := again.requireVerdict(t, "orders", Reversed); !x.OK || again.Definition != res.Definition || again.Failed != 0 {
		t.Errorf("%+v", again)
	}
	p.requireTurned(t, 0)
}

// requireTurned checks all records of a link that was turned around in place.
func (p *pairing) requireTurned(t testing.TB, generation int32) {
	t.Helper()
	v := p.src.view(t)
	l, ok := v.Link("east-back")
	if !ok || l.SourceClusterID != "B" || l.TargetClusterID != "A" || !strings.Contains(l.Definition, "name: east-back") || strings.Contains(l.Definition, "links:") {
		t.Errorf("link %+v", l)
	}
	for n, id := range p.srcID {
		r, _ := v.Topic("east-back", target(n))
		want := control.TopicRecord{Link: "east-back", SourceTopic: target(n), SourceID: p.dstID[n], TargetTopic: n, TargetID: id,
			Partitions: 2, Generation: generation, Compacted: n == "compacted"}
		if diff := cmp.Diff(want, r, cmp.Comparer(func(a, b control.Configs) bool { return a == b })); diff != "" {
			t.Errorf("%s: %s", n, diff)
		}
		a, _ := v.Adopt("east-back", target(n))
		if diff := cmp.Diff(map[int32]int64{0: 3, 1: 1}, a.Ends); diff != "" || a.SourceID != p.dstID[n] || a.By != "me@here" {
			t.Errorf("%+v, %s", a, diff)
		}
		led, ok := v.Ledger("east-back", target(n), 0)
		if ok != (n == "compacted") || ok && (led.Index.End != 3 || !led.Synced.As.Equal(cutAt) || led.Synced.End != 3) {
			t.Errorf("%s: ledger %+v, %v", n, led, ok)
		}
	}
	g, _ := v.Group("east-back", "g")
	want := []control.GroupOffset{{Topic: "compacted", Partition: 1, Previous: 1, Written: 1, SourceOffset: feed.Unknown},
		{Topic: "orders", Partition: 0, Previous: 2, Written: 2, SourceOffset: feed.Unknown}}
	if diff := cmp.Diff(want, g.Offsets); diff != "" {
		t.Error(diff)
	}
	if _, ok := v.Group("east-back", "left-out"); ok {
		t.Error("a group that is not selected is on record")
	}
	i := p.dst.view(t).Intents("east").Of("orders")
	if !i.Reversed() || i.Cause.Next != "east-back" || i.Fence != 1 {
		t.Errorf("%+v", i)
	}
}

// TestH3_EndedBetweenAnyTwoSteps: the old link is STOPPED and has no successor, and
// the same request again finishes it.
func TestH3_EndedBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for _, at := range []step{stepLink, stepTopics, stepGroups, stepEnds, stepDelete, stepAdopt, stepTurn} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			p := startStopped(t, "orders", "compacted")
			p.src.commit(t, "g", "orders", 0, 2)
			p.src.commit(t, "g", "compacted", 1, 1)
			r := p.reverser()
			r.before = func(s step) error {
				if s == at {
					return crash
				}
				return nil
			}
			if _, err := r.Do(t.Context(), Request{Link: "east"}); !errors.Is(err, crash) {
				t.Fatalf("ended with %v", err)
			}
			if i := p.dst.view(t).Intents("east").Of("orders"); i.Want != intent.Stopped || i.Reversed() {
				t.Fatalf("%+v", i)
			}
			res, err := p.reverser().Do(t.Context(), Request{Link: "east"})
			must(t, err)
			if res.Failed != 0 {
				t.Fatalf("%+v", res)
			}
			v, _ := p.src.view(t).Topic("east-back", target("orders"))
			p.requireTurned(t, v.Generation)
		})
	}
}

// TestH2_OldSourceIsStillWritten: before it is looked at again, and while.
func TestH2_OldSourceIsStillWritten(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders")
	r := p.reverser()
	r.before = func(s step) error {
		if s == stepEnds {
			p.src.write(t, "orders", 0, 3, "late")
		}
		return nil
	}
	res, err := r.Do(t.Context(), Request{Link: "east"})
	must(t, err)
	if x := res.requireVerdict(t, "orders", StillWritten); x.OK || res.Failed != 1 || !res.Loses() {
		t.Errorf("%+v", x)
	}
	if p.dst.view(t).Intents("east").Of("orders").Reversed() {
		t.Error("it was turned around all the same")
	}
	res, err = p.reverser().Do(t.Context(), Request{Link: "east"})
	must(t, err)
	res.requireVerdict(t, "orders", HasTail)
}

func TestTailNeedsRecreate(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders", "invoices")
	p.src.write(t, "orders", 0, 3, "lost-1", "lost-2")
	p.src.write(t, "orders", 1, 1, "lost-3")
	p.dst.write(t, target("orders"), 0, 3, "other")

	res, err := p.reverser().Do(t.Context(), Request{Link: "east"})
	must(t, err)
	x := res.requireVerdict(t, "orders", HasTail)
	when := func(offset int64) time.Time { return time.UnixMilli(1_700_000_000_000 + 1000*offset).UTC() }
	if want := (Tail{Records: 2, From: 3, End: 5, FirstAt: when(3), LastAt: when(4)}); *x.Partitions[0].Tail != want {
		t.Errorf("%+v, want %+v", *x.Partitions[0].Tail, want)
	}
	if x.OK || x.TailRecords != 3 || res.Failed != 1 || !res.Loses() || !strings.Contains(x.Hint, "--recreate") {
		t.Errorf("%+v", x)
	}
	res.requireVerdict(t, "invoices", InPlace)
	if _, err := control.Read(t.Context(), p.src.admin); err == nil {
		t.Fatal("something was written although a topic stands in the way")
	}

	res, err = p.reverser().Do(t.Context(), Request{Link: "east", Recreate: true})
	must(t, err)
	if x := res.requireVerdict(t, "orders", HasTail); !x.OK || !x.Recreate || x.TailRecords != 3 || res.Failed != 0 {
		t.Errorf("%+v", x)
	}
	there, err := p.src.adm.ListTopics(t.Context())
	must(t, err)
	if there.Has("orders") || !there.Has("invoices") {
		t.Errorf("on the old source are %v", there.Names())
	}
	v := p.src.view(t)
	r, _ := v.Topic("east-back", target("orders"))
	if a, _ := v.Adopt("east-back", target("orders")); !r.TargetID.IsZero() || len(a.Ends) != 0 {
		t.Errorf("%+v, %+v", r, a)
	}
	if r, _ := v.Topic("east-back", target("invoices")); r.TargetID != p.srcID["invoices"] {
		t.Errorf("%+v", r)
	}
}

// TestH6_ThereAndBackAgain: the way home of the way home has the first name, the
// next generation, and what it had on record.
func TestH6_ThereAndBackAgain(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders", "compacted")
	_, err := p.reverser().Do(t.Context(), Request{Link: "east"})
	must(t, err)
	stop(t, p.src, "east-back", "s2", 2, target("orders"), target("compacted"))
	s, end := p.dst.opened(t)
	must(t, s.PutGroup(t.Context(), control.GroupRecord{Link: "east", Group: "g", Offsets: []control.GroupOffset{{Topic: "elsewhere", Written: 7, Previous: 5, SourceOffset: 7}}}))
	var x ledger.Index
	x.Add(ledger.Range{From: 0, End: 1, Reason: ledger.Aborted})
	must(t, s.PutLedger(t.Context(), control.LedgerRecord{Link: "east", Topic: "orders", SourceID: p.srcID["orders"], Partition: 1, TargetID: p.dstID["orders"], Index: x.Encode()}))
	end()
	p.dst.commit(t, "g", target("orders"), 0, 3)

	back := New(Options{Source: p.dst.side, Target: p.src.side, Groups: func(string) bool { return true }, Version: "v", By: "me@here",
		Now: func() time.Time { return cutAt.Add(2 * time.Hour) }})
	for name, c := range map[string]struct {
		next string
		want Verdict
	}{"another name": {"west", Owned}} {
		res, err := back.Check(t.Context(), Request{Link: "east-back", Next: c.next})
		must(t, err)
		if x := res.requireVerdict(t, target("orders"), c.want); x.OK {
			t.Errorf("%s: %+v", name, x)
		}
	}
	// Ended before the old link names it: a klink of the new one may have begun.
	crash := errors.New("crash")
	back.before = func(s step) error {
		if s == stepTurn {
			return crash
		}
		return nil
	}
	if _, err := back.Do(t.Context(), Request{Link: "east-back"}); !errors.Is(err, crash) {
		t.Fatalf("ended with %v", err)
	}
	back.before = func(step) error { return nil }
	p.dst.write(t, target("orders"), 0, 3, "begun")
	res, err := back.Do(t.Context(), Request{Link: "east-back"})
	must(t, err)
	if x := res.requireVerdict(t, target("orders"), Begun); res.Next != "east" || res.Failed != 0 || !x.OK {
		t.Fatalf("%+v", res)
	}
	v := p.dst.view(t)
	r, _ := v.Topic("east", "orders")
	if r.Generation != 5 || r.SourceID != p.srcID["orders"] || r.TargetID != p.dstID["orders"] || r.TargetTopic != target("orders") {
		t.Errorf("%+v", r)
	}
	if i := v.Intents("east").Of("orders"); i.Want != intent.Mirror || i.Again == 0 {
		t.Errorf("%+v", i)
	}
	if l, _ := v.Ledger("east", "orders", 1); l.Index.End != 1 || len(l.Index.Windows) != 1 {
		t.Errorf("%+v", l)
	}
	g, _ := v.Group("east", "g")
	want := []control.GroupOffset{{Topic: "elsewhere", Written: 7, Previous: 5, SourceOffset: 7},
		{Topic: target("orders"), Previous: 3, Written: 3, SourceOffset: feed.Unknown}}
	if diff := cmp.Diff(want, g.Offsets); diff != "" {
		t.Error(diff)
	}
	if i := p.src.view(t).Intents("east-back").Of(target("orders")); !i.Reversed() || i.Cause.Next != "east" {
		t.Errorf("%+v", i)
	}
	if !strings.Contains(res.Definition, "m-orders") || !strings.Contains(res.Definition, "name: east\n") {
		t.Error(res.Definition)
	}
}

// TestWhatStandsInTheWay: nothing is written, and the verdict says what it is.
func TestWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(t *testing.T, p *pairing)
		req  Request
		want Verdict
		// recreated: with --recreate it goes.
		recreated bool
	}{
		"resumed": {do: func(t *testing.T, p *pairing) {
			s, end := p.dst.opened(t)
			defer end()
			must(t, s.PutCommand(t.Context(), intent.Command{Link: "east", Number: s.Intents("east").Next(), ID: "7", Verb: intent.Recreate, Topics: []string{"orders"}}))
		}, want: NotStopped},
		"in checkpoint mode": {do: func(t *testing.T, p *pairing) {
			s, end := p.dst.opened(t)
			defer end()
			r, _ := s.Topic("east", "orders")
			r.Mode = control.ModeCheckpoint
			must(t, s.PutTopic(t.Context(), r))
		}, want: OffsetsDrift},
		"unknown": {req: Request{Topics: []string{"none"}}, want: UnknownTopic},
		"a target of another link": {do: func(t *testing.T, p *pairing) {
			s, end := p.src.opened(t)
			defer end()
			must(t, s.PutLink(t.Context(), control.LinkRecord{Link: "other"}))
			must(t, s.PutTopic(t.Context(), control.TopicRecord{Link: "other", SourceTopic: "x", TargetTopic: "orders", SourceID: feed.TopicID{1}}))
		}, want: Owned},
		"a name of other clusters": {do: func(t *testing.T, p *pairing) {
			s, end := p.src.opened(t)
			defer end()
			must(t, s.PutLink(t.Context(), control.LinkRecord{Link: "east-back", SourceClusterID: "C", TargetClusterID: "A"}))
		}, want: NameTaken},
		"a name that was stopped there": {do: func(t *testing.T, p *pairing) {
			s, end := p.src.opened(t)
			defer end()
			must(t, s.PutCommand(t.Context(), intent.Command{Link: "east-back", Number: 1, ID: "7", Verb: intent.Failover, Topics: []string{target("orders")}, Fence: 1, Switch: "s"}))
		}, want: NameTaken},
		"the promoted topic is gone": {do: func(t *testing.T, p *pairing) {
			must(t, deleteTopic(t.Context(), p.dst.admin, target("orders"), p.dstID["orders"]))
		}, want: TargetRecreated},
		"the old topic was made anew": {do: func(t *testing.T, p *pairing) {
			must(t, deleteTopic(t.Context(), p.src.admin, "orders", p.srcID["orders"]))
			p.src.create(t, "orders", 2)
		}, want: SourceRecreated, recreated: true},
		"the old topic is gone": {do: func(t *testing.T, p *pairing) {
			must(t, deleteTopic(t.Context(), p.src.admin, "orders", p.srcID["orders"]))
		}, want: FromStart, recreated: true},
		"more partitions": {do: func(t *testing.T, p *pairing) {
			p.src.grow(t, "orders")
		}, want: MorePartitions, recreated: true},
		"more partitions, with records": {do: func(t *testing.T, p *pairing) {
			p.src.grow(t, "orders")
			p.src.write(t, "orders", 2, 0, "x")
		}, want: HasTail, recreated: true},
		"more partitions on the promoted side": {do: func(t *testing.T, p *pairing) {
			p.dst.grow(t, target("orders"))
			p.dst.write(t, target("orders"), 2, 0, "x")
		}, want: InPlace, recreated: true},
		"an accepted range": {do: func(t *testing.T, p *pairing) {
			s, end := p.dst.opened(t)
			defer end()
			var x ledger.Index
			x.Add(ledger.Range{From: 1, End: 2, Reason: ledger.Retention})
			must(t, s.PutLedger(t.Context(), control.LedgerRecord{Link: "east", Topic: "orders", SourceID: p.srcID["orders"], TargetID: p.dstID["orders"], Index: x.Encode()}))
		}, want: AcceptedRange, recreated: true},
		"an open transaction": {do: func(t *testing.T, p *pairing) {
			cl := p.src.client(kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			must(t, cl.BeginTransaction())
			must(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
		}, want: Undecided},
		"an aborted one": {do: func(t *testing.T, p *pairing) {
			cl := p.src.client(kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			must(t, cl.BeginTransaction())
			must(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
			must(t, cl.EndTransaction(t.Context(), kgo.TryAbort))
		}, want: OffsetsTaken, recreated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startStopped(t, "orders")
			if c.do != nil {
				c.do(t, p)
			}
			c.req.Link = "east"
			want := c.want
			topic := "orders"
			if len(c.req.Topics) > 0 {
				topic = c.req.Topics[0]
			}
			res, err := p.reverser().Check(t.Context(), c.req)
			must(t, err)
			x := res.requireVerdict(t, topic, want)
			if x.OK != want.about().ok || !x.OK && (x.Hint == "" || x.Detail == "") || (res.Failed == 0) != x.OK {
				t.Errorf("%+v", x)
			}
			c.req.Recreate = true
			res, err = p.reverser().Do(t.Context(), c.req)
			must(t, err)
			if x := res.topic(t, topic); x.OK != c.recreated {
				t.Errorf("with recreate: %+v", x)
			}
			if got := p.dst.view(t).Intents("east").Of("orders").Reversed(); got != c.recreated {
				t.Errorf("reversed: %v", got)
			}
		})
	}
}

func TestFileIsNeverWrittenOver(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders")
	file := filepath.Join(t.TempDir(), "east.yaml")
	must(t, os.WriteFile(file, []byte("mine"), 0o600))
	for _, do := range []func() (Result, error){
		func() (Result, error) { return p.reverser().Check(t.Context(), Request{Link: "east", Write: file}) },
		func() (Result, error) { return p.reverser().Do(t.Context(), Request{Link: "east", Write: file}) },
	} {
		if _, err := do(); !errors.Is(err, ErrFile) {
			t.Errorf("ended with %v", err)
		}
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" || p.dst.view(t).Intents("east").Of("orders").Reversed() {
		t.Errorf("%q", text)
	}
	if err := WriteFile(filepath.Join(file, "below"), "x"); !errors.Is(err, ErrFile) {
		t.Errorf("%v", err)
	}
	// A file that could not be written is known before anything is done.
	folder := filepath.Dir(file)
	for _, do := range []func(string) (Result, error){
		func(f string) (Result, error) {
			return p.reverser().Check(t.Context(), Request{Link: "east", Write: f})
		},
		func(f string) (Result, error) { return p.reverser().Do(t.Context(), Request{Link: "east", Write: f}) },
	} {
		if _, err := do(filepath.Join(folder, "missing", "east.yaml")); !errors.Is(err, ErrFile) {
			t.Errorf("ended with %v", err)
		}
	}
	if p.dst.view(t).Intents("east").Of("orders").Reversed() {
		t.Error("turned around, and there is no file")
	}
	if there, err := os.ReadDir(folder); err != nil || len(there) != 1 {
		t.Errorf("left behind: %v %v", there, err)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders")
	for name, c := range map[string]struct {
		req  Request
		want error
	}{
		"no link":       {Request{}, ErrRequest},
		"unknown link":  {Request{Link: "west"}, ErrUnknownLink},
		"the same name": {Request{Link: "east", Next: "east"}, ErrRequest},
		"a bad name":    {Request{Link: "east", Next: "East"}, ErrRequest},
		"no mapping":    {Request{Link: "east", Definition: "- 1"}, ErrRequest},
		"no YAML":       {Request{Link: "east", Definition: "{"}, ErrRequest},
		"another link":  {Request{Link: "east", Definition: "links: [{name: x}]"}, ErrRequest},
		"no source":     {Request{Link: "east", Definition: "name: east"}, ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := p.reverser().Check(t.Context(), c.req); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
		})
	}
	same := New(Options{Source: p.dst.side, Target: p.dst.side})
	if _, err := same.Check(t.Context(), Request{Link: "east"}); !errors.Is(err, ErrRequest) {
		t.Errorf("one cluster on both sides: %v", err)
	}
}

// TestOffsetsDrift: without the same offsets there is no way home.
func TestOffsetsDrift(t *testing.T) {
	t.Parallel()
	p := startStopped(t, "orders")
	s, end := p.dst.opened(t)
	must(t, s.PutLink(t.Context(), control.LinkRecord{Link: "east", Mode: "checkpoint", SourceClusterID: "A", TargetClusterID: "B"}))
	end()
	if _, err := p.reverser().Check(t.Context(), Request{Link: "east"}); !errors.Is(err, ErrOffsetsDrift) {
		t.Errorf("ended with %v", err)
	}
}

func TestNames(t *testing.T) {
	for link, want := range map[string]string{"east": "east-back", "east-back": "east", "a-back-back": "a-back", "-back": "-back-back", "backs": "backs-back"} {
		if got := NextName(link); got != want {
			t.Errorf("%s: %s, want %s", link, got, want)
		}
	}
}
