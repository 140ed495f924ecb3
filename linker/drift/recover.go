package drift

import (
	"errors"
	"fmt"
	"math"

	"klink/translate/exact"
)

// Position is how far a log was copied.
type Position struct {
	// Src is the source offset to be copied next, Dst the target's log end.
	Src, Dst int64
	// Seq is the sequence of the next record.
	Seq int32
}

// OwnBatch is a batch of this mirror as the target's log shows it. Count is that of
// the offsets it takes, also where a cleaner removed records from it.
type OwnBatch struct {
	Base, Count int64
	Seq         int32
}

// Scan is what the target's log shows from an offset on.
type Scan struct {
	// From is where the reading began: batches that end at or below it are not in Own,
	// the one that holds it is.
	From int64
	// Start and End are the bounds of the log; End is exclusive.
	Start, End int64
	// Own are this mirror's batches, in order.
	Own []OwnBatch
}

var (
	// ErrUnmapped: the target holds a copy of which the map on record does not know,
	// although it is written ahead of the copy: the record was lost.
	ErrUnmapped = errors.New("a copy that is on no record")
	// ErrMoved: the log is not what it was at the offset the scan began with. Another
	// scan, from the log's start on, tells what is left.
	ErrMoved = errors.New("the target's log is not as it was")
)

// ScanFrom is where reading the target's log has to begin: at the last copy that the
// cursor and the log's bounds leave, which shows whether the log is as it was.
//
// Where a cleaner may have taken it, use FromCursor.
func ScanFrom(recorded *exact.Map, cursor Position, start, end int64) int64 {
	start = begin(recorded, start, end)
	if r, ok := lastBelow(recorded, min(cursor.Dst, end)); ok {
		return max(start, r.DstEnd()-1)
	}
	return FromCursor(cursor, start, end)
}

// begin is where the log holds copies of this mirror at the earliest: below, those that
// it was begun with are another one's and are believed by the record.
func begin(recorded *exact.Map, start, end int64) int64 {
	return max(start, min(recorded.Adopted(), end))
}

// FromCursor is where the reading begins of a log of which a cleaner may have removed
// the last copy, so that its absence shows nothing.
func FromCursor(cursor Position, start, end int64) int64 { return max(start, min(cursor.Dst, end)) }

// lastBelow is the last run of a map below a target offset.
func lastBelow(m *exact.Map, dst int64) (exact.Run, bool) {
	cut := m.Clone()
	cut.CutDst(dst)
	return cut.Last()
}

// Recover finds the map and the position from what is on record and what the
// target's log shows (D3). recorded may hold runs that were planned and never
// written. Below scan.From it is believed, from there on the batches of the log count.
func Recover(recorded *exact.Map, cursor Position, scan Scan) (*exact.Map, Position, error) {
	m := recorded.Clone()
	scan.Start = begin(recorded, scan.Start, scan.End)
	scan.From = max(scan.From, scan.Start)
	m.CutDst(min(scan.From, cursor.Dst, scan.End))
	if err := sameNeighbour(recorded, cursor, scan); err != nil {
		return nil, Position{}, err
	}
	runs := allRuns(recorded)
	for _, b := range scan.Own {
		parts, ok := locate(runs, b)
		if !ok {
			return nil, Position{}, fmt.Errorf("%w: offsets %d to %d, sequence %d", ErrUnmapped, b.Base, b.Base+b.Count-1, b.Seq)
		}
		for _, r := range parts {
			if err := m.Add(r); err != nil {
				return nil, Position{}, fmt.Errorf("target offset %d: %w", b.Base, err)
			}
		}
	}
	return m, position(m, runs, cursor, scan), nil
}

