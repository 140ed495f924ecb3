package groups

import (
	"cmp"
	"slices"

	"klink/fetcher/feed"
	"klink/translate/exact"
)

// Members is whether a group has members on the target.
type Members int

// What the target said last, not longer than listedFor ago.
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
	// Translated is where the offset lies on the target; nil is at the same number.
	Translated *exact.Answer
	// Barred is why nothing may be written for it, Synced where it may.
	Barred Verdict
	// Renew: an unchanged offset is to be committed again.
	Renew bool
}

// want is the target offset that means the same, and what there is to say of it.
func (s SourceOffset) want() (offset int64, v Verdict) {
	a := s.Translated
	switch {
	case a == nil:
		return s.Offset, Synced
	case a.Kind == exact.None:
		return feed.Unknown, Unmapped
	case a.Kind == exact.Ahead:
		return a.Offset, Clamped
	default:
		return a.Offset, Synced
	}
}

// stands is the source offset that one on the target stands for, feed.Unknown where
// it is another record's.
func (s SourceOffset) stands(target int64) int64 {
	if s.Translated == nil {
		return target
	}
	if at, v := s.want(); at == target && v == Synced {
		return s.Offset
	}
	return feed.Unknown
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
	// Previous is what the target has, feed.Unknown for none.
	Previous int64
	// Clamped: it is less than the source's.
	Clamped bool
}

// Renewal: it changes nothing but the time of the commit.
func (c Commit) Renewal() bool { return c.Offset == c.Previous }

// Standing is where one partition of a group stands.
type Standing struct {
	Source SourceOffset
	// Target is the committed offset there once the commits are done,
	// feed.Unknown where there is none or it was not told.
	Target  int64
	Verdict Verdict
}

// Decide gives the commits to write for one group, and where each of its
// partitions stands once they are. Both are sorted by partition.
func Decide(in Input) ([]Commit, []Standing) {
	var commits []Commit
	var standings []Standing
	for _, s := range in.Source {
		if s.Offset < 0 && s.Barred == Synced {
			continue // U2: others write -1 for "no commit"
		}
		st, write := in.decide(s)
		standings = append(standings, st)
		if write {
			commits = append(commits, Commit{Partition: s.Target, Offset: st.Target, Metadata: s.Metadata,
				Previous: in.have(s.Target), Clamped: st.Verdict == Clamped})
		}
	}
	slices.SortFunc(standings, func(a, b Standing) int { return compare(a.Source.Partition, b.Source.Partition) })
	slices.SortFunc(commits, func(a, b Commit) int { return compare(a.Partition, b.Partition) })
	return commits, standings
}

// have is what the target has, feed.Unknown for none.
func (in Input) have(p feed.Partition) int64 {
	if at, ok := in.Committed[p]; ok && at >= 0 {
		return at
	}
	return feed.Unknown
}

func (in Input) decide(s SourceOffset) (st Standing, write bool) {
	have := in.have(s.Target)
	st = Standing{Source: s, Target: have, Verdict: in.barred(s)}
	if st.Verdict != Synced {
		return st, false
	}
	b := in.Bounds[s.Target]
	lies, said := s.want()
	want := min(lies, b.HighWatermark)
	switch {
	case want < lies || said == Clamped:
		st.Verdict = Clamped
	case b.Start >= 0 && want < b.Start:
		st.Verdict = BelowStart
	default:
		st.Verdict = said
	}
	own := have == feed.Unknown || slices.Contains(in.Written[s.Target], have)
	switch {
	case have == want:
		return st, s.Renew && own
	case !own:
		st.Verdict = TargetOwned
		return st, false
	}
	st.Target = want
	return st, true
}

// barred is why nothing can be decided on a partition, Synced where it can.
func (in Input) barred(s SourceOffset) Verdict {
	b, ok := in.Bounds[s.Target]
	_, said := s.want()
	switch {
	case s.Barred != Synced:
		return s.Barred
	case said == Unmapped:
		return Unmapped
	case in.Members == HasMembers:
		return GroupActive
	case in.Members != NoMembers:
		return GroupUnknown
	case !ok || b.HighWatermark < 0:
		return TargetUnknown
	}
	return Synced
}

func compare(a, b feed.Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
