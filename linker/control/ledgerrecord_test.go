package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/linker/ledger"
)

func TestLedgerIndex(t *testing.T) {
	c := newCluster(t)
	ctx := testContext(t)
	s := open(t, newClient(t, c))
	topic := topicRecord("l", "t", "t")
	must(t, s.PutTopic(ctx, topic))
	var x ledger.Index
	x.Add(ledger.Range{From: 0, End: 1 << 40, Reason: ledger.Padded})
	for i := int64(1 << 40); i < 1<<40+1000; i += 2 {
		x.Add(ledger.Range{From: i, End: i + 1, Reason: ledger.Marker})
	}
	record := func(partition int32) LedgerRecord {
		return LedgerRecord{Link: "l", Topic: "t", SourceID: topic.SourceID, TargetID: topic.TargetID, Partition: partition,
			Index: x.Encode(), AsOf: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	}
	stale := record(4)
	stale.Synced = ledger.Synced{As: stale.AsOf, End: 7}
	stale.Stale = &ledger.Stale{From: 3, End: 9, Since: stale.AsOf}
	must(t, s.PutLedger(ctx, stale))
	must(t, s.PutLedger(ctx, record(1)))
	must(t, s.stop())

	again := open(t, newClient(t, c))
	if d := cmp.Diff([]LedgerRecord{record(1), stale}, again.Ledgers("l")); d != "" {
		t.Error(d)
	}
	got, ok := again.Ledger("l", "t", 4)
	if !ok || cmp.Diff(stale, got) != "" {
		t.Errorf("%v %+v", ok, got)
	}
	back, err := ledger.Decode(got.Index)
	must(t, err)
	if d := cmp.Diff(x.Totals(), back.Totals()); d != "" {
		t.Error(d)
	}
	must(t, again.DropLedger(ctx, record(1)))
	if got := again.Ledgers("l"); len(got) != 1 || got[0].Partition != 4 {
		t.Errorf("%+v", got)
	}
	// Of a target topic that was made anew nothing is listed yet.
	topic.TargetID = seqID(99)
	must(t, again.PutTopic(ctx, topic))
	if _, ok := again.Ledger("l", "t", 4); ok || len(again.Ledgers("l")) != 0 {
		t.Error("the index of another target topic")
	}
}
