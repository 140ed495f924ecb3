package control

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/intent"
	"klink/linker/ledger"
	"klink/linker/state"
)

func TestCatchUpSeesWhatOthersWrote(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	a, b := open(t, newClient(t, c)), open(t, newClient(t, c))
	must(t, b.CatchUp(ctx)) // of an empty log
	for n := range 50 {
		want := fmt.Sprint(n)
		must(t, a.PutLink(ctx, LinkRecord{Link: "l", Mode: want}))
		must(t, b.CatchUp(ctx))
		if r, _ := b.Link("l"); r.Mode != want {
			t.Fatalf("mode %q is read after %q was written", r.Mode, want)
		}
	}
}

func TestCatchUpOutlastsAnOutage(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	down := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: 3})
	must(t, s.CatchUp(ctx))
	if down.Hits() != 3 {
		t.Errorf("%d looks failed", down.Hits())
	}
	down = c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.OffsetNotAvailable, Count: -1})
	short, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	var f *Fault
	if err := s.CatchUp(short); !errors.As(err, &f) {
		t.Errorf("got %v", err)
	}
	down.Remove()
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if err := s.CatchUp(ctx); !errors.As(err, &f) || f.Reason != state.NoPermission {
		t.Errorf("got %v", err)
	}
}

func TestChangedTellsOfEveryChange(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	a, b := open(t, newClient(t, c)), open(t, newClient(t, c))
	for name, put := range map[string]func() error{
		"a record":      func() error { return a.PutLink(ctx, wantLink) },
		"a command":     func() error { return a.PutCommand(ctx, command(a.Intents("l").Next(), "a", intent.Pause, "t")) },
		"a deletion":    func() error { return a.DropWorker(ctx, "l", "w") },
		"an own record": func() error { return b.PutAck(ctx, AckRecord{Link: "l", Topic: "t", Worker: "w", Number: 1}) },
	} {
		if name == "a deletion" {
			must(t, a.PutWorker(ctx, WorkerRecord{Link: "l", Worker: "w"}))
			must(t, b.CatchUp(ctx))
		}
		changed := b.Changed()
		must(t, put())
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s was not told of", name)
		}
	}
	must(t, b.CatchUp(ctx))
	changed := b.Changed()
	must(t, newClient(t, c).ProduceSync(ctx, &kgo.Record{Topic: TopicName, Key: []byte("garbage"), Value: []byte("garbage")}).FirstErr())
	must(t, b.CatchUp(ctx))
	select {
	case <-changed:
		t.Error("what cannot be read is no change")
	default:
	}
}

func TestAcksOfEarlierCommandsGo(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	a, b := open(t, newClient(t, c)), open(t, newClient(t, c))
	ack := func(worker, topic string, number int32) AckRecord {
		return AckRecord{Link: "l", Topic: topic, Worker: worker, Number: number, Partitions: []Acked{{Partition: 1, End: 5, Wrote: true}}, At: wantAt}
	}
	must(t, a.PutAcks(ctx, []AckRecord{ack("a", "t", 3), ack("a", "u", 3)}))
	must(t, b.PutAck(ctx, ack("b", "t", 3)))
	must(t, b.CatchUp(ctx))
	if d := cmp.Diff([]AckRecord{ack("a", "t", 3), ack("b", "t", 3)}, b.Acks("l", "t")); d != "" {
		t.Error(d)
	}
	must(t, b.PutAck(ctx, ack("b", "t", 4)))
	eventually(t, "the old ones gone", func() bool {
		return cmp.Equal(a.Acks("l", "t"), []AckRecord{ack("b", "t", 4)}) && cmp.Equal(a.Acks("l", "u"), []AckRecord{ack("a", "u", 3)})
	})
}

func TestCutsGroupsAndAdoptionsAreReadBack(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	second := wantCut
	second.Topic, second.Partitions = "payments", nil
	must(t, s.PutCut(ctx, wantCut))
	must(t, s.PutCuts(ctx, []CutRecord{second, cutOf(1200)}))
	large := groupOf(3000, 5)
	must(t, s.PutGroup(ctx, wantGroup))
	must(t, s.PutGroups(ctx, []GroupRecord{large, {Link: "l", Group: "gone", At: wantAt}}))
	must(t, s.DropGroup(ctx, "l", "gone"))
	must(t, s.PutAdopt(ctx, wantAdopt))
	check := func(s interface {
		Cuts(string, string) []CutRecord
		Groups(string) []GroupRecord
		Group(string, string) (GroupRecord, bool)
		Adopt(string, string) (AdoptRecord, bool)
	}) {
		t.Helper()
		if d := cmp.Diff([]CutRecord{wantCut, second}, s.Cuts("east-west", "5157")); d != "" {
			t.Error(d)
		}
		if got := s.Cuts("l", ""); len(got) != 1 || len(got[0].Partitions) != 1200 {
			t.Errorf("%d cuts", len(got))
		}
		if d := cmp.Diff([]GroupRecord{large}, s.Groups("l")); d != "" {
			t.Error(d)
		}
		if got, ok := s.Group("east-west", wantGroup.Group); !ok || !cmp.Equal(got, wantGroup) {
			t.Errorf("%+v", got)
		}
		if got, ok := s.Adopt("east-west", "orders"); !ok || !cmp.Equal(got, wantAdopt) {
			t.Errorf("%+v", got)
		}
	}
	check(s)
	v, err := Read(ctx, newClient(t, c))
	must(t, err)
	check(v)

	// A group that shrinks leaves no pieces behind.
	small := groupOf(2, 6)
	must(t, s.PutGroup(ctx, small))
	v, err = Read(ctx, newClient(t, c))
	must(t, err)
	if got, _ := v.Group("l", "g"); !cmp.Equal(got, small) || v.groupEnd(groupKey{"l", "g"}) != 1 {
		t.Errorf("%d offsets in %d pieces", len(got.Offsets), v.groupEnd(groupKey{"l", "g"}))
	}
}

