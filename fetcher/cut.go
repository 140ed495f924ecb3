package fetcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
)

// errDisorder says that the bytes of a partition's answer do not hold together
// or do not follow what was asked.
var errDisorder = errors.New("broken answer")

// lengthEnd is where the length field of a batch or message-set entry ends;
// the length counts from there.
const lengthEnd = 12

// slice is what can be used of one partition's answer.
type slice struct {
	batches [][]byte
	bytes   int
	// next follows the last batch; the asked offset where there is none.
	next int64
	// epoch is the last batch's leader epoch; the asked one's without batches,
	// NoEpoch after an entry of an old format.
	epoch int32
	// largest is the size of the largest batch seen, also of a cut one.
	largest int
	// suspicious: the answer was cut at a batch of a newer leader epoch than
	// the request named (C075).
	suspicious bool
}

// cut divides the bytes of one partition's answer into whole batches that
// follow next (F1). The partial tail is left out, batches that end below next
// are skipped, and nothing is taken from the first batch on whose leader epoch
// lies above leaderEpoch: such an answer was built while leadership moved. A
// leaderEpoch of NoEpoch switches that check off.
func cut(records []byte, next int64, lastEpoch, leaderEpoch int32) (slice, error) {
	s := slice{next: next, epoch: lastEpoch}
	for len(records) > 0 {
		b, rest, err := batch.First(records)
		if err != nil {
			return s.orErr(fmt.Errorf("%w: split at offset %d: %w", errDisorder, s.next, err))
		}
		if b == nil {
			s.largest = max(s.largest, wouldBe(rest))
			break
		}
		base, last, epoch, err := span(b)
		if err != nil {
			return s.orErr(err)
		}
		s.largest = max(s.largest, len(b))
		switch {
		case last < s.next && len(s.batches) == 0:
		case last < base, last < s.next, base < s.next && len(s.batches) > 0:
			return s.orErr(fmt.Errorf("%w: batch %d to %d where %d was next", errDisorder, base, last, s.next))
		case leaderEpoch != feed.NoEpoch && epoch > leaderEpoch:
			s.suspicious = true
			return s, nil
		default:
			if len(s.batches) == cap(s.batches) {
				s.batches = slices.Grow(s.batches, batch.LikelyEntries(records))
			}
			s.batches = append(s.batches, b)
			s.bytes += len(b)
			s.next, s.epoch = last+1, epoch
		}
		records = rest
	}
	return s, nil
}

// wouldBe is the size of an entry of which only the beginning came; 0 where that
// does not tell.
func wouldBe(cut []byte) int {
	if len(cut) < lengthEnd {
		return 0
	}
	return lengthEnd + max(0, int(int32(binary.BigEndian.Uint32(cut[8:lengthEnd]))))
}

// orErr keeps an error back while there are good batches before it: reading on
// from their end meets it again.
func (s slice) orErr(err error) (slice, error) {
	if len(s.batches) > 0 {
		return s, nil
	}
	return s, err
}

// span returns the offsets that an entry of any format covers and its leader
// epoch; old formats carry none.
func span(b []byte) (base, last int64, epoch int32, err error) {
	var h batch.Header
	if err = h.Parse(b); err == nil {
		return h.BaseOffset, h.LastOffset(), h.LeaderEpoch, nil
	}
	if !errors.Is(err, batch.ErrOldFormat) {
		return 0, 0, 0, fmt.Errorf("%w: read batch header: %w", errDisorder, err)
	}
	base, last, err = batch.OldFormatRange(b)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("%w: read message set entry: %w", errDisorder, err)
	}
	return base, last, feed.NoEpoch, nil
}
