package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
	"klink/linker/intent"
)

// wantedFixtures are bytes of version 1 of the kinds that say what operators want
// and what came of it, and of a link with its definition. They must decode for
// ever; the file is only added to.
func wantedFixtures(t testing.TB) []stored {
	t.Helper()
	return fixturesOf(t, "testdata/v1-wanted.tsv")
}

var (
	wantAt      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wantDefined = LinkRecord{Link: "east-west", Mode: "mirror", SourceClusterID: "src-id", TargetClusterID: "dst-id",
		KlinkVersion: "0.2.0", AppliedAt: wantAt, Definition: "name: east-west\nmode: mirror\n"}
	wantCommands = []intent.Command{
		{Link: "east-west", Number: 1, ID: "00ff", Verb: intent.Pend, Topics: []string{"a-1-2", "orders"}, Switch: "5157", Wait: 30 * time.Second, At: wantAt, By: "ann@host-1"},
		{Link: "east-west", Number: 2, ID: "01ff", Verb: intent.Promote, Topics: []string{"a-1-2", "orders"}, Fence: 3, Switch: "5157", At: wantAt, By: "ann@host-1"},
		{Link: "east-west", Number: 3, ID: "02ff", Verb: intent.Reverse, Topics: []string{"orders"}, Next: "west-east", At: wantAt},
		{Link: "east-west", Number: 4, ID: "03ff", Verb: intent.Accept, Group: "billing", At: wantAt},
		{Link: "east-west", Number: 5, ID: "04ff", Verb: intent.Retry, Topics: []string{"other"}, Partitions: []int32{3, 1}, At: wantAt},
		{Link: "east-west", Number: 6, ID: "05ff", Verb: intent.Pause, At: wantAt},
	}
	wantAck = AckRecord{Link: "east-west", Topic: "orders", Worker: "host-1-00ff", Number: 1, At: wantAt,
		Partitions: []Acked{{Partition: 0, End: 100, Wrote: true}, {Partition: 3, End: 7}}}
	wantGroupAck = AckRecord{Link: "east-west", Worker: "host-1-00ff", Number: 1, At: wantAt}
	wantCut      = CutRecord{Link: "east-west", Topic: "orders", Switch: "5157", SourceID: seqID(0), TargetID: seqID(16), TargetTopic: "dr.orders", At: wantAt,
		Partitions: []CutPartition{
			{Partition: 0, TargetEnd: 100, SourceEnd: ptr[int64](100), SourceSeenAt: wantAt, FenceOffset: ptr[int64](100)},
			{Partition: 3, TargetEnd: 7}, {Partition: 4, TargetEnd: feed.Unknown, Unfenced: true}}}
	wantUnsettled = CutRecord{Link: "east-west", Topic: "other", Switch: "5158", SourceID: seqID(0), TargetID: seqID(16), TargetTopic: "dr.other", At: wantAt.Add(time.Second),
		Partitions: []CutPartition{{Partition: 0, TargetEnd: 100}}, Unsettled: true}
	wantGroup = GroupRecord{Link: "east-west", Group: "bill <ing> ü", At: wantAt, Offsets: []GroupOffset{
		{Topic: "dr.orders", Partition: 0, Previous: 5, Written: 100, SourceOffset: 100, At: wantAt},
		{Topic: "dr.orders", Partition: 3, Previous: feed.Unknown, Written: 7, SourceOffset: 9, At: wantAt}}}
	wantAdopt = AdoptRecord{Link: "east-west", Topic: "orders", SourceID: seqID(0), Ends: map[int32]int64{0: 100, 3: 7}, By: "ann@host-1", At: wantAt}
)

