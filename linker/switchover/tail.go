package switchover

import (
	"context"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
)

const (
	// tailOffsets is how far below the log end fences are looked for: each try of
	// each run leaves one at most.
	tailOffsets = 64
	// tailBytes holds as many markers, of 78 bytes each; a larger first batch comes
	// whole.
	tailBytes = 64 << 10
	// tailReads are how many tails are read at a time.
	tailReads = 64
)

// scanned is what some batches of a log show.
type scanned struct {
	// fence is the offset of the first fence, feed.Unknown for none.
	fence int64
	// next is the offset after the last batch, feed.Unknown where there is none.
	next int64
}

// scanFences looks for the first marker of a producer whose epoch is that of a
// fence or above. Nothing of the mirror can stand behind it.
func scanFences(batches [][]byte, producer int64, epoch int16) scanned {
	out := scanned{fence: feed.Unknown, next: feed.Unknown}
	for _, b := range batches {
		h, err := batch.ParseHeader(b)
		if err != nil {
			return out // of an old format, and so not ours; what follows is asked for anew
		}
		if out.fence == feed.Unknown && h.IsControl() && h.ProducerID == producer && h.ProducerEpoch >= epoch {
			out.fence = h.BaseOffset
		}
		out.next = h.BaseOffset + int64(h.LastOffsetDelta) + 1
	}
	return out
}

// findFence reads the tail of a partition's log for its first fence; ok is false
// where it could not be read.
func (s *Switch) findFence(ctx context.Context, f *fate) (at int64, ok bool) {
	e := f.facts.ends
	if s.o.Reader == nil || e.LogEnd <= e.LogStart {
		return feed.Unknown, false
	}
	for next := max(e.LogStart, e.LogEnd-tailOffsets); next < e.LogEnd; {
		got, ok := s.scanAt(ctx, f, next)
		switch {
		case !ok || got.next <= next:
			return feed.Unknown, false
		case got.fence != feed.Unknown:
			return got.fence, true
		}
		next = got.next
	}
	return feed.Unknown, true
}

func (s *Switch) scanAt(ctx context.Context, f *fate, from int64) (scanned, bool) {
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return scanned{}, false
	}
	defer func() { <-s.reads }()
	ctx, cancel := context.WithTimeout(ctx, s.o.Times.Try)
	defer cancel()
	c, err := s.o.Reader.Read(ctx, f.place(), feed.TopicID(f.target.ID), from, tailBytes)
	if err != nil {
		s.log.Debug("tail cannot be read", keyTopic, f.target.Topic, keyPartition, f.n, keyErr, err)
		return scanned{}, false
	}
	defer c.Release()
	return scanFences(c.Batches, f.producer, f.fencer.least), true
}
