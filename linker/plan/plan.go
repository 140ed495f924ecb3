package plan

import (
	"fmt"

	"klink/fetcher/batch"
	"klink/linker/ledger"
	"klink/linker/state"
)

// Kind is what a Step does.
type Kind int

// The kinds of steps.
const (
	// Wait: nothing can be decided now. Of entries it takes those whose offsets
	// can only be written together with what follows them.
	Wait Kind = iota
	// Append: one entry goes as it is, patched.
	Append
	// Merge: neighbouring small entries become one batch.
	Merge
	// Recode: one entry is written anew, record by record. Where compaction
	// removed records from it the batches made do not touch: Pieces tells what
	// to fill between them. An entry of an old format shows holes only there.
	Recode
	// Drop: one entry lies wholly below the log end and is already there.
	Drop
	// Halt: the partition stops here; Reason and Detail tell why.
	Halt
	// Fill: [Base, End) holds no visible record; Runs tells why, in order (P5).
	// Entries counts those that end within it: none where the step covers but a
	// part of the gap before the first, or of the first.
	Fill
	// Repeat: the last of the entries taken is written anew from Base on, with
	// the next surviving record once more wherever there is none
	// (batch.RepeatNext). It may be stopped between any two of the batches made:
	// deciding again goes on there. Offsets behind the entry's last record are
	// left, so the step may end below End, or write nothing; they are then the
	// gap before the next entry.
	Repeat
	// Pad: an empty target is brought up to the goal End. With Base == End all
	// pads are there and only the trim to End is left.
	Pad
	// PadOver: [Base, End) was deleted on the source before it was mirrored, and
	// the link's policy is to go on behind it.
	PadOver
	// AskAlone: fetch this partition alone, then decide again with Tail.
	AskAlone
)

// String returns the kind's name as used in scripts and metrics.
func (k Kind) String() string {
	return [...]string{"wait", "append", "merge", "recode", "drop", "halt", "fill", "repeat", "pad", "pad-over", "ask-alone"}[k]
}

// Step is one decision.
type Step struct {
	Kind Kind
	// Entries is how many entries, from the first given, the step takes.
	Entries int
	// Base and End are the offsets it covers on the target, [Base, End).
	Base, End int64
	// Epoch is the source's leader epoch of what the step covers; feed.NoEpoch
	// where none is known (old formats, pads), and then nothing is to be learned.
	Epoch int32
	// Runs are the reasons of a Fill or PadOver; of a Repeat those of the offsets
	// before its last entry. Where an earlier Wait took entries with it, their
	// reasons are told as Compacted there.
	Runs []ledger.Run
	// Reason is set for Halt, Detail for Halt and where a Wait has a cause.
	Reason state.Reason
	Detail string
}

// Limits are sizes that decisions depend on.
type Limits struct {
	// MaxBatchBytes is the target topic's max.message.bytes; 0 means unknown,
	// then the target itself refuses what is too large.
	MaxBatchBytes int
	// MergeBelowBytes: an uncompressed entry smaller than this may be merged
	// with its neighbours. Compressed ones cost an unpacking, so for them the
	// bound is MergePackedBelowBytes.
	MergeBelowBytes       int
	MergePackedBelowBytes int
	// MergeIntoBytes bounds the size of a merged batch, by the sum of its parts.
	MergeIntoBytes int
	// MaxFillOffsets bounds a Fill; 0 or less stands for DefaultMaxFillOffsets.
	MaxFillOffsets int64
}

// DefaultMaxFillOffsets is what a target that takes 1,000 markers a second,
// the least that was measured, writes in 20 s, and a common one in two.
const DefaultMaxFillOffsets = 20_000

// DefaultLimits merges what is so small that a request's fixed cost outweighs
// its bytes. 256 KiB per merged batch gave the target broker 1/30 of the CPU
// of single one-record batches; above it nothing more was won. Unpacking costs
// up to 14 CPU s per uncompressed GB (zstd), hence the lower bound for packed
// entries.
func DefaultLimits() Limits {
	return Limits{MergeBelowBytes: 16 << 10, MergePackedBelowBytes: 4 << 10, MergeIntoBytes: 256 << 10,
		MaxFillOffsets: DefaultMaxFillOffsets}
}

func (l *Limits) maxFillOffsets() int64 {
	if l.MaxFillOffsets <= 0 {
		return DefaultMaxFillOffsets
	}
	return l.MaxFillOffsets
}