func TestVersion1OfTheWantedStillDecodes(t *testing.T) {
	v := viewOf(t, wantedFixtures(t)...)
	if p := v.Problems(); p.Malformed != 0 {
		t.Fatalf("%d malformed, last %v", p.Malformed, p.LastErr)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	link, _ := v.Link("east-west")
	check("link", link, wantDefined)
	check("commands", v.Commands("east-west"), wantCommands)
	check("acks", v.Acks("east-west", "orders"), []AckRecord{wantAck})
	check("group acks", v.Acks("east-west", ""), []AckRecord{wantGroupAck})
	check("cuts", v.Cuts("east-west", "5157"), []CutRecord{wantCut})
	check("an unsettled cut", v.Cuts("east-west", "5158"), []CutRecord{wantUnsettled})
	check("all cuts", v.Cuts("east-west", ""), []CutRecord{wantCut, wantUnsettled})
	check("cuts of another switch", v.Cuts("east-west", "57"), []CutRecord(nil))
	check("groups", v.Groups("east-west"), []GroupRecord{wantGroup})
	adopt, _ := v.Adopt("east-west", "orders")
	check("adoption", adopt, wantAdopt)

	now := v.Intents("east-west")
	if i := now.Of("orders"); !i.Reversed() || i.Cause.Next != "west-east" || i.Fence != 3 {
		t.Errorf("orders: %+v", i)
	}
	if i := now.Of("other"); !i.PausedByLink() || i.Again != 5 || now.Next() != 7 {
		t.Errorf("other: %+v, next %d", i, now.Next())
	}
}

func TestVersion1OfTheWantedIsWrittenToTheByte(t *testing.T) {
	var b batch
	b.add(encodeLink(wantDefined))
	for i, c := range wantCommands {
		try := 0
		if i == 1 {
			try = 1
		}
		b.add(encodeCommand(c, try))
	}
	b.add(encodeAck(wantAck))
	b.add(encodeAck(wantGroupAck))
	b = append(b, encodeCut(wantCut)...)
	b = append(b, encodeGroup(wantGroup, 0)...)
	b.add(encodeAdopt(wantAdopt))
	b = append(b, encodeCut(wantUnsettled)...)
	if d := cmp.Diff(wantedFixtures(t), storedOf(t, b), cmp.AllowUnexported(stored{})); d != "" {
		t.Errorf("(-stored +written):\n%s", d)
	}
}

// storedOf is what a batch puts into the log; a deletion has an empty value.
func storedOf(t testing.TB, b batch) []stored {
	t.Helper()
	var out []stored
	for _, e := range b {
		kb, err := e.key.encode()
		if err != nil {
			t.Fatal(err)
		}
		var vb []byte
		if e.value != nil {
			if vb, err = json.Marshal(e.value); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, stored{string(kb), string(vb)})
	}
	return out
}

// C4: of every kind alike.
func TestNewerVersionOfAnyKindIsRefused(t *testing.T) {
	for kind, version := range versions {
		key := Key{Kind: kind, Link: "l"}
		kb, err := key.encode()
		must(t, err)
		err = newView().apply(0, time.Now(), kb, fmt.Appendf(nil, `{"version":%d}`, version+1))
		var newer *NewerError
		if !errors.Is(err, ErrNewer) || !errors.As(err, &newer) || newer.Kind != kind || newer.Version != version+1 {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

func TestMalformedRecordsOfTheWanted(t *testing.T) {
	for name, r := range map[string]stored{
		"unknown verb":          {`{"kind":"command","link":"l","number":1,"id":"a"}`, `{"version":1,"verb":"freeze","topics":["t"]}`},
		"command number 0":      {`{"kind":"command","link":"l","id":"a"}`, `{"version":1,"verb":"pause"}`},
		"command without id":    {`{"kind":"command","link":"l","number":1}`, `{"version":1,"verb":"pause"}`},
		"failover of no topic":  {`{"kind":"command","link":"l","number":1,"id":"a"}`, `{"version":1,"verb":"failover","fence":1,"switch":"s"}`},
		"fence too high":        {`{"kind":"command","link":"l","number":1,"id":"a"}`, `{"version":1,"verb":"failover","topics":["t"],"fence":40000,"switch":"s"}`},
		"ack of nobody":         {`{"kind":"ack","link":"l","topic":"t","number":1}`, `{"version":1}`},
		"ack of nothing":        {`{"kind":"ack","link":"l","topic":"t","worker":"w"}`, `{"version":1}`},
		"cut without a switch":  {`{"kind":"cut","link":"l","topic":"t"}`, `{"version":1,"parts":1}`},
		"cut in no parts":       {`{"kind":"cut","link":"l","topic":"t","switch":"s"}`, `{"version":1}`},
		"cut of a bad id":       {`{"kind":"cut","link":"l","topic":"t","switch":"s"}`, `{"version":1,"parts":1,"target_id":"77"}`},
		"group in a wild part":  {`{"kind":"group","link":"l","part":1000000,"group":"g"}`, `{"version":1}`},
		"group below part 0":    {`{"kind":"group","link":"l","part":-1,"group":"g"}`, `{"version":1}`},
		"adoption below 0":      {`{"kind":"adopt","link":"l","topic":"t"}`, `{"version":1,"ends":{"0":-5}}`},
		"adoption of no number": {`{"kind":"adopt","link":"l","topic":"t"}`, `{"version":1,"ends":{"x":5}}`},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t, r)
			if v.Problems().Malformed != 1 {
				t.Errorf("problems %+v", v.Problems())
			}
			if len(v.Commands("l"))+len(v.Acks("l", "t"))+len(v.Cuts("l", ""))+len(v.Groups("l")) > 0 || v.Intents("l").Next() != 1 {
				t.Error("it counts")
			}
		})
	}
}

func TestWorkersAcks(t *testing.T) {
	ack := func(worker string, number int32) AckRecord {
		return AckRecord{Link: "l", Topic: "t", Worker: worker, Number: number, Partitions: []Acked{{Partition: number}}}
	}
	var b batch
	for _, r := range []AckRecord{ack("v", 3), ack("w", 5), ack("w", 4), {Link: "l", Worker: "w", Number: 9}} {
		b.add(encodeAck(r))
	}
	v := viewOf(t, storedOf(t, b)...)
	if d := cmp.Diff([]AckRecord{ack("v", 3), ack("w", 5)}, v.Acks("l", "t"), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if got := len(v.olderAcks(ack("u", 5))); got != 2 {
		t.Errorf("%d acknowledgements are older than 5", got)
	}
}

// Two promotions of different topics at once: the word of one worker about the
// groups of both stays, until nobody waits for it.
func TestAcksAboutGroups(t *testing.T) {
	ack := func(number int32) AckRecord { return AckRecord{Link: "l", Worker: "w", Number: number, At: wantAt} }
	var b batch
	for n, topic := range []string{"t", "u", "x"} {
		b.add(encodeCommand(command(int32(n+1), "a", intent.Pend, topic), 0))
		b.add(encodeAck(ack(int32(n + 1))))
	}
	b.add(encodeCommand(command(4, "a", intent.Resume, "t"), 0))
	v := viewOf(t, storedOf(t, b)...)
	if d := cmp.Diff([]AckRecord{ack(3), ack(2), ack(1)}, v.Acks("l", "")); d != "" {
		t.Error(d)
	}
	if got := v.olderAcks(ack(3)); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("superseded are %v", got)
	}
}

func cutOf(partitions int32) CutRecord {
	r := CutRecord{Link: "l", Topic: strings.Repeat("t", 249), Switch: "s", SourceID: seqID(0), TargetID: seqID(1), TargetTopic: strings.Repeat("t", 249), At: wantAt}
	for n := range partitions {
		r.Partitions = append(r.Partitions, CutPartition{Partition: n, TargetEnd: 1<<62 + int64(n), SourceEnd: ptr(int64(1<<62) + int64(n)),
			SourceSeenAt: wantAt.Add(time.Nanosecond), FenceOffset: ptr(int64(1<<62) + int64(n)), Unfenced: true})
	}
	return r
}

func TestCutOfManyPartitions(t *testing.T) {
	r := cutOf(2*partitionsPerPart + 1)
	records := storedOf(t, encodeCut(r))
	if len(records) != 3 {
		t.Fatalf("%d records", len(records))
	}
	for n := range records {
		if size := len(records[n].key) + len(records[n].value); size > 500_000 {
			t.Errorf("record %d has %d bytes", n, size)
		}
		// A crash on the way shows nothing rather than half.
		if got := viewOf(t, records[:n]...).Cuts("l", "s"); len(got) != 0 {
			t.Errorf("%d of 3 records show a cut of %d partitions", n, len(got[0].Partitions))
		}
	}
	v := viewOf(t, records...)
	if d := cmp.Diff([]CutRecord{r}, v.Cuts("l", "s")); d != "" {
		t.Error(d)
	}
	// Half settled is unsettled.
	pending := r
	pending.Unsettled = true
	settled := append(storedOf(t, encodeCut(pending)), records...)
	for n := range settled[:len(settled)-1] {
		if got := viewOf(t, settled[:n+1]...).Cuts("l", "s"); len(got) > 0 && !got[0].Unsettled {
			t.Errorf("settled by %d of %d records", n+1, len(settled))
		}
	}
	if got := viewOf(t, settled...).Cuts("l", "s"); len(got) != 1 || got[0].Unsettled {
		t.Errorf("%d cuts, not settled", len(got))
	}
	// Made again it takes the place of the first one.
	again := r
	again.Partitions = r.Partitions[:3]
	v = viewOf(t, append(records, storedOf(t, encodeCut(again))...)...)
	if got := v.Cuts("l", ""); len(got) != 1 || len(got[0].Partitions) != 3 {
		t.Errorf("%d partitions", len(got[0].Partitions))
	}
}

func groupOf(offsets int, written int64) GroupRecord {
	return groupIn(fmt.Sprintf("%0246d", 0), offsets, written)
}

// groupIn is groupOf in topics whose names begin with a prefix.
func groupIn(prefix string, offsets int, written int64) GroupRecord {
	r := GroupRecord{Link: "l", Group: "g", At: wantAt}
	for n := range offsets {
		r.Offsets = append(r.Offsets, GroupOffset{Topic: fmt.Sprintf("%s%03d", prefix, n/10), Partition: int32(n % 10),
			Previous: written - 1, Written: written, SourceOffset: 1<<62 + int64(n), At: wantAt.Add(time.Nanosecond)})
	}
	return r
}

func TestGroupOfManyPartitions(t *testing.T) {
	for _, n := range []int{0, 1, offsetsPerPart, offsetsPerPart + 1, 4_000} {
		r := groupOf(n, 7)
		records := storedOf(t, encodeGroup(r, 0))
		for _, s := range records {
			if size := len(s.key) + len(s.value); size > 500_000 {
				t.Errorf("%d offsets: a record of %d bytes", n, size)
			}
		}
		got, ok := viewOf(t, records...).Group("l", "g")
		if d := cmp.Diff(r, got, cmpopts.EquateEmpty()); d != "" || !ok {
			t.Errorf("%d offsets: %s", n, d)
		}
	}
}

// A crash between any two records of a group leaves no partition that is in the
// old and in the new state without one of the two.
func TestGroupIsNeverHalfKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, offsetsPerPart, offsetsPerPart + 1, 3 * offsetsPerPart})
		before, after := groupIn("t", size.Draw(t, "before"), 7), groupIn("t", size.Draw(t, "after"), 8)
		v := newView()
		offset := int64(0)
		write := func(b batch) {
			for _, e := range b {
				kb, _ := e.key.encode()
				var vb []byte
				if e.value != nil {
					vb, _ = json.Marshal(e.value)
				}
				if err := v.apply(offset, wantAt, kb, vb); err != nil {
					t.Fatal(err)
				}
				offset++
			}
		}
		write(encodeGroup(before, 0))
		second := encodeGroup(after, v.groupEnd(groupKey{"l", "g"}))
		write(second[:rapid.IntRange(0, len(second)).Draw(t, "crash")])
		got, _ := v.Group("l", "g")
		both := min(len(before.Offsets), len(after.Offsets))
		if len(got.Offsets) < both {
			t.Fatalf("%d of %d are known", len(got.Offsets), both)
		}
		for n, o := range got.Offsets[:both] {
			if o.SourceOffset != 1<<62+int64(n) || o.Written != 7 && o.Written != 8 {
				t.Fatalf("number %d is %+v", n, o)
			}
		}
		write(encodeGroup(after, v.groupEnd(groupKey{"l", "g"})))
		got, _ = v.Group("l", "g")
		if !slices.Equal(after.Offsets, got.Offsets) {
			t.Fatalf("%d offsets became %d, or others", len(after.Offsets), len(got.Offsets))
		}
	})
}

func TestUnknownIsNotStoredAsAnOffset(t *testing.T) {
	for _, r := range storedOf(t, append(encodeCut(CutRecord{Link: "l", Topic: "t", Switch: "s", Partitions: []CutPartition{{TargetEnd: feed.Unknown}}}),
		encodeGroup(GroupRecord{Link: "l", Group: "g", Offsets: []GroupOffset{{Topic: "t", Previous: feed.Unknown, Written: feed.Unknown, SourceOffset: feed.Unknown}}}, 0)...)) {
		if strings.Contains(r.value, "-1") || strings.Contains(r.value, "offset") || strings.Contains(r.value, "end") {
			t.Errorf("%s", r.value)
		}
	}
}
