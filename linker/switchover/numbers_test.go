package switchover

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/state"
)

func at(n int64) *int64 { return &n }

func TestNumbersOfAPartition(t *testing.T) {
	seen := time.Unix(1000, 0).UTC()
	now := seen.Add(90 * time.Second)
	unseen := 90.0
	full := sight{stable: at(100), high: at(105), at: seen}
	ends := appender.Ends{LogEnd: 90}
	for _, c := range []struct {
		name string
		in   facts
		want Partition
	}{
		{"some are lost", facts{ends: ends, fenceAt: feed.Unknown, seen: full},
			Partition{TargetEnd: at(90), LastMirrored: at(89), SourceEnd: at(100), SourceEndAsOf: &seen, RecordsLost: at(10), UnseenSeconds: &unseen, OpenRecords: at(5)}},
		{"a fence is no record", facts{ends: ends, fenced: true, fenceAt: 88, seen: full},
			Partition{TargetEnd: at(90), LastMirrored: at(87), SourceEnd: at(100), SourceEndAsOf: &seen, RecordsLost: at(12), UnseenSeconds: &unseen, OpenRecords: at(5), Fenced: true, FenceOffset: at(88)}},
		{"a fence somewhere", facts{ends: ends, fenced: true, fenceAt: feed.Unknown, seen: full},
			Partition{TargetEnd: at(90), SourceEnd: at(100), SourceEndAsOf: &seen, UnseenSeconds: &unseen, OpenRecords: at(5), Fenced: true}},
		{"nothing is lost", facts{ends: appender.Ends{LogEnd: 100}, fenceAt: feed.Unknown, seen: full},
			Partition{TargetEnd: at(100), LastMirrored: at(99), SourceEnd: at(100), SourceEndAsOf: &seen, RecordsLost: at(0), UnseenSeconds: &unseen, OpenRecords: at(5)}},
		{"the source was never seen", facts{ends: ends, fenceAt: feed.Unknown, seen: sight{at: seen}},
			Partition{TargetEnd: at(90), LastMirrored: at(89)}},
		{"the target does not answer", facts{ends: appender.Ends{LogEnd: -1, Err: errCut}, fenceAt: feed.Unknown, seen: full},
			Partition{SourceEnd: at(100), SourceEndAsOf: &seen, UnseenSeconds: &unseen, OpenRecords: at(5), Detail: "its end cannot be read: connection cut"}},
		{"empty", facts{ends: appender.Ends{}, fenceAt: feed.Unknown, seen: full},
			Partition{TargetEnd: at(0), SourceEnd: at(100), SourceEndAsOf: &seen, RecordsLost: at(100), UnseenSeconds: &unseen, OpenRecords: at(5)}},
		{"padded alone", facts{ends: ends, goal: 90, fenceAt: feed.Unknown, seen: full},
			Partition{TargetEnd: at(90), SourceEnd: at(100), SourceEndAsOf: &seen, RecordsLost: at(10), UnseenSeconds: &unseen, OpenRecords: at(5),
				Detail: "consumers can read padding below offset 90"}},
		{"transactions", facts{ends: ends, fenceAt: feed.Unknown, seen: full, transactions: true},
			Partition{TargetEnd: at(90), LastMirrored: at(89), SourceEnd: at(100), SourceEndAsOf: &seen, RecordsLost: at(10), UnseenSeconds: &unseen, OpenRecords: at(5),
				Detail: "the mirror may end inside a transaction, of which the target then shows a part"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.of = now
			if d := cmp.Diff(c.want, c.in.numbers()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTheNewestSightCounts: a worker that stopped may report less than before.
func TestTheNewestSightCounts(t *testing.T) {
	early, late := time.Unix(10, 0), time.Unix(20, 0)
	old := sight{stable: at(5), high: at(6), at: early, targetEnd: at(4)}
	if got := old.newest(sight{stable: at(9), at: late, targetEnd: at(9)}); *got.stable != 9 || got.at != late {
		t.Errorf("got %+v", got)
	}
	if got := old.newest(sight{at: late, state: state.Halted}); *got.stable != 5 || got.at != early || *got.targetEnd != 4 || got.state != state.Halted {
		t.Errorf("got %+v", got)
	}
}

// TestSumsAreUnknownWithOneUnknown.
func TestSumsAreUnknownWithOneUnknown(t *testing.T) {
	sec := 2.0
	r := Result{Topics: []Topic{{OK: true, Partitions: []Partition{{RecordsLost: at(3), UnseenSeconds: &sec}, {RecordsLost: at(4), UnseenSeconds: &sec}}}, {}}}
	r.tally()
	if *r.RecordsLost != 7 || *r.UnseenSeconds != 2 || r.Failed != 1 {
		t.Errorf("got %+v", r)
	}
	r.Topics[0].Partitions[0].RecordsLost, r.Topics[0].Partitions[1].UnseenSeconds = nil, nil
	r.tally()
	if r.RecordsLost != nil || r.UnseenSeconds != nil {
		t.Errorf("got %+v", r)
	}
}

func TestNumbersOfGroups(t *testing.T) {
	now := time.Unix(100, 0)
	t0 := feed.Partition{Topic: "t", Partition: 0}
	in := groupInput{now: now,
		parts: map[feed.Partition]groupPart{t0: {source: feed.Partition{Topic: "s", Partition: 0}, start: 10, mirrored: 50}}}
	offset := control.GroupOffset{Topic: "t", Previous: 20, Written: 30, SourceOffset: 30, At: now.Add(-250 * time.Millisecond)}
	age := 0.25
	for _, c := range []struct {
		name      string
		committed map[feed.Partition]int64
		asked     bool
		change    func(*control.GroupOffset)
		want      GroupPartition
	}{
		{"synced", map[feed.Partition]int64{t0: 30}, true, nil,
			GroupPartition{SourceOffset: at(30), TargetOffset: at(30), RecordsToRead: at(20), RecordsReadAgain: at(0)}},
		{"clamped", map[feed.Partition]int64{t0: 30}, true, func(o *control.GroupOffset) { o.SourceOffset = 44 },
			GroupPartition{SourceOffset: at(44), TargetOffset: at(30), RecordsToRead: at(20), RecordsReadAgain: at(14), Reason: groupClamped}},
		{"below the start", map[feed.Partition]int64{t0: 5}, true, func(o *control.GroupOffset) { o.Written, o.SourceOffset = 5, 5 },
			GroupPartition{SourceOffset: at(5), TargetOffset: at(5), RecordsToRead: at(40), RecordsReadAgain: at(0), Reason: groupBelow}},
		{"somebody else's", map[feed.Partition]int64{t0: 41}, true, nil,
			GroupPartition{SourceOffset: at(30), TargetOffset: at(41), RecordsToRead: at(9), RecordsReadAgain: at(0), Reason: groupOwned}},
		{"not committed", nil, true, nil,
			GroupPartition{SourceOffset: at(30), Reason: groupNone}},
		{"not asked", nil, false, nil,
			GroupPartition{SourceOffset: at(30), TargetOffset: at(30), RecordsToRead: at(20), RecordsReadAgain: at(0), Reason: groupUnasked}},
		{"at the end", map[feed.Partition]int64{t0: 60}, true, func(o *control.GroupOffset) { o.Written, o.SourceOffset = 60, 60 },
			GroupPartition{SourceOffset: at(60), TargetOffset: at(60), RecordsToRead: at(0), RecordsReadAgain: at(0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := offset
			if c.change != nil {
				c.change(&o)
			}
			in.records = []control.GroupRecord{{Group: "g", Offsets: []control.GroupOffset{o, {Topic: "elsewhere"}}}}
			in.committed = map[string]map[feed.Partition]int64{}
			if c.asked {
				in.committed["g"] = c.committed
			}
			got := groupNumbers(in)
			c.want.SourceTopic, c.want.AgeSeconds = "s", &age
			if len(got) != 1 || len(got[0].Partitions) != 1 {
				t.Fatalf("got %+v", got)
			}
			if d := cmp.Diff(c.want, got[0].Partitions[0]); d != "" {
				t.Error(d)
			}
			if (got[0].State == groupAllSynced) != (c.want.Reason == "") || got[0].Reason != c.want.Reason {
				t.Errorf("group %+v", got[0])
			}
		})
	}
}

func TestTheFirstFenceIsFound(t *testing.T) {
	bs := [][]byte{header(5, 9, entry{}), header(6, 9, entry{marker: true}), header(7, 8, entry{marker: true, epoch: 2}),
		header(8, 9, entry{epoch: 2}), header(9, 9, entry{marker: true, epoch: 2}), header(10, 9, entry{marker: true, epoch: 2})}
	if got := scanFences(bs, 9, 1); got != (scanned{fence: 9, next: 11}) {
		t.Errorf("got %+v", got)
	}
	if got := scanFences(bs[:4], 9, 3); got != (scanned{fence: feed.Unknown, next: 9}) {
		t.Errorf("got %+v", got)
	}
}

// TestTheResultIsTheContract holds the names that scripts rely on.
func TestTheResultIsTheContract(t *testing.T) {
	r := Result{Topics: []Topic{{Partitions: []Partition{{}}}}, Groups: []Group{{Partitions: []GroupPartition{{}}}}}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`link switch dry_run as_of topics source_topic target_topic state ok reason detail hint partitions
		partition target_end last_mirrored source_end source_end_as_of records_lost unseen_seconds open_records fenced fence_offset
		groups group source_offset target_offset age_seconds records_to_read records_read_again records_read_again_mm2 failed`) {
		if !strings.Contains(string(b), `"`+name+`":`) {
			t.Errorf("%s is missing in %s", name, b)
		}
	}
	if !strings.Contains(string(b), `"records_lost":null`) {
		t.Errorf("unknown is not null: %s", b)
	}
}
