package fetcher

import (
	"slices"
	"time"
)

const (
	// farAway is how long answers take, at the least, from a broker behind a slow
	// network: one nearby that has data answers within some milliseconds, also
	// when it is busy.
	farAway = 20 * time.Millisecond
	// farParts takes the place of budgetParts then. What a lane can read in a
	// second is what one request brings, once per round trip; so half the budget
	// is under way while the other half is being appended.
	farParts = 2
)

// trips are how long the last answers took that did not wait for data.
type trips struct {
	took [8]time.Duration
	n    int
}

func (t *trips) add(d time.Duration) {
	t.took[t.n%len(t.took)] = d
	t.n++
}

// far reports whether all of them took long; a few alone tell nothing.
func (t *trips) far() bool {
	return t.n >= len(t.took)/2 && slices.Min(t.took[:min(t.n, len(t.took))]) >= farAway
}
