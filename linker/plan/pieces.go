package plan

import (
	"fmt"

	"klink/linker/ledger"
)

// Piece is a batch that Recode made: Count neighbouring offsets from Base on.
type Piece struct {
	Base  int64
	Count int32
}

// Move is one thing to do in turn: append a piece, or fill a hole.
type Move struct {
	// Piece is the index of the piece to append; -1 for a hole.
	Piece int
	// Hole is what to fill, with markers.
	Hole ledger.Run
}

// Pieces puts the batches that were made of the entry of a Recode step in their
// places between next, the target's log end, and end, the step's. The holes in
// front of, between and behind them are what compaction removed. No pieces are
// one hole. An error says that the pieces are not in order within [next, end):
// the entry's records then do not fit its header.
func Pieces(next, end int64, pieces []Piece) ([]Move, error) {
	moves := make([]Move, 0, 2*len(pieces)+1)
	at := next
	hole := func(to int64) {
		if to > at {
			moves = append(moves, Move{Piece: -1, Hole: ledger.Run{Count: to - at, Reason: ledger.Compacted}})
		}
	}
	for i, p := range pieces {
		if p.Base < at || p.Count < 1 || p.Base+int64(p.Count) > end {
			return nil, fmt.Errorf("records at offsets %d to %d where %d to %d are due", p.Base, p.Base+int64(p.Count)-1, at, end-1)
		}
		hole(p.Base)
		moves = append(moves, Move{Piece: i})
		at = p.Base + int64(p.Count)
	}
	hole(end)
	return moves, nil
}

// RefuseHole returns the Halt for a hole that Pieces found at the target's log
// end next and that the link does not fill. The planner itself cannot tell: an
// entry of an old format shows its holes only once it is decoded.
func RefuseHole(next int64, hole ledger.Run, pol Policy) (halt Step, refused bool) {
	if pol.Gaps == FillMarkers {
		return Step{}, false
	}
	e := Entry{Old: true, OldBase: next + hole.Count, OldLast: next + hole.Count}
	return unfillable(next, &e), true
}
