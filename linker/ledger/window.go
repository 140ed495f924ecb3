package ledger

import (
	"cmp"
	"slices"
)

// Count is how many offsets have a reason.
type Count struct {
	Reason  Reason
	Offsets int64
}

func byReason(a, b Count) int { return cmp.Compare(a.Reason, b.Reason) }

// Window is a stretch of a partition in which offsets are listed: the first and
// the last one at least.
type Window struct {
	From, End int64
	// Counts has each reason that occurs once, in the order of their numbers.
	// Together they are at most End-From; what is missing are copies.
	Counts []Count
}

// Exact reports whether every offset of the window is listed, all with one
// reason: then it is a Range.
func (w Window) Exact() bool { return len(w.Counts) == 1 && w.Counts[0].Offsets == w.End-w.From }

// has reports whether any offset of the window has one of the reasons.
func (w Window) has(reasons ...Reason) bool {
	return slices.ContainsFunc(w.Counts, func(c Count) bool { return slices.Contains(reasons, c.Reason) })
}

// join makes one window of two neighbours; a lies below b.
func join(a, b Window) Window {
	counts := slices.Concat(a.Counts, b.Counts)
	slices.SortFunc(counts, byReason)
	kept := counts[:0]
	for _, c := range counts {
		if n := len(kept); n > 0 && kept[n-1].Reason == c.Reason {
			kept[n-1].Offsets += c.Offsets
		} else {
			kept = append(kept, c)
		}
	}
	return Window{From: a.From, End: b.End, Counts: slices.Clip(kept)}
}

// pair is two neighbouring windows that could become one.
type pair struct {
	at int // the place of the lower one
	// mixes says that offsets that were lost, padded or accepted would be put
	// together with others.
	mixes bool
	span  int64
}

// compare orders pairs by how little is lost when they are merged: short ones
// first, since they say nearly as much together, and of equals the older.
func (p pair) compare(o pair) int {
	if p.mixes != o.mixes {
		if o.mixes {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(p.span, o.span), cmp.Compare(p.at, o.at))
}

// squeeze merges neighbours until at most limit windows are left (L4).
func squeeze(windows []Window, limit int) []Window {
	for len(windows) > limit {
		pairs := make([]pair, 0, len(windows)-1)
		for i := range len(windows) - 1 {
			a, b := windows[i], windows[i+1]
			pairs = append(pairs, pair{at: i, mixes: a.has(Padded, Retention) != b.has(Padded, Retention) || a.has(Accepted) != b.has(Accepted), span: b.End - a.From})
		}
		slices.SortFunc(pairs, pair.compare)
		windows = merge(windows, pairs, len(windows)-limit)
	}
	return windows
}

// merge merges up to n of the pairs, the first ones first. A window is in one
// merger at most, since the next round knows better what is short then.
func merge(windows []Window, pairs []pair, n int) []Window {
	taken := make([]bool, len(windows))
	lower := make([]bool, len(windows))
	merged := 0
	for _, p := range pairs {
		// What mixes waits for a round in which nothing else is left.
		if merged == n || p.mixes && merged > 0 {
			break
		}
		if taken[p.at] || taken[p.at+1] {
			continue
		}
		taken[p.at], taken[p.at+1], lower[p.at] = true, true, true
		merged++
	}
	out := make([]Window, 0, len(windows))
	for i := 0; i < len(windows); i++ {
		if !lower[i] {
			out = append(out, windows[i])
			continue
		}
		out = append(out, join(windows[i], windows[i+1]))
		i++
	}
	return out
}
