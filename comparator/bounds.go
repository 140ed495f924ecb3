package comparator

import "fmt"

// Bounds are the ends of one log.
type Bounds struct {
	// Start is the first offset retained.
	Start int64
	// LastStable is where read_committed consumers stop (exclusive).
	LastStable int64
}

// startRule says what the starts of both logs have to do with each other.
type startRule struct {
	// follows: the target is trimmed to the source's start, and deletes nothing by
	// itself.
	follows bool
	// later: the mirror began at a later offset than its source.
	later bool
}

// judgeStart compares where the logs start.
func judgeStart(src, dst Bounds, want startRule) (Finding, bool) {
	switch {
	case src.Start == dst.Start || !want.follows || want.later && dst.Start > src.Start:
		return Finding{}, false
	case dst.Start > src.Start:
		return Finding{Kind: Start, Offset: src.Start, Records: 1,
			Detail: fmt.Sprintf("the source starts at %d, the target %d offsets later, at %d", src.Start, dst.Start-src.Start, dst.Start)}, true
	default:
		return Finding{Kind: Start, Offset: dst.Start, Records: 1,
			Detail: fmt.Sprintf("the source starts at %d, the target still at %d", src.Start, dst.Start)}, true
	}
}

// judgeEnd compares where the logs end. src and later are the source's ends
// before and after the target's was read: between them its end may lie.
func judgeEnd(src, dst, later int64) (Finding, bool) {
	switch {
	case dst < src:
		return Finding{Kind: End, Offset: dst, Records: 1,
			Detail: fmt.Sprintf("the source ends at %d, the target %d offsets before, at %d", src, src-dst, dst)}, true
	case dst > later:
		return Finding{Kind: End, Offset: later, Records: 1,
			Detail: fmt.Sprintf("the source ends at %d, the target goes on to %d", later, dst)}, true
	default:
		return Finding{}, false
	}
}
