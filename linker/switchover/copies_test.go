package switchover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/translate/exact"
)

// copiesOf makes a map of runs whose records follow each other.
func copiesOf(t testing.TB, src int64, runs ...exact.Run) *exact.Map {
	t.Helper()
	m, err := exact.FromRuns(runs, src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// drifted: source offsets 10 to 29 at 100 to 119, 40 to 49 at 130 to 139; offsets up
// to 52 were looked at.
func drifted(t testing.TB) *exact.Map {
	return copiesOf(t, 52, exact.Run{Src: 10, Dst: 100, Count: 20}, exact.Run{Src: 40, Dst: 130, Count: 10, Seq: 20})
}

type fixedCopies struct {
	m   *exact.Map
	err error
}

func (c fixedCopies) Copies(context.Context, CopiedPartition) (*exact.Map, error) {
	if c.m == nil {
		return nil, c.err
	}
	return c.m.Clone(), c.err
}

// X8.
func TestNumbersOfADriftedPartition(t *testing.T) {
	seen := time.Unix(1000, 0).UTC()
	unseen := 0.0
	full := sight{stable: at(60), high: at(60), at: seen}
	for _, c := range []struct {
		name string
		in   facts
		want Partition
		end  int64
	}{
		{"others wrote behind", facts{ends: appender.Ends{LogEnd: 500}, fenceAt: feed.Unknown},
			Partition{TargetEnd: at(500), LastMirrored: at(49), RecordsLost: at(8)}, 140},
		{"a fence behind others", facts{ends: appender.Ends{LogEnd: 501}, fenced: true, fenceAt: 500},
			Partition{TargetEnd: at(501), LastMirrored: at(49), RecordsLost: at(8), Fenced: true, FenceOffset: at(500)}, 140},
		{"a tail was planned and never written", facts{ends: appender.Ends{LogEnd: 135}, fenceAt: feed.Unknown},
			Partition{TargetEnd: at(135), LastMirrored: at(44), RecordsLost: at(15)}, 135},
		{"cut between two runs", facts{ends: appender.Ends{LogEnd: 125}, fenceAt: feed.Unknown},
			Partition{TargetEnd: at(125), LastMirrored: at(29), RecordsLost: at(20)}, 120},
		{"nothing is left", facts{ends: appender.Ends{LogEnd: 90}, fenceAt: feed.Unknown},
			Partition{TargetEnd: at(90), RecordsLost: at(50)}, 0},
		{"the worker's word", facts{ends: appender.Ends{LogEnd: 500}, fenceAt: feed.Unknown, word: at(140)},
			Partition{TargetEnd: at(500), LastMirrored: at(49), RecordsLost: at(8)}, 140},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(Options{Copies: fixedCopies{m: drifted(t)}})
			c.in.seen, c.in.of = full, seen
			f := &fate{part: part{m: &mirror{TopicRecord: control.TopicRecord{TargetID: feed.TopicID{1}}}}, facts: c.in}
			s.addCopies(t.Context(), f)
			c.want.SourceEnd, c.want.SourceEndAsOf, c.want.UnseenSeconds, c.want.OpenRecords = at(60), &seen, &unseen, at(0)
			if d := cmp.Diff(c.want, f.facts.numbers()); d != "" {
				t.Error(d)
			}
			if got := f.facts.mirrored(); got != c.end {
				t.Errorf("the mirror ends at %d, want %d", got, c.end)
			}
		})
	}
}

func TestAMapThatCannotBeRead(t *testing.T) {
	s := New(Options{Copies: fixedCopies{err: errCut}})
	f := &fate{part: part{m: &mirror{TopicRecord: control.TopicRecord{TargetID: feed.TopicID{1}}}},
		facts: facts{ends: appender.Ends{LogEnd: 5}, fenceAt: feed.Unknown, seen: sight{stable: at(9)}}}
	s.addCopies(t.Context(), f)
	if p := f.facts.numbers(); p.RecordsLost != nil || p.LastMirrored != nil || p.TargetEnd != nil || p.Detail == "" {
		t.Errorf("%+v", p)
	}
}

