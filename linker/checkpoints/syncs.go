package checkpoints

import (
	"klink/fetcher/feed"
	"klink/translate/exact"
	"klink/translate/mm2"
)

// lookBack is how many source offsets below a sync that proved wrong are tried for a
// record that was copied: transaction markers and holes lie between them.
const lookBack = 64

// Tip is what is known of a source partition's copies.
type Tip struct {
	// Run is the last one.
	Run exact.Run
	// HighWatermark is the target partition's.
	HighWatermark int64
	// At tells where the copy of a source record lies.
	At func(src int64) exact.Answer
}

// Syncs decides which offset syncs are written. Readers keep few of them, and of
// each partition the topic's cleaner keeps one; so they are samples, each time the
// first record of the last run and the last record that was copied. Both are pairs
// of a record and its copy, from which any reader translates safely (mm2, M4). The
// zero value knows none. It is not safe for concurrent use.
type Syncs struct {
	last map[feed.Partition]mm2.Sync
}

// Load takes in a sync that is on the target, whoever wrote it.
func (s *Syncs) Load(y mm2.Sync) {
	if s.last == nil {
		s.last = make(map[feed.Partition]mm2.Sync)
	}
	s.last[feed.Partition{Topic: y.Topic, Partition: y.Partition}] = y
}

// Next gives the syncs to write for a source partition, in order. They rise in both
// offsets, but for a first one below the last that was written, where that is wrong
// by now: MirrorMaker 2's readers forget all that they know when the source offset
// goes back (OffsetSyncStore).
func (s *Syncs) Next(p feed.Partition, tip Tip) []mm2.Sync {
	var out []mm2.Sync
	last, known := s.last[p]
	if known {
		back, wrong := s.correct(last, tip)
		if wrong && back == nil {
			return nil // nothing is known yet that would make readers forget
		}
		if wrong {
			out = append(out, *back)
			last = *back
		}
	}
	r := tip.Run
	for _, y := range []mm2.Sync{{Up: r.Src, Down: r.Dst}, {Up: r.SrcEnd() - 1, Down: r.DstEnd() - 1}} {
		if y.Down >= tip.HighWatermark || known && y.Up <= last.Up {
			continue
		}
		y.Topic, y.Partition = p.Topic, p.Partition
		out = append(out, y)
		last, known = y, true
	}
	return out
}

// correct tells whether the last sync is wrong by now, and gives a right one below it.
func (s *Syncs) correct(last mm2.Sync, tip Tip) (back *mm2.Sync, wrong bool) {
	switch a := tip.At(last.Up); a.Kind {
	case exact.None, exact.BelowMap:
		return nil, false // not known any more, and of no use to anybody
	case exact.Exact:
		wrong = a.Offset != last.Down
	case exact.Next:
		wrong = true
	case exact.AtEnd, exact.Ahead:
		// The target lost its end, unless the map that was asked lags behind.
		wrong = last.Down >= tip.HighWatermark
	}
	if !wrong {
		return nil, false
	}
	for up := min(last.Up, tip.Run.SrcEnd()) - 1; up >= max(0, last.Up-lookBack); up-- {
		if y := pair(last, up, tip); y != nil {
			return y, true
		}
	}
	for _, up := range []int64{tip.Run.SrcEnd() - 1, tip.Run.Src} {
		if y := pair(last, up, tip); up < last.Up && y != nil {
			return y, true
		}
	}
	return nil, true
}

// pair is the sync of a source offset, nil where no copy of it is in the target's log.
func pair(of mm2.Sync, up int64, tip Tip) *mm2.Sync {
	a := tip.At(up)
	if a.Kind != exact.Exact || a.Offset >= tip.HighWatermark {
		return nil
	}
	return &mm2.Sync{Topic: of.Topic, Partition: of.Partition, Up: up, Down: a.Offset}
}
