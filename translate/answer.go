package translate

import (
	"cmp"
	"time"
)

// Unknown stands for an offset, or a number of records, that is not known.
const Unknown int64 = -1

// Partition is one partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

// Compare orders by topic and number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// Bounds are those of a partition's log; Unknown where its leader did not tell.
type Bounds struct {
	// Start is the first offset there is, End the high watermark.
	Start, End int64
	// Missing: the cluster has no such partition.
	Missing bool
}

// NoBounds are those of a log of which nothing is known.
func NoBounds() Bounds { return Bounds{Start: Unknown, End: Unknown} }

// Origin is where the offset that was translated comes from.
type Origin string

// The origins.
const (
	// Committed: the cluster that the group worked at told it.
	Committed Origin = "committed"
	// Recorded: klink keeps it on record of the groups it carries over.
	Recorded Origin = "recorded"
	// Checkpointed: it stands in a checkpoint.
	Checkpointed Origin = "checkpoint"
)

// Commit is a group's offset in one partition.
type Commit struct {
	Offset int64
	Origin Origin
	// At is when it was committed or recorded; zero for unknown.
	At time.Time
	// AsOf is until when it is known to have been the group's offset.
	AsOf time.Time
}

// Kind is how exact an answer is.
type Kind string

// The kinds.
const (
	// Exact: the answer is the very next record that the group has not read, or the
	// end where it has read all.
	Exact Kind = "exact"
	// Next: there is no copy of the record at the group's offset; the answer is the
	// next one that there is.
	Next Kind = "next"
	// Clamped: the answer is one end of what there is: the end of what was copied, of
	// which the group is ahead, or the log's start.
	Clamped Kind = "clamped"
	// Sampled: the answer follows from an earlier record whose place is known; what
	// lies between is read again.
	Sampled Kind = "sampled"
)

// Answer is where a group goes on in one partition, or why that is not known.
type Answer struct {
	// Source and Target are the partition and its copy. Where one is not known, its
	// topic is "".
	Source, Target Partition
	// Asked is the offset that was translated, with what is known of it; its offset
	// is Unknown where there was none.
	Asked Commit
	// Offset is the answer; Unknown with a Reason.
	Offset int64
	Kind   Kind
	// ReadAgain is how many records the group reads again at most; Unknown where
	// nothing bounds it.
	ReadAgain int64
	// Ahead is by how many offsets the group is ahead of what was copied.
	Ahead  int64
	Reason Reason
	// Checkpoint is what MirrorMaker 2's client would give for this partition; nil
	// for nothing.
	Checkpoint *Checkpoint
}

// none is an answer without an offset.
func (a Answer) none(r Reason) Answer {
	a.Offset, a.Kind, a.ReadAgain, a.Ahead, a.Reason = Unknown, "", Unknown, 0, r
	return a
}

// within moves an answer to what the log holds (T5).
func (a Answer) within(b Bounds) Answer {
	switch {
	case a.Offset == Unknown:
		return a
	case b.Start != Unknown && a.Offset < b.Start:
		a.Offset, a.Kind = b.Start, Clamped
	case b.End != Unknown && a.Offset > b.End:
		a.Offset, a.Kind, a.Ahead = b.End, Clamped, max(a.Ahead, a.Offset-b.End)
	}
	if b.End != Unknown && a.ReadAgain != Unknown {
		a.ReadAgain = min(a.ReadAgain, b.End-a.Offset)
	}
	return a
}
