package maps

import (
	"bytes"
	"math"
	"slices"

	"klink/translate/exact"
)

// mostNew is how many runs one Put writes as one chunk: those of a long fetch of
// small transactions, in some 40 KB. More of them take another round trip.
const mostNew = 16 * exact.MaxChunk

// chunk tells of what is on record under one number.
type chunk struct {
	number int64
	count  int
	// src is the source offset at which its last run ends.
	src int64
	// stored are its bytes; nil where chunks behind it have taken its place, in part
	// at least, so that it is not what the map holds there.
	stored []byte
}

// holds tells whether a chunk is what the map holds there.
func (c chunk) holds(runs []exact.Run) bool {
	if c.stored == nil || c.count != len(runs) {
		return false
	}
	b, err := exact.Encode(nil, runs)
	return err == nil && bytes.Equal(b, c.stored)
}

// edit is what has to be written so that the record says what the map says: first,
// once that is acknowledged more, and then the deletes of drop. first has what all
// chunks had in whose place it comes, so there is no moment at which anything is on
// record of what was copied less than before (M1).
type edit struct {
	first, more []numbered
	drop        []int64
	// kept are chunks that stay as they are.
	kept []chunk
}

type numbered struct {
	number int64
	runs   []exact.Run
}

// editsOf finds the edit for a map.
func editsOf(on []chunk, m *exact.Map) edit {
	changed, some := m.ChangedFrom()
	if !some {
		changed = math.MaxInt64
	}
	return plan(on, slices.Collect(m.Runs()), changed)
}

// plan finds the edit. Chunks that end at or below changed are what they were; what
// was pruned of them need not be on record. The first that is not, or that has room
// where more follows, is written anew with all behind it: in its own place if it is
// the last one, else behind all of them, which are deleted afterwards.
func plan(on []chunk, runs []exact.Run, changed int64) edit {
	var e edit
	number := int64(0)
	for len(on) > 0 && (len(runs) == 0 || on[0].src <= runs[0].Src) {
		e.drop, number = append(e.drop, on[0].number), on[0].number+1 // pruned as a whole
		on = on[1:]
	}
	for ; len(on) > 0; on = on[1:] {
		n := below(runs, on[0].src)
		room := len(on) == 1 && on[0].count < exact.MaxChunk && n < len(runs)
		same := on[0].stored != nil && on[0].src <= changed || on[0].holds(runs[:n])
		if room || !same {
			break
		}
		e.kept = append(e.kept, on[0])
		runs, number = runs[n:], on[0].number+1
	}
	if len(runs) == 0 {
		e.drop = append(e.drop, numbers(on)...)
		return e
	}
	covered := 0
	for i, c := range on {
		covered = max(covered, below(runs, c.src))
		number = c.number
		if i > 0 {
			number++
		}
	}
	if len(on) > 1 {
		e.drop = append(e.drop, numbers(on)...)
	}
	e.split(number, runs, covered)
	return e
}

// split divides runs that are to be written. As many as covered come in the place of
// something on record and stand in one chunk. More of those than a chunk can hold
// there are only where the target has lost them, so that nothing hangs on them.
func (e *edit) split(number int64, runs []exact.Run, covered int) {
	n := min(len(runs), max(covered, mostNew), exact.MostRuns)
	e.first = []numbered{{number, runs[:n]}}
	for part := range slices.Chunk(runs[n:], mostNew) {
		number++
		e.more = append(e.more, numbered{number, part})
	}
}

// below is how many of runs begin below a source offset.
func below(runs []exact.Run, src int64) int {
	if n := slices.IndexFunc(runs, func(r exact.Run) bool { return r.Src >= src }); n >= 0 {
		return n
	}
	return len(runs)
}

func numbers(on []chunk) (all []int64) {
	for _, c := range on {
		all = append(all, c.number)
	}
	return all
}

// join reads chunks, in the order of their numbers, as one map: what one holds from
// its first run on comes in the place of what those before it hold there, which is
// left over of a Put that was cut off.
func join(on []chunk, parts [][]exact.Run) (*exact.Map, error) {
	m := &exact.Map{}
	for _, part := range parts {
		for _, r := range part {
			if err := m.Add(r); err != nil {
				return nil, err
			}
		}
	}
	m.Settled()
	runs := slices.Collect(m.Runs())
	for i, part := range parts {
		from := below(runs, part[0].Src)
		to := min(len(runs), from+len(part))
		if !slices.Equal(runs[from:to], part) {
			on[i].stored = nil
		}
	}
	return m, nil
}