// sameNeighbour compares the copy that the scan began with to the record.
func sameNeighbour(recorded *exact.Map, cursor Position, scan Scan) error {
	last, ok := lastBelow(recorded, min(cursor.Dst, scan.End))
	if !ok || last.DstEnd()-1 != scan.From || scan.From == scan.Start && len(scan.Own) == 0 {
		return nil
	}
	for _, b := range scan.Own {
		if b.Base <= scan.From && scan.From < b.Base+b.Count {
			if seqAfter(b.Seq, scan.From-b.Base) == seqAfter(last.Seq, last.Count-1) {
				return nil
			}
			break
		}
	}
	return fmt.Errorf("%w: no copy with sequence %d at offset %d", ErrMoved, seqAfter(last.Seq, last.Count-1), scan.From)
}

// position is where copying goes on behind the last copy of a map.
func position(m *exact.Map, recorded []exact.Run, cursor Position, scan Scan) Position {
	p := Position{Src: cursor.Src, Dst: scan.End, Seq: cursor.Seq}
	switch last, ok := m.Last(); {
	case ok:
		p.Src, p.Seq = last.SrcEnd(), last.SeqEnd()
	case len(recorded) > 0 && recorded[0].Dst >= scan.Start && cursor.Seq != recorded[0].Seq:
		p.Src, p.Seq = recorded[0].Src, recorded[0].Seq // all that was copied is gone
	}
	if p.Seq == cursor.Seq && cursor.Src > p.Src {
		p.Src = cursor.Src // what follows the last copy was looked at
	}
	m.Advance(p.Src)
	return p
}

// MaybeDouble is how many records may be copied for the second time where copying goes on
// at a position: those whose copies came after the cursor and were deleted from the log's
// start before anybody looked, where the target does not remember the sequence of the last
// one and no later copy tells. srcEnd is up to where the source can be read.
func MaybeDouble(cursor, at Position, start, srcEnd int64) int64 {
	if at.Src > cursor.Src || at.Seq != cursor.Seq {
		return 0
	}
	return max(0, min(start-cursor.Dst, srcEnd-at.Src))
}

func allRuns(m *exact.Map) (all []exact.Run) {
	for r := range m.Runs() {
		all = append(all, r)
	}
	return all
}

// seqAfter counts sequences modulo 2^31; n may be negative.
func seqAfter(seq int32, n int64) int32 { return int32((int64(seq) + n) & math.MaxInt32) }

// locate tells by its sequences which records a batch holds copies of. The last run
// on record has no end: a run is put on record when it begins.
func locate(runs []exact.Run, b OwnBatch) (out []exact.Run, ok bool) {
	for done := int64(0); done < b.Count; {
		seq := seqAfter(b.Seq, done)
		src, n, ok := holder(runs, seq)
		if !ok {
			return nil, false
		}
		n = min(n, b.Count-done)
		out = append(out, exact.Run{Src: src, Dst: b.Base + done, Count: n, Seq: seq})
		done += n
	}
	return out, true
}

// BySequence is the source offset of the record that has a sequence by the map on
// record, or is to get it.
func BySequence(recorded *exact.Map, seq int32) (src int64, ok bool) {
	src, _, ok = holder(allRuns(recorded), seq)
	return src, ok
}

// openEnd is how far beyond its recorded end the last run may reach: half of all
// sequences, so that those of before are told from those behind.
const openEnd = 1 << 30

// holder finds the source offset of a sequence, in the last run that has it, and
// how many of its run follow, itself included. A run may be longer than there are
// sequences: of its records that have this one it is the nearest to its end.
func holder(runs []exact.Run, seq int32) (src, n int64, ok bool) {
	for i := len(runs) - 1; i >= 0; i-- {
		r := runs[i]
		if i == len(runs)-1 {
			if ahead := int64(seqAfter(seq, -int64(r.SeqEnd()))); ahead < openEnd {
				return r.SrcEnd() + ahead, openEnd, true
			}
		}
		if behind := int64(seqAfter(r.SeqEnd(), -int64(seq))); behind > 0 && behind <= r.Count {
			return r.SrcEnd() - behind, behind + beyond(runs, i), true
		}
	}
	return 0, 0, false
}

// beyond is how far a run reaches over its recorded end.
func beyond(runs []exact.Run, i int) int64 {
	if i == len(runs)-1 {
		return openEnd
	}
	return 0
}
