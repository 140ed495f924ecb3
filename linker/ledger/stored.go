package ledger

import (
	"fmt"
	"slices"
)

// Stored is an Index as it is kept.
type Stored struct {
	End     int64          `json:"end"`
	Windows []StoredWindow `json:"windows"`
}

// StoredWindow is a Window: Counts are absent where it is exact, and then Reason
// is that of all its offsets. Reasons are numbers, which never change (L1).
type StoredWindow struct {
	From   int64            `json:"from"`
	End    int64            `json:"end"`
	Reason Reason           `json:"reason,omitempty"`
	Counts map[Reason]int64 `json:"counts,omitempty"`
}

// Encode returns the index in the form that is kept.
func (x *Index) Encode() Stored {
	s := Stored{End: x.end, Windows: make([]StoredWindow, 0, len(x.windows))}
	for _, w := range x.windows {
		sw := StoredWindow{From: w.From, End: w.End}
		if w.Exact() {
			sw.Reason = w.Counts[0].Reason
		} else {
			sw.Counts = make(map[Reason]int64, len(w.Counts))
			for _, c := range w.Counts {
				sw.Counts[c.Reason] = c.Offsets
			}
		}
		s.Windows = append(s.Windows, sw)
	}
	return s
}

// Decode is the inverse of Encode. It fails for what no index encodes to.
func Decode(s Stored) (*Index, error) {
	x := &Index{end: s.End, windows: make([]Window, 0, len(s.Windows))}
	last := int64(0)
	for _, sw := range s.Windows {
		w, err := sw.window()
		if err != nil {
			return nil, err
		}
		if w.From < last {
			return nil, fmt.Errorf("ledger window at %d begins below %d", w.From, last)
		}
		last = w.End
		x.windows = append(x.windows, w)
	}
	if s.End < last {
		return nil, fmt.Errorf("ledger ends at %d and has a window up to %d", s.End, last)
	}
	if len(x.windows) > MaxWindows {
		x.windows = squeeze(x.windows, squeezeTo)
	}
	return x, nil
}

func (s StoredWindow) window() (Window, error) {
	w := Window{From: s.From, End: s.End}
	if s.From < 0 || s.End <= s.From {
		return w, fmt.Errorf("ledger window from %d to %d", s.From, s.End)
	}
	if len(s.Counts) == 0 {
		w.Counts = []Count{{s.Reason, s.End - s.From}}
		return w, nil
	}
	room := s.End - s.From
	for r, n := range s.Counts {
		if n < 1 || n > room {
			return w, fmt.Errorf("ledger window from %d to %d with %d offsets for %s", s.From, s.End, n, r)
		}
		room -= n
		w.Counts = append(w.Counts, Count{r, n})
	}
	slices.SortFunc(w.Counts, byReason)
	return w, nil
}
