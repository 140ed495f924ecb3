package describe

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/intent"
)

// switched is a promotion of the topic orders, the way home, and what is not
// asked for often.
func switched(t testing.TB) func(context.Context, *control.Store) {
	return func(ctx context.Context, s *control.Store) {
		orders(t)(ctx, s)
		for i, c := range []intent.Command{
			{Verb: intent.Adopt, Topics: []string{"orders"}},
			{Verb: intent.Pend, Topics: []string{"orders"}, Switch: "5157", Wait: 30 * time.Second},
			{Verb: intent.Promote, Topics: []string{"orders"}, Switch: "5157", Fence: 1, By: "ann@host-1"},
			{Verb: intent.Reverse, Topics: []string{"orders"}, Next: "home"},
			{Verb: intent.Accept, Group: "billing"},
			{Verb: intent.Retry, Topics: []string{"other"}, Partitions: []int32{3}},
			{Verb: intent.Pause},
		} {
			c.Link, c.Number, c.ID, c.At = "east", int32(i+1), "00", at
			must(t, s.PutCommand(ctx, c))
		}
		must(t, s.PutAck(ctx, control.AckRecord{Link: "east", Topic: "orders", Worker: "w", Number: 3, At: at, Partitions: []control.Acked{{Partition: 0, End: 140, Wrote: true}}}))
		must(t, s.PutAck(ctx, control.AckRecord{Link: "east", Worker: "w", Number: 3, At: at}))
		must(t, s.PutCut(ctx, control.CutRecord{Link: "east", Topic: "orders", Switch: "5157", SourceID: srcID, TargetID: dstID, At: at, Partitions: []control.CutPartition{
			{Partition: 0, TargetEnd: 140, SourceEnd: ptr(int64(141)), SourceSeenAt: at, FenceOffset: ptr(int64(140))},
			{Partition: 1, TargetEnd: feed.Unknown, Unfenced: true}}, Unsettled: true}))
		must(t, s.PutAdopt(ctx, control.AdoptRecord{Link: "east", Topic: "orders", SourceID: srcID, Ends: map[int32]int64{1: 5, 0: 100}, By: "ann@host-1", At: at}))
	}
}

func TestWhatOperatorsWanted(t *testing.T) {
	v := viewOf(t, switched(t))
	l := Describe(reported(t, v), v, TotalsOnly)
	check := func(what string, want, got any) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	check("link", Intent{Want: "paused", Command: ptr(int32(7))}, l.Intent)
	if len(l.Commands) != 7 {
		t.Fatalf("%+v", l.Commands)
	}
	none, partitions := []string{}, []int32{}
	check("pend", Command{Number: 2, Verb: "pend", Topics: []string{"orders"}, Partitions: partitions, Switch: ptr("5157"), WaitSeconds: ptr(30.0), At: at}, l.Commands[1])
	check("promote", Command{Number: 3, Verb: "promote", Topics: []string{"orders"}, Partitions: partitions, Switch: ptr("5157"), Fence: ptr(int16(1)), At: at, By: ptr("ann@host-1")}, l.Commands[2])
	check("accept", Command{Number: 5, Verb: "accept", Topics: none, Partitions: partitions, Group: ptr("billing"), At: at}, l.Commands[4])
	check("retry", Command{Number: 6, Verb: "retry", Topics: []string{"other"}, Partitions: []int32{3}, At: at}, l.Commands[5])
	check("group acks", []Ack{{Worker: "w", Command: 3, At: at, Partitions: []AckedPartition{}}}, l.GroupAcks)

	o := l.Topics[0]
	check("intent", Intent{Want: "stopped", Command: ptr(int32(4)), ReversedInto: ptr("home"), Fence: 1, Again: ptr(int32(1))}, o.Intent)
	check("acks", []Ack{{Worker: "w", Command: 3, At: at, Partitions: []AckedPartition{{0, 140, true}}}}, o.Acks)
	check("cuts", []Cut{{Switch: "5157", At: at, SourceID: ptr(srcID.String()), TargetID: ptr(dstID.String()), Partitions: []CutPartition{
		{Partition: 0, TargetEnd: ptr(int64(140)), SourceEnd: ptr(int64(141)), SourceEndAsOf: &at, FenceOffset: ptr(int64(140))},
		{Partition: 1, Unfenced: true}}, Unsettled: true}}, o.Cuts)
	check("adoption", &Adoption{At: at, By: ptr("ann@host-1"), SourceID: ptr(srcID.String()), Partitions: []AdoptedPartition{{0, 100}, {1, 5}}}, o.Adoption)
}

// Where nothing was ordered lists are empty, and not null.
func TestNothingWasOrdered(t *testing.T) {
	v := viewOf(t, orders(t))
	b, err := json.Marshal(Describe(reported(t, v), v, TotalsOnly))
	must(t, err)
	for _, want := range []string{`"commands":[]`, `"group_acks":[]`, `"acks":[]`, `"cuts":[]`, `"adoption":null`, `"definition":null`,
		`"intent":{"want":"mirror","command":null,"by_link":false,"reversed_into":null,"fence":0,"again":null}`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is missing in %s", want, b)
		}
	}
}