func TestGroupsOfADriftedPartition(t *testing.T) {
	now := time.Unix(100, 0)
	age := 0.0
	place := feed.Partition{Topic: "a.s"}
	in := groupInput{now: now, parts: map[feed.Partition]groupPart{
		place: {source: feed.Partition{Topic: "s"}, start: 0, mirrored: 140, copies: drifted(t), samples: &samples{}}}}
	for _, c := range []struct {
		name           string
		source, target int64
		read           int64
		// again is what the group has read of it on the source; sampled how much more
		// MirrorMaker 2 would give it, whose syncs here are those of source offsets 10,
		// 40 and 49.
		again, sampled int64
		reason         string
	}{
		{"the very next record", 45, 135, 5, 0, 4, ""},
		{"in a gap of the source", 35, 130, 10, 0, 19, ""},
		{"at the end", 52, 140, 0, 0, 0, ""},
		{"foreign records are not counted", 20, 110, 20, 0, 9, ""},
		{"the mirror is behind", 80, 140, 0, 0, 0, groupClamped},
		{"not raised yet", 45, 131, 9, 4, 4, groupClamped},
	} {
		t.Run(c.name, func(t *testing.T) {
			in.records = []control.GroupRecord{{Group: "g", Offsets: []control.GroupOffset{
				{Topic: "a.s", Previous: feed.Unknown, Written: c.target, SourceOffset: c.source, At: now}}}}
			in.committed = map[string]map[feed.Partition]int64{"g": {place: c.target}}
			want := GroupPartition{SourceTopic: "s", SourceOffset: &c.source, TargetOffset: &c.target, AgeSeconds: &age, RecordsToRead: &c.read, RecordsReadAgain: &c.again, RecordsReadAgainMM2: &c.sampled, Reason: c.reason}
			if d := cmp.Diff(want, groupNumbers(in)[0].Partitions[0]); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWhatADriftedPartitionLacks(t *testing.T) {
	for _, c := range []struct {
		end, high int64
		want      string
	}{
		{52, 500, ""},
		{60, 500, "8 records behind the source"},
		{51, 500, "offsets up to 51 were copied, beyond the source's end 51"},
		{52, 139, "offsets 139 to 139 of the target are not on all replicas yet"},
	} {
		f := &fate{facts: facts{ends: appender.Ends{LogEnd: 500, HighWatermark: c.high}, copies: drifted(t)}}
		if got := f.lacksCopies(c.end); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestTheFenceNoteSaysWhatItMeans(t *testing.T) {
	drifting, mirrored := &fate{}, &fate{}
	drifting.facts.copies = drifted(t)
	if fenceNote([]*fate{drifting}) != noteFence || fenceNote([]*fate{drifting, mirrored}) != noteWayHome {
		t.Error("the way home is told of where there is none, or is not")
	}
}

// unreadable is a topic of maps that may not be read.
type unreadable struct{}

func (unreadable) Copies(context.Context, CopiedPartition) (*exact.Map, error) {
	return nil, errors.New("missing right")
}

// A topic that is on record in mirror mode is switched over without its link's
// having a right on the topic of maps.
func TestMirrorModeAsksForNoMap(t *testing.T) {
	for _, c := range []struct {
		link, topic control.TopicMode
		asks        bool
	}{
		{control.ModeMirror, "", false},
		{control.ModeMirror, control.ModeCheckpoint, true},
		{control.ModeCheckpoint, "", true},
		{control.ModeCheckpoint, control.ModeMirror, false},
		{"", "", true},
	} {
		kept := keepsOffsets(control.TopicRecord{Mode: c.topic}, control.LinkRecord{Mode: string(c.link)})
		f := &fate{part: part{m: &mirror{TopicRecord: control.TopicRecord{TargetID: feed.TopicID{1}}, keepsOffsets: kept}}}
		if _, err := (&Switch{o: Options{Copies: unreadable{}}}).copies(t.Context(), f); (err != nil) != c.asks {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
