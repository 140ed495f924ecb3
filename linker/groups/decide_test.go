package groups

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"klink/fetcher/feed"
)

var (
	srcP = feed.Partition{Topic: "orders", Partition: 1}
	dstP = feed.Partition{Topic: "dr.orders", Partition: 1}
)

func TestDecide(t *testing.T) {
	const none = feed.Unknown
	for name, c := range map[string]struct {
		source  int64
		members Members
		have    int64
		bounds  Bounds
		written []int64
		want    int64 // committed now; none where nothing is written
		target  int64 // as reported
		verdict Verdict
	}{
		"first":                         {50, NoMembers, none, Bounds{0, 100}, nil, 50, 50, Synced},
		"zero is a commit":              {0, NoMembers, none, Bounds{0, 100}, nil, 0, 0, Synced},
		"on an empty partition":         {0, NoMembers, none, Bounds{0, 0}, nil, 0, 0, Synced},
		"at the end":                    {100, NoMembers, none, Bounds{0, 100}, nil, 100, 100, Synced},
		"same as klink's":               {50, NoMembers, 50, Bounds{0, 100}, []int64{50}, none, 50, Synced},
		"same, of whomever":             {50, NoMembers, 50, Bounds{0, 100}, nil, none, 50, Synced},
		"ahead of klink's":              {60, NoMembers, 50, Bounds{0, 100}, []int64{50}, 60, 60, Synced},
		"rewound at the source":         {10, NoMembers, 50, Bounds{0, 100}, []int64{50}, 10, 10, Synced},
		"one of klink's without answer": {60, NoMembers, 55, Bounds{0, 100}, []int64{50, 55}, 60, 60, Synced},
		"a stranger's":                  {60, NoMembers, 51, Bounds{0, 100}, []int64{50}, none, 51, TargetOwned},
		"a stranger's, nothing written": {60, NoMembers, 0, Bounds{0, 100}, nil, none, 0, TargetOwned},
		"faster than the data":          {150, NoMembers, none, Bounds{0, 100}, nil, 100, 100, Clamped},
		"still clamped":                 {150, NoMembers, 100, Bounds{0, 100}, []int64{100}, none, 100, Clamped},
		"raised":                        {150, NoMembers, 100, Bounds{0, 120}, []int64{100}, 120, 120, Clamped},
		"raised to the end":             {150, NoMembers, 120, Bounds{0, 200}, []int64{120}, 150, 150, Synced},
		"below the start":               {5, NoMembers, none, Bounds{10, 100}, nil, 5, 5, BelowStart},
		"start unknown":                 {5, NoMembers, none, Bounds{none, 100}, nil, 5, 5, Synced},
		"members":                       {50, HasMembers, none, Bounds{0, 100}, nil, none, none, GroupActive},
		"members, own offset":           {60, HasMembers, 50, Bounds{0, 100}, []int64{50}, none, 50, GroupActive},
		"members not told":              {50, MembersUnknown, none, Bounds{0, 100}, nil, none, none, GroupUnknown},
		"high watermark not told":       {50, NoMembers, none, Bounds{0, none}, nil, none, none, TargetUnknown},
		"the mirror lost its tail":      {80, NoMembers, 80, Bounds{0, 60}, []int64{80}, 60, 60, Clamped},
	} {
		t.Run(name, func(t *testing.T) {
			s := SourceOffset{Partition: srcP, Target: dstP, Offset: c.source, Metadata: "m"}
			in := Input{Source: []SourceOffset{s}, Members: c.members, Bounds: map[feed.Partition]Bounds{dstP: c.bounds},
				Committed: map[feed.Partition]int64{dstP: c.have}, Written: map[feed.Partition][]int64{dstP: c.written}}
			commits, standings := Decide(in)
			var want []Commit
			if c.want != none {
				want = []Commit{{Partition: dstP, Offset: c.want, Metadata: "m", Previous: c.have, Clamped: c.verdict == Clamped}}
			}
			if d := cmp.Diff(want, commits); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff([]Standing{{s, c.target, c.verdict}}, standings); d != "" {
				t.Error(d)
			}
		})
	}
}

// C009: a stray -1 is no commit, and stops nothing.
func TestDecideNegativeIsNoCommit(t *testing.T) {
	other := feed.Partition{Topic: "orders", Partition: 2}
	in := Input{Members: NoMembers, Bounds: map[feed.Partition]Bounds{dstP: {0, 9}, other: {0, 9}},
		Source: []SourceOffset{{Partition: srcP, Target: dstP, Offset: -1}, {Partition: other, Target: other, Offset: 3}}}
	commits, standings := Decide(in)
	if d := cmp.Diff([]Commit{{Partition: other, Offset: 3, Previous: feed.Unknown}}, commits); d != "" || len(standings) != 1 {
		t.Errorf("%s %+v", d, standings)
	}
}

func TestDecidePartitionNotThere(t *testing.T) {
	commits, standings := Decide(Input{Members: NoMembers, Source: []SourceOffset{{Partition: srcP, Target: dstP, Offset: 5}}})
	if len(commits) != 0 || standings[0].Verdict != TargetUnknown {
		t.Errorf("%v %v", commits, standings)
	}
}

// Whatever the input: never beyond the high watermark, never with members, never
// over what klink did not write, never a change to an offset that is right, and
// the report agrees with the commits.
func TestDecideKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(-2, 12)
		in := Input{Members: Members(rapid.IntRange(0, 2).Draw(t, "members")), Committed: map[feed.Partition]int64{},
			Bounds: map[feed.Partition]Bounds{}, Written: map[feed.Partition][]int64{}}
		for i := range int32(rapid.IntRange(0, 5).Draw(t, "n")) {
			p := feed.Partition{Topic: "t", Partition: i}
			in.Source = append(in.Source, SourceOffset{Partition: p, Target: p, Offset: offset.Draw(t, "source"), Renew: rapid.Bool().Draw(t, "renew"),
				Barred: rapid.SampledFrom([]Verdict{Synced, Synced, TopicStopped}).Draw(t, "barred")})
			if rapid.Bool().Draw(t, "has") {
				in.Committed[p] = offset.Draw(t, "have")
			}
			if rapid.Bool().Draw(t, "bound") {
				in.Bounds[p] = Bounds{offset.Draw(t, "start"), offset.Draw(t, "hw")}
			}
			in.Written[p] = rapid.SliceOfN(offset, 0, 3).Draw(t, "written")
		}
		commits, standings := Decide(in)
		final := make(map[feed.Partition]int64)
		for _, c := range commits {
			have, ok := in.Committed[c.Partition]
			ok = ok && have >= 0
			switch {
			case in.Members != NoMembers:
				t.Fatal("written to a group that may have members")
			case c.Offset < 0 || c.Offset > in.Bounds[c.Partition].HighWatermark:
				t.Fatalf("%+v is beyond the end", c)
			case in.Source[c.Partition.Partition].Barred != Synced:
				t.Fatal("written for a topic that is not mirrored")
			case ok && have == c.Offset && !in.Source[c.Partition.Partition].Renew:
				t.Fatal("written again")
			case ok && !slices.Contains(in.Written[c.Partition], have):
				t.Fatal("a stranger's offset was replaced")
			}
			final[c.Partition] = c.Offset
		}
		for _, s := range standings {
			want, ok := final[s.Source.Target]
			if !ok {
				if want, ok = in.Committed[s.Source.Target]; !ok || want < 0 {
					want = feed.Unknown
				}
			}
			if s.Target != want || s.Verdict == Synced && s.Target != s.Source.Offset {
				t.Fatalf("%+v, committed is %d", s, want)
			}
		}
	})
}