// fill puts something of every kind that has a topic on record.
func fill(t testing.TB, s *Store, link, topic string) {
	t.Helper()
	ctx := testContext(t)
	r := topicRecord(link, topic, link+"."+topic)
	must(t, s.PutTopic(ctx, r))
	must(t, s.PutEpoch(ctx, EpochRecord{Link: link, Topic: topic, SourceID: r.SourceID, Epoch: Epoch{3, 4}}))
	must(t, s.PutState(ctx, StateRecord{Link: link, AsOf: wantAt, Topic: state.Topic{SourceTopic: topic, State: state.Active}}))
	must(t, s.PutPad(ctx, PadRecord{Link: link, Topic: topic, SourceID: r.SourceID, TargetID: r.TargetID, Goal: 3, Reason: ledger.Padded}))
	must(t, s.PutLedger(ctx, LedgerRecord{Link: link, Topic: topic, SourceID: r.SourceID, TargetID: r.TargetID, Index: wantLedger.Index}))
	_, err := s.ReserveCounters(ctx, CounterRequest{Link: link, Topic: topic, SourceID: r.SourceID, Owner: "w", Count: 5, Above: -1})
	must(t, err)
	must(t, s.PutCommand(ctx, intent.Command{Link: link, Number: s.Intents(link).Next(), ID: "x", Verb: intent.Remove, Topics: []string{topic}}))
	must(t, s.PutAck(ctx, AckRecord{Link: link, Topic: topic, Worker: "w", Number: 1}))
	must(t, s.PutCut(ctx, CutRecord{Link: link, Topic: topic, Switch: "s"}))
	must(t, s.PutAdopt(ctx, AdoptRecord{Link: link, Topic: topic}))
	must(t, s.PutAudit(ctx, AuditRecord{Link: link, Topic: topic}))
}

// topicKinds are the kinds whose keys hold a topic.
const topicKinds = 10

func TestDropTopicLeavesNothingOfIt(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s, other := open(t, newClient(t, c)), open(t, newClient(t, c))
	fill(t, other.Store, "l", "t")
	fill(t, other.Store, "l", "u")
	fill(t, other.Store, "m", "t")
	must(t, other.PutGroup(ctx, groupOf(1, 1)))
	must(t, newClient(t, c).ProduceSync(ctx, &kgo.Record{Topic: TopicName,
		Key: []byte(`{"kind":"later","link":"l","topic":"t","from":3}`), Value: []byte(`{"version":1}`)}).FirstErr())
	must(t, s.DropTopic(ctx, "l", "t"))
	v, err := Read(ctx, newClient(t, c))
	must(t, err)
	count := func(link, topic string) int {
		return len(v.keys(func(k Key) bool { return k.Link == link && k.Topic == topic }))
	}
	if count("l", "t") != 0 || count("l", "u") != topicKinds || count("m", "t") != topicKinds {
		t.Errorf("left are %d, of the other topic %d, of the other link %d", count("l", "t"), count("l", "u"), count("m", "t"))
	}
	if v.Intents("l").Of("t").Want != intent.Removed || len(v.Groups("l")) != 1 || len(v.States("l")) != 1 {
		t.Error("what operators want of it, or what is the link's, is gone")
	}
	if err := s.DropTopic(ctx, "l", ""); err == nil {
		t.Error("no topic is the whole link")
	}

	must(t, s.PutLink(ctx, LinkRecord{Link: "l"}))
	must(t, s.PutWorker(ctx, WorkerRecord{Link: "l", Worker: "w"}))
	must(t, s.DropLink(ctx, "l"))
	if v, err = Read(ctx, newClient(t, c)); err != nil {
		t.Fatal(err)
	}
	if left := v.keys(func(k Key) bool { return k.Link == "l" }); len(left) != 0 || count("m", "t") != topicKinds {
		t.Errorf("left are %v", left)
	}
	if _, known := v.LinkReport("l"); known {
		t.Error("the link is reported still")
	}
	if v.Intents("l").Next() != 1 || s.Intents("l").Next() != 1 {
		t.Error("the numbers go on")
	}
	must(t, s.DropLink(ctx, "l"))
	if err := s.DropLink(ctx, ""); err == nil {
		t.Error("no link was named")
	}
}

// A crash on the way leaves the link's record and its commands to the end.
func TestWhatOthersRestOnIsDroppedLast(t *testing.T) {
	v := viewOf(t, append(fixtures(t), wantedFixtures(t)...)...)
	var order []Kind
	for _, k := range v.keys(func(Key) bool { return true }) {
		if len(order) == 0 || order[len(order)-1] != k.Kind {
			order = append(order, k.Kind)
		}
	}
	if n := len(order); n < 4 || !cmp.Equal(order[n-3:], []Kind{KindTopic, KindCommand, KindLink}) {
		t.Errorf("%v", order)
	}
}
