package maps

import (
	"math"
	"slices"

	"klink/translate/exact"
)

// chunk tells of what is on record under one number: how many runs, and the source
// offset at which the last of them ends.
type chunk struct {
	number int64
	count  int
	src    int64
}

func chunkOf(number int64, runs []exact.Run) chunk {
	return chunk{number, len(runs), runs[len(runs)-1].SrcEnd()}
}

// edit is what has to be written so that the record says what the map says.
type edit struct {
	// drop are numbers to delete, in this order, before anything is put: a chunk
	// never stands behind one that it does not belong to (M1).
	drop []int64
	put  []numbered
	// now are the chunks on record afterwards.
	now []chunk
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
// where more follows, is written anew, and so is all behind it.
func plan(on []chunk, runs []exact.Run, changed int64) edit {
	var e edit
	number := int64(0)
	for len(on) > 0 && (len(runs) == 0 || on[0].src <= runs[0].Src) {
		e.drop, number = append(e.drop, on[0].number), on[0].number+1 // pruned as a whole
		on = on[1:]
	}
	for ; len(on) > 0; on = on[1:] {
		number = on[0].number
		n := slices.IndexFunc(runs, func(r exact.Run) bool { return r.Src >= on[0].src })
		if n < 0 {
			n = len(runs)
		}
		room := len(on) == 1 && on[0].count < exact.MaxChunk && n < len(runs)
		if on[0].src > changed || room {
			break
		}
		e.now = append(e.now, on[0])
		runs, number = runs[n:], number+1
	}
	for i, c := range slices.Backward(on) {
		if i > 0 || len(runs) == 0 { // the first is overwritten
			e.drop = append(e.drop, c.number)
		}
	}
	for part := range slices.Chunk(runs, exact.MaxChunk) {
		e.put = append(e.put, numbered{number, part})
		e.now = append(e.now, chunkOf(number, part))
		number++
	}
	return e
}
