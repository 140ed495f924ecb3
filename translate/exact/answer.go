package exact

import "sort"

// Kind is how an Answer was found.
type Kind int

// The kinds.
const (
	// None: nothing was copied yet, or it is below what is known (Map.Adopt). The offset
	// means nothing.
	None Kind = iota
	// Exact: the record at the offset was copied; the answer is its copy.
	Exact
	// Next: nothing was copied from the offset; the answer is the next copy.
	Next
	// BelowMap: the offset is below all that was copied, or that is still known; the
	// answer is the first copy.
	BelowMap
	// AtEnd: the offset is the end of what was copied, or nothing to be copied lies
	// between them; the answer is the end on the other side.
	AtEnd
	// Ahead: the offset is beyond the end; the answer is the end on the other side.
	Ahead
)

// String returns the kind's name as in JSON.
func (k Kind) String() string {
	return [...]string{"none", "exact", "next", "below_map", "at_end", "ahead"}[k]
}

// Answer is a translated offset.
type Answer struct {
	Offset int64
	Kind   Kind
	// Ahead is by how much the offset asked for lies beyond the end, in its own
	// log's offsets; 0 for other kinds.
	Ahead int64
}

// ToTarget translates a committed source offset, which is that of the next record
// to be read (E3).
func (m *Map) ToTarget(src int64) Answer {
	n := len(m.runs)
	if n == 0 || src < m.floor {
		return Answer{}
	}
	i := sort.Search(n, func(i int) bool { return m.runs[i].SrcEnd() > src })
	switch {
	case i == n:
		return m.beyond(src, m.src, m.runs[n-1].DstEnd())
	case src >= m.runs[i].Src:
		return Answer{Offset: m.runs[i].Dst + src - m.runs[i].Src, Kind: Exact}
	case i == 0:
		return Answer{Offset: m.runs[0].Dst, Kind: BelowMap}
	default:
		return Answer{Offset: m.runs[i].Dst, Kind: Next}
	}
}

// ToSource translates a committed target offset back.
func (m *Map) ToSource(dst int64) Answer {
	n := len(m.runs)
	if n == 0 {
		return Answer{}
	}
	i := sort.Search(n, func(i int) bool { return m.runs[i].DstEnd() > dst })
	switch {
	case i == n:
		return m.beyond(dst, m.runs[n-1].DstEnd(), m.src)
	case dst >= m.runs[i].Dst:
		return Answer{Offset: m.runs[i].Src + dst - m.runs[i].Dst, Kind: Exact}
	case i == 0 && m.floor > 0:
		return Answer{}
	case i == 0:
		return Answer{Offset: m.runs[0].Src, Kind: BelowMap}
	default:
		return Answer{Offset: m.runs[i].Src, Kind: Next}
	}
}

// beyond answers for an offset with no copy at or above it.
func (m *Map) beyond(at, end, other int64) Answer {
	if at <= end {
		return Answer{Offset: other, Kind: AtEnd}
	}
	return Answer{Offset: other, Kind: Ahead, Ahead: at - end}
}
