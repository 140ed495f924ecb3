package checkpoints

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"klink/fetcher/feed"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// Verdict is what becomes of one committed offset.
type Verdict string

// The verdicts.
const (
	// Current: the checkpoint on the target says what there is to say.
	Current Verdict = ""
	// Changed: a checkpoint is to be written.
	Changed Verdict = "CHANGED"
	// Unmapped: nothing of the partition was copied yet, or it is not known where
	// the copies lie.
	Unmapped Verdict = "UNMAPPED"
	// TargetUnknown: the target did not tell where the partition ends.
	TargetUnknown Verdict = "TARGET_UNKNOWN"
	// Kept: the checkpoint on the target is further than what is known to be copied,
	// as is seen from here, and within the target's log. It stays until more is known.
	Kept Verdict = "KEPT"
	// Untellable: no record can hold the group's name.
	Untellable Verdict = "UNTELLABLE"
)

// Commit is an offset that a group committed on the source.
type Commit struct {
	Group string
	// Source is the partition there, and Target the topic that holds its copies.
	Source feed.Partition
	Target string
	// Offset is 0 or more.
	Offset   int64
	Metadata string
}

// place is the commit's partition on the target.
func (c Commit) place() feed.Partition {
	return feed.Partition{Topic: c.Target, Partition: c.Source.Partition}
}

// Bounds are a target partition's log start and high watermark, or feed.Unknown.
// The high watermark was asked for after the translations were.
type Bounds struct{ Start, HighWatermark int64 }

// Located is a commit and where it lies on the target.
type Located struct {
	Commit
	Lies exact.Answer
}

// Round is what follows from all commits at one time.
type Round struct {
	// Write are the checkpoints to be written, sorted by key.
	Write []mm2.Checkpoint
	// Tally counts commits by verdict.
	Tally map[Verdict]int
}

// Book knows the checkpoints that are on the target. The zero value knows none. It
// is not safe for concurrent use.
type Book struct {
	last map[mm2.Key]mm2.Checkpoint
}

// Load takes in a checkpoint that is on the target, whoever wrote it.
func (b *Book) Load(c mm2.Checkpoint) {
	if b.last == nil {
		b.last = make(map[mm2.Key]mm2.Checkpoint)
	}
	b.last[c.Key] = c
}

// Decide tells which checkpoints to write. bounds are by target partition; one that
// is missing is unknown.
func (b *Book) Decide(commits []Located, bounds map[feed.Partition]Bounds) Round {
	r := Round{Tally: make(map[Verdict]int)}
	for _, c := range commits {
		at, ok := bounds[c.place()]
		if !ok {
			at = Bounds{Start: feed.Unknown, HighWatermark: feed.Unknown}
		}
		next, v := b.decide(c, at)
		r.Tally[v]++
		if v == Changed {
			r.Write = append(r.Write, next)
		}
	}
	slices.SortFunc(r.Write, func(a, b mm2.Checkpoint) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return r
}

func (b *Book) decide(c Located, at Bounds) (next mm2.Checkpoint, v Verdict) {
	switch {
	case c.Lies.Kind == exact.None:
		return next, Unmapped
	case at.HighWatermark < 0:
		return next, TargetUnknown
	}
	next = mm2.Checkpoint{Key: mm2.Key{Group: c.Group, Topic: c.Target, Partition: c.Source.Partition},
		Up: c.Offset, Down: min(c.Lies.Offset, at.HighWatermark), Metadata: tellable(c.Metadata)}
	if last, known := b.last[next.Key]; known {
		if v = follows(last, next, c.Lies.Kind, at); v != Changed {
			return next, v
		}
	}
	if _, _, err := next.Encode(); err != nil {
		return next, Untellable
	}
	return next, Changed
}

// follows tells what is to become of a checkpoint that follows another. It differs
// from MirrorMaker 2's rule (mm2.Filter) where an exact map knows more than samples:
// for the same commit a lower answer of a record that was copied is a copy that was
// made again, and holding on to the higher one would pass it over.
func follows(last, next mm2.Checkpoint, kind exact.Kind, at Bounds) Verdict {
	rewound := next.Up < last.Up
	switch {
	case last.Down > at.HighWatermark:
		return Changed // the target lost its end (P2)
	case next.Down == last.Down && (rewound || next.Metadata != last.Metadata):
		return Changed
	case next.Down == last.Down:
		return Current // progress on the source alone is not told
	case next.Down < last.Down && !rewound && (kind == exact.Ahead || kind == exact.AtEnd):
		return Kept // where the map that was asked ends is not where all do
	case next.Down > last.Down && !rewound && kind == exact.BelowMap && last.Down >= at.Start:
		// The map does not go back as far as the group, but another one did, of a
		// MirrorMaker 2 before: the records that it pointed to are still there.
		return Kept
	}
	return Changed
}

// tellable is the metadata as it can be told, and synced to a cluster of default
// settings: without it the offset is worth as much.
func tellable(metadata string) string {
	if len(metadata) > mm2.MaxMetadata || !utf8.ValidString(metadata) {
		return ""
	}
	return metadata
}

// Explanation says what a verdict means, "" for those that need none.
func (v Verdict) Explanation() string {
	switch v {
	case Unmapped:
		return "nothing of the partition was copied yet, or it cannot be read where the copies lie"
	case TargetUnknown:
		return "the target does not tell where the partition ends"
	case Kept:
		return "the checkpoint that is there is further than what is known to be copied, and stays until more is known"
	case Untellable:
		return "the name of the group cannot be written: it is too long, or not in UTF-8"
	default:
		return ""
	}
}
