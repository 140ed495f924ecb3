package plan

import (
	"errors"
	"fmt"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/state"
)

// Kind is what a Step does.
type Kind int

// The kinds of steps.
const (
	// Wait: nothing left to decide in these entries.
	Wait Kind = iota
	// Append: one entry goes as it is, patched.
	Append
	// Merge: neighbouring small entries become one batch.
	Merge
	// Recode: one entry is written anew, record by record.
	Recode
	// Drop: one entry lies wholly below the log end and is already there.
	Drop
	// Halt: the partition stops here; Reason and Detail tell why.
	Halt
)

// String returns the kind's name as used in scripts and metrics.
func (k Kind) String() string {
	return [...]string{"wait", "append", "merge", "recode", "drop", "halt"}[k]
}

// Step is one decision.
type Step struct {
	Kind Kind
	// Entries is how many entries, from the first given, the step takes.
	Entries int
	// Base and End are the offsets it covers on the target, [Base, End).
	Base, End int64
	// Epoch is the source's leader epoch of the entries taken.
	Epoch int32
	// Reason and Detail are set for Halt.
	Reason state.Reason
	Detail string
}

// Entry is one batch of a source log as the planner sees it.
type Entry struct {
	// Header is valid where Old is false.
	Header batch.Header
	// Old marks a message set of format v0 or v1, with its offsets.
	Old              bool
	OldBase, OldLast int64
	// SizeBytes is the entry's length on the wire.
	SizeBytes int
}

// next returns the offset after the entry.
func (e *Entry) next() int64 {
	if e.Old {
		return e.OldLast + 1
	}
	return e.Header.NextOffset()
}

func (e *Entry) base() int64 {
	if e.Old {
		return e.OldBase
	}
	return e.Header.BaseOffset
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
}

// DefaultLimits merges what is so small that a request's fixed cost outweighs
// its bytes. 256 KiB per merged batch gave the target broker 1/30 of the CPU
// of single one-record batches; above it nothing more was won. Unpacking costs
// up to 14 CPU s per uncompressed GB (zstd), hence the lower bound for packed
// entries.
func DefaultLimits() Limits {
	return Limits{MergeBelowBytes: 16 << 10, MergePackedBelowBytes: 4 << 10, MergeIntoBytes: 256 << 10}
}

// ReadEntries parses the headers of raw batches. The error names the first
// entry that does not hold together.
func ReadEntries(raw [][]byte) ([]Entry, error) {
	out := make([]Entry, len(raw))
	for i, b := range raw {
		e := &out[i]
		e.SizeBytes = len(b)
		h, err := batch.ParseHeader(b)
		switch {
		case err == nil:
			e.Header = h
		case errors.Is(err, batch.ErrOldFormat):
			e.Old = true
			if e.OldBase, e.OldLast, err = batch.OldFormatRange(b); err != nil {
				return nil, fmt.Errorf("read entry %d of old format: %w", i, err)
			}
		default:
			return nil, fmt.Errorf("read header of batch %d: %w", i, err)
		}
	}
	return out, nil
}

// Next decides what to do with the first of entries when the target's log ends
// at next. Entries are in log order (feed.F1); aborted is the list that came
// with them.
func Next(next int64, entries []Entry, aborted []feed.Aborted, lim Limits) Step {
	if len(entries) == 0 {
		return Step{Kind: Wait}
	}
	e := &entries[0]
	if e.next() <= next {
		return Step{Kind: Drop, Entries: 1, Base: e.base(), End: e.next()}
	}
	if s, stop := cannotCarry(next, e, aborted); stop {
		return s
	}
	h := &e.Header
	one := Step{Kind: Append, Entries: 1, Base: next, End: h.NextOffset(), Epoch: h.LeaderEpoch}
	tooLarge := lim.MaxBatchBytes > 0 && e.SizeBytes > lim.MaxBatchBytes
	if h.BaseOffset < next || h.LogAppendTime() || h.HasDeleteHorizon() || tooLarge {
		one.Kind = Recode
		return one
	}
	if n := mergeable(entries, aborted, lim); n > 1 {
		one.Kind, one.Entries, one.End = Merge, n, entries[n-1].next()
	}
	return one
}

// cannotCarry returns the Halt for an entry whose offsets this version cannot
// keep (P2).
func cannotCarry(next int64, e *Entry, aborted []feed.Aborted) (Step, bool) {
	halt := func(format string, args ...any) (Step, bool) {
		return Step{Kind: Halt, Base: next, End: e.next(), Reason: state.Unfillable, Detail: fmt.Sprintf(format, args...)}, true
	}
	switch h := &e.Header; {
	case e.base() > next:
		return halt("offsets %d to %d hold no record on the source (removed by compaction, or transaction markers)", next, e.base()-1)
	case e.Old:
		return halt("offsets %d to %d are stored in an old record format (v0 or v1)", e.OldBase, e.OldLast)
	case h.IsControl():
		return halt("offset %d is a transaction marker", h.BaseOffset)
	case h.Count == 0 || h.HasHoles():
		return halt("the batch at offsets %d to %d holds %d records: compaction removed the others", h.BaseOffset, h.LastOffset(), h.Count)
	case isAborted(h, aborted):
		return halt("offsets %d to %d belong to an aborted transaction of producer %d", h.BaseOffset, h.LastOffset(), h.ProducerID)
	}
	return Step{}, false
}

// isAborted tells whether a transactional batch belongs to a listed aborted
// transaction. The list holds only transactions that end at or after the
// fetched offset, and nothing is carried past the first marker of one, so a
// batch of a listed producer at or after its first offset is aborted.
func isAborted(h *batch.Header, aborted []feed.Aborted) bool {
	if !h.IsTransactional() {
		return false
	}
	for _, a := range aborted {
		if a.ProducerID == h.ProducerID && h.BaseOffset >= a.FirstOffset {
			return true
		}
	}
	return false
}

// Visible tells whether a read_committed consumer sees the records of a raw
// batch, given the list of aborted transactions that came with it. What cannot
// be parsed counts as visible, so that reading it tells the error.
func Visible(b []byte, aborted []feed.Aborted) bool {
	h, err := batch.ParseHeader(b)
	return err != nil || (!h.IsControl() && !isAborted(&h, aborted))
}

// mergeable returns how many leading entries can become one batch.
func mergeable(entries []Entry, aborted []feed.Aborted, lim Limits) int {
	first := &entries[0].Header
	bound := lim.MergeBelowBytes
	if first.Codec() != batch.CodecNone {
		bound = lim.MergePackedBelowBytes
	}
	into := lim.MergeIntoBytes
	if lim.MaxBatchBytes > 0 {
		into = min(into, lim.MaxBatchBytes)
	}
	sum, next := 0, first.BaseOffset
	for i := range entries {
		e := &entries[i]
		h := &e.Header
		sum += e.SizeBytes
		plain := !e.Old && e.SizeBytes < bound && sum <= into && h.BaseOffset == next &&
			h.Codec() == first.Codec() && h.LeaderEpoch == first.LeaderEpoch &&
			!h.IsTransactional() && !h.LogAppendTime() && !h.HasDeleteHorizon()
		if !plain {
			return i
		}
		if _, stop := cannotCarry(next, e, aborted); stop {
			return i
		}
		next = h.NextOffset()
	}
	return len(entries)
}