// Next decides what to do with the first of entries when the target's log ends
// at next. Entries are in log order (feed.F1).
func Next(next int64, entries []Entry, pol Policy, lim Limits) Step {
	if len(entries) == 0 {
		return Step{Kind: Wait}
	}
	e := &entries[0]
	if e.next() <= next {
		return Step{Kind: Drop, Entries: 1, Base: e.base(), End: e.next()}
	}
	if _, blank := e.blank(); !blank && e.base() <= next {
		return carry(next, entries, pol, lim)
	}
	switch {
	case uncovered(next, e, pol):
		return corruptGap(next, e.base())
	case pol.Gaps == FillMarkers:
		return fill(next, entries, pol, lim)
	case pol.repeats():
		return repeat(next, entries)
	}
	return unfillable(next, e)
}

// carry decides on an entry that holds records at or above next.
func carry(next int64, entries []Entry, pol Policy, lim Limits) Step {
	e := &entries[0]
	h := &e.Header
	one := Step{Kind: Append, Entries: 1, Base: next, End: e.next(), Epoch: e.epoch()}
	tooLarge := lim.MaxBatchBytes > 0 && e.SizeBytes > lim.MaxBatchBytes
	switch {
	case (e.Old || h.HasHoles()) && pol.repeats():
		one.Kind = Repeat
		return one
	case e.Old:
		one.Kind = Recode
		return one
	case h.HasHoles() && pol.Gaps != FillMarkers:
		return unfillable(next, e)
	case h.HasHoles() || h.BaseOffset < next || h.LogAppendTime() || h.HasDeleteHorizon() || tooLarge:
		one.Kind = Recode
		return one
	}
	if n := mergeable(entries, lim); n > 1 {
		one.Kind, one.Entries, one.End = Merge, n, entries[n-1].next()
	}
	return one
}

// mergeable returns how many leading entries can become one batch.
func mergeable(entries []Entry, lim Limits) int {
	sum, next, into := 0, entries[0].Header.BaseOffset, lim.Into()
	for i := range entries {
		e := &entries[i]
		sum += e.SizeBytes
		if sum > into || e.Header.BaseOffset != next || e.Header.IsTransactional() || !lim.Joins(e, &entries[0]) {
			return i
		}
		next = e.Header.NextOffset()
	}
	return len(entries)
}

// Joins tells whether an entry is so small that it may share a batch with others, the
// first of which is given, and like it in codec and leader epoch.
func (l *Limits) Joins(e, first *Entry) bool {
	h := &e.Header
	bound := l.MergeBelowBytes
	if h.Codec() != batch.CodecNone {
		bound = l.MergePackedBelowBytes
	}
	_, blank := e.blank()
	return !e.Old && !blank && !h.HasHoles() && e.SizeBytes < bound && h.Codec() == first.Header.Codec() &&
		h.LeaderEpoch == first.Header.LeaderEpoch && !h.LogAppendTime() && !h.HasDeleteHorizon()
}

// Into is the most that the entries of one batch may take together, in bytes.
func (l *Limits) Into() int {
	if l.MaxBatchBytes > 0 {
		return min(l.MergeIntoBytes, l.MaxBatchBytes)
	}
	return l.MergeIntoBytes
}

// unfillable is the Halt for an entry whose offsets the link's way of filling
// gaps does not keep (P2).
func unfillable(next int64, e *Entry) Step {
	s := Step{Kind: Halt, Base: next, End: e.next(), Reason: state.Unfillable}
	h := &e.Header
	reason, blank := e.blank()
	switch {
	case e.base() > next:
		s.Detail = fmt.Sprintf("offsets %d to %d hold no record on the source (removed by compaction)", next, e.base()-1)
	case blank && reason == ledger.Marker:
		s.Detail = fmt.Sprintf("offset %d is a transaction marker", h.BaseOffset)
	case blank && reason == ledger.Aborted:
		s.Detail = fmt.Sprintf("offsets %d to %d belong to an aborted transaction of producer %d", h.BaseOffset, h.LastOffset(), h.ProducerID)
	default:
		s.Detail = fmt.Sprintf("the batch at offsets %d to %d holds %d records: compaction removed the others", h.BaseOffset, h.LastOffset(), h.Count)
	}
	return s
}
