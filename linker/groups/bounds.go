package groups

import (
	"context"
	"sync"
	"time"

	"klink/fetcher/feed"
)

const (
	// boundsFor is how old a high watermark or log start may be. A log that lost
	// its tail is noticed within that time (C014).
	boundsFor = 10 * time.Second
	// boundsAtMost is how old one may be that cannot be asked for again.
	boundsAtMost = 30 * time.Second
)

// bounds remembers the ends of the target's partitions. It is safe for concurrent
// use.
type bounds struct {
	target cluster
	now    func() time.Time

	mu    sync.Mutex // guards known; not held over a request
	known map[feed.Partition]*seen
}

type seen struct {
	Bounds
	// high and start are when each was asked for.
	high, start time.Time
}

func newBounds(target cluster, now func() time.Time) *bounds {
	return &bounds{target: target, now: now, known: make(map[feed.Partition]*seen)}
}

// of gives the ends of partitions, asked anew where they are old, or where a high
// watermark is below what is wanted. It was no higher than told when it was asked
// for, and only rises but for an unclean election: so a commit up to it is not
// beyond it (U2).
func (b *bounds) of(ctx context.Context, want map[feed.Partition]int64) map[feed.Partition]Bounds {
	now := b.now()
	var high, start []feed.Partition
	b.mu.Lock()
	for p, offset := range want {
		s := b.known[p]
		if s == nil || s.HighWatermark < offset || now.Sub(s.high) >= boundsFor {
			high = append(high, p)
		}
		if s == nil || now.Sub(s.start) >= boundsFor {
			start = append(start, p)
		}
	}
	b.mu.Unlock()
	if len(high) > 0 {
		b.take(b.target.ends(ctx, latest, high), now, func(s *seen, at int64) { s.HighWatermark, s.high = at, now })
	}
	if len(start) > 0 {
		b.take(b.target.ends(ctx, earliest, start), now, func(s *seen, at int64) { s.Start, s.start = at, now })
	}
	return b.fresh(want, now)
}

func (b *bounds) take(got map[feed.Partition]int64, now time.Time, set func(*seen, int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, at := range got {
		s := b.known[p]
		if s == nil {
			s = &seen{Bounds: Bounds{Start: feed.Unknown, HighWatermark: feed.Unknown}}
			b.known[p] = s
		}
		set(s, at)
	}
}

func (b *bounds) fresh(want map[feed.Partition]int64, now time.Time) map[feed.Partition]Bounds {
	out := make(map[feed.Partition]Bounds, len(want))
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range want {
		if s := b.known[p]; s != nil && now.Sub(s.high) < boundsAtMost {
			out[p] = s.Bounds
		}
	}
	return out
}
