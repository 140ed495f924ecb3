package mm2

import "sort"

// History translates by all syncs of one source partition that are still in the
// topic, where MirrorMaker 2 keeps 64 of them. It differs from Store where that is
// as safe and tells more: a source task that copied records again does not make it
// forget earlier syncs, and a target that lost its end makes it forget those of
// the lost end. It is not safe for use by several goroutines.
type History struct {
	// syncs rise in both offsets.
	syncs []pair
}

type pair struct{ up, down int64 }

// Add inserts the next sync of the topic.
func (h *History) Add(up, down int64) {
	if n := len(h.syncs); n > 0 && up < h.syncs[n-1].up && down <= h.syncs[n-1].down {
		// Both went back: the target was truncated or made anew, and what is known of it
		// may be of a log that is gone.
		h.syncs = h.syncs[:0]
	}
	// Of what was copied again, the later copy counts; what lay at or above the
	// target offset of a new copy is gone.
	for n := len(h.syncs); n > 0 && (h.syncs[n-1].up >= up || h.syncs[n-1].down >= down); n-- {
		h.syncs = h.syncs[:n-1]
	}
	h.syncs = append(h.syncs, pair{up, down})
}

// Len is how many syncs are in use.
func (h *History) Len() int { return len(h.syncs) }

// Newest is the sync of the latest record, and whether there is one.
func (h *History) Newest() (up, down int64, ok bool) {
	if len(h.syncs) == 0 {
		return 0, 0, false
	}
	last := h.syncs[len(h.syncs)-1]
	return last.up, last.down, true
}

// Translate answers for a group's committed source offset, which is that of the
// next record to be read. The answer may lie beyond the target's log end where
// that was truncated since, or below its start; the caller knows them.
func (h *History) Translate(q int64) Translation {
	if len(h.syncs) == 0 {
		return Translation{}
	}
	i := sort.Search(len(h.syncs), func(i int) bool { return h.syncs[i].up > q })
	if i == 0 {
		return Translation{Outcome: TooOld}
	}
	return translate(q, h.syncs[i-1].up, h.syncs[i-1].down)
}

// TranslateBack answers for an offset of the copy: of the records at or above it
// none is a copy of a source record below the answer. In what it returns, Offset and
// Up are the source's, and Down is the copy that it follows from.
func (h *History) TranslateBack(q int64) Translation {
	if len(h.syncs) == 0 {
		return Translation{}
	}
	i := sort.Search(len(h.syncs), func(i int) bool { return h.syncs[i].down > q })
	if i == 0 {
		return Translation{Outcome: TooOld}
	}
	s := h.syncs[i-1]
	t := translate(q, s.down, s.up)
	t.Up, t.Down = s.up, s.down
	return t
}

// Allows tells whether it can be that all copies of records at or above source
// offset up lie at or above target offset down: whether no sync says otherwise. One
// that does is of a target that was truncated or made anew since.
func (h *History) Allows(up, down int64) bool {
	i := sort.Search(len(h.syncs), func(i int) bool { return h.syncs[i].up >= up })
	return i == len(h.syncs) || h.syncs[i].down >= down
}
