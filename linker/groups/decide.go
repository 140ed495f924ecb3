package groups

import (
	"cmp"
	"slices"

	"klink/fetcher/feed"
)

// Verdict is what became of one committed offset.
type Verdict string

// The verdicts. Only Synced means that the target has the source's offset.
const (
	Synced Verdict = ""
	// Clamped: the mirror has not reached the offset yet; what it has is
	// committed.
	Clamped Verdict = "CLAMPED"
	// BelowStart: committed, but the target does not retain the record.
	BelowStart Verdict = "BELOW_START"
	// TargetOwned: the target has an offset that klink did not write.
	TargetOwned Verdict = "TARGET_OWNED"
	// GroupActive: the group has members on the target.
	GroupActive Verdict = "GROUP_ACTIVE"
	// GroupUnknown: the target did not tell whether it has members.
	GroupUnknown Verdict = "GROUP_UNKNOWN"
	// TargetUnknown: the target partition is not there, or did not answer.
	TargetUnknown Verdict = "TARGET_UNKNOWN"
	// NoPermission: a right is missing on either side.
	NoPermission Verdict = "NO_PERMISSION"
	// Failed: the commit, or asking for the source's offset, failed.
	Failed Verdict = "FAILED"
	// MetadataDropped: committed without the consumer's metadata, which is
	// larger than the target's offset.metadata.max.bytes.
	MetadataDropped Verdict = "METADATA_DROPPED"
)

// Members is whether a group has members on the target.
type Members int

// What the target said in this round.
const (
	MembersUnknown Members = iota
	NoMembers
	HasMembers
)

// SourceOffset is one committed offset on the source.
type SourceOffset struct {
	// Partition is of the source topic.
	Partition feed.Partition
	// Target is the mirror of that partition.
	Target feed.Partition
	// Offset is negative where there is no commit.
	Offset   int64
	Metadata string
}

// Bounds are a target partition's log start and high watermark, or
// feed.Unknown.
type Bounds struct{ Start, HighWatermark int64 }

// Input is all that one group's commits follow from. The maps are keyed by
// target partition.
type Input struct {
	Source  []SourceOffset
	Members Members
	// Committed are the group's offsets on the target; absent or negative is
	// none.
	Committed map[feed.Partition]int64
	Bounds    map[feed.Partition]Bounds
	// Written are the offsets that may be klink's last write: the one that was
	// acknowledged and those tried since.
	Written map[feed.Partition][]int64
}

// Commit is one offset to write, for a target partition, without a leader epoch.
type Commit struct {
	Partition feed.Partition
	Offset    int64
	Metadata  string
}

// Standing is where one partition of a group stands.
type Standing struct {
	Source SourceOffset
	// Target is the committed offset there once the commits are done,
	// feed.Unknown where there is none or it was not told.
	Target  int64
	Verdict Verdict
}

// Decide gives the commits to write for one group, and where each of its
// partitions stands once they are. Both are sorted by source partition.
func Decide(in Input) ([]Commit, []Standing) {
	var commits []Commit
	var standings []Standing
	for _, s := range in.Source {
		if s.Offset < 0 {
			continue // U2: others write -1 for "no commit"
		}
		st, want := in.decide(s)
		standings = append(standings, st)
		if want {
			commits = append(commits, Commit{Partition: s.Target, Offset: st.Target, Metadata: s.Metadata})
		}
	}
	slices.SortFunc(standings, func(a, b Standing) int { return compare(a.Source.Partition, b.Source.Partition) })
	slices.SortFunc(commits, func(a, b Commit) int { return compare(a.Partition, b.Partition) })
	return commits, standings
}

func (in Input) decide(s SourceOffset) (st Standing, write bool) {
	have, ok := in.Committed[s.Target]
	if !ok || have < 0 {
		have = feed.Unknown
	}
	st = Standing{Source: s, Target: have}
	switch in.Members {
	case HasMembers:
		st.Verdict = GroupActive
		return st, false
	case MembersUnknown:
		st.Verdict = GroupUnknown
		return st, false
	}
	b, ok := in.Bounds[s.Target]
	if !ok || b.HighWatermark < 0 {
		st.Verdict = TargetUnknown
		return st, false
	}
	want := min(s.Offset, b.HighWatermark)
	switch {
	case want < s.Offset:
		st.Verdict = Clamped
	case b.Start >= 0 && want < b.Start:
		st.Verdict = BelowStart
	}
	if have == want {
		return st, false
	}
	if have != feed.Unknown && !slices.Contains(in.Written[s.Target], have) {
		st.Verdict = TargetOwned
		return st, false
	}
	st.Target = want
	return st, true
}

func compare(a, b feed.Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
