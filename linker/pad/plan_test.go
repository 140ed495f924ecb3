package pad

import (
	"testing"
	"time"

	"klink/linker/ledger"
)

// TestNext has the decisions that whole runs do not show.
func TestNext(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	rec := func(stage Stage, restore string) Record {
		return Record{From: 100, Goal: 120, Reason: ledger.Padded, Stage: stage, RestorePolicy: restore, TrimmedAt: now.Add(-time.Hour)}
	}
	seen := func(start, end int64, policy string, sib Siblings) Seen {
		return Seen{Start: start, HighWatermark: end, End: end, Policy: policy, Siblings: sib, Now: now}
	}
	need := Siblings{NeedPolicy: true, RestorePolicy: "compact"}
	with := func(r Record, edit func(*Record)) Record { edit(&r); return r }
	for name, c := range map[string]struct {
		rec  Record
		seen Seen
		want Step
	}{
		"the policy that siblings have set is theirs": {Record{}, seen(100, 100, "delete", need),
			Step{Kind: Put, Record: Record{From: 100, Goal: 120, Reason: ledger.Padded, Stage: StagePad, RestorePolicy: "compact"}}},
		"a policy that comes late is recorded first (P1)": {rec(StagePad, ""), seen(100, 104, "compact", Siblings{}),
			Step{Kind: Put, Record: rec(StagePad, "compact")}},
		"and changed then": {rec(StagePad, "compact"), seen(100, 104, "compact", Siblings{}), Step{Kind: SetPolicy, Policy: "delete"}},
		"for a trim that came undone as well": {rec(StageTrim, "compact"), seen(100, 130, "compact,delete", Siblings{}),
			Step{Kind: SetPolicy, Policy: "delete"}},
		"a piece ends with its chunk": {rec(StagePad, ""), seen(100, 106, "delete", Siblings{}),
			Step{Kind: Append, Piece: Piece{Base: 106, Count: 2, Timestamp: 1}}},
		"the next chunk has a time of its own": {rec(StagePad, ""), seen(108, 108, "delete", Siblings{}),
			Step{Kind: Append, Piece: Piece{Base: 108, Count: 4, Timestamp: 1 + 7*24*3600*1000 + 1}}},
		"a chunk that is full is trimmed":         {rec(StagePad, ""), seen(100, 108, "delete", Siblings{}), Step{Kind: Trim, To: 108}},
		"what was there before is no pad":         {rec(StagePad, ""), seen(0, 104, "delete", Siblings{}), Step{Kind: Append, Piece: Piece{Base: 104, Count: 4, Timestamp: 1}}},
		"the policy stays while siblings need it": {rec(StageRestore, "compact"), seen(120, 130, "delete", need), Step{Kind: Put, Record: with(rec(StageRestore, "compact"), func(r *Record) { r.Done = true })}},
		"and is put back by the last one":         {rec(StageRestore, "compact"), seen(120, 130, "delete", Siblings{}), Step{Kind: SetPolicy, Policy: "compact"}},
		"unless somebody else set one": {rec(StageRestore, "compact"), seen(120, 130, "compact,delete", Siblings{}),
			Step{Kind: Put, Record: with(rec(StageRestore, "compact"), func(r *Record) { r.Done = true })}},
		"a sibling's word is none of an untouched policy": {rec(StageSettle, ""), seen(120, 130, "delete", need),
			Step{Kind: Put, Record: with(rec(StageSettle, ""), func(r *Record) { r.Done = true })}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Next(padded(120), c.rec, c.seen, quick()); got != c.want {
				t.Errorf("got  %v %+v\nwant %v %+v", got.Kind, got, c.want.Kind, c.want)
			}
		})
	}
}

func TestTimestampsStayOld(t *testing.T) {
	set := DefaultSettings()
	set.SegmentTime = 1000 * 24 * time.Hour
	last := int64(0)
	for chunk := range int64(400) {
		ts := timestamp(chunk, set)
		if ts < last || ts > latestTimestamp || chunk < 11 && ts-last < set.SegmentTime.Milliseconds() && chunk > 0 {
			t.Fatalf("chunk %d has the time %d after %d", chunk, ts, last)
		}
		last = ts
	}
	set.SegmentTime = 1<<63 - 1 // segment.ms may be as large as that
	if ts := timestamp(1_000_000, set); ts != latestTimestamp {
		t.Errorf("time %d", ts)
	}
}
