package control

import (
	"context"
	"fmt"

	"klink/fetcher/feed"
	"klink/linker/ledger"
	"klink/linker/ownlog"
)

// CounterRequest asks for marker counters of one partition.
type CounterRequest struct {
	Link string
	// Topic is the source topic, SourceID the incarnation it belongs to.
	Topic     string
	SourceID  feed.TopicID
	Partition int32
	// Owner is unique to one run of one process, as WorkerRecord.Worker is.
	Owner string
	// Count of counters, at least 1.
	Count int32
	// Above is the highest counter that the target itself shows for the
	// partition; -1 where it shows none.
	Above int32
}

func (r CounterRequest) line() lineKey {
	return lineKey{topicKey{r.Link, r.Topic}, r.SourceID, r.Partition}
}

type blockKey struct {
	owner string
	first int32
}

// block is the counters [first, end) of a partition.
type block struct {
	line lineKey
	blockKey
	end int32
	// offset is where it stands in the log.
	offset int64
}

type countersValue struct {
	Version int   `json:"version"`
	End     int32 `json:"end"`
}

func encodeCounters(b block) (Key, any) {
	return Key{Kind: KindCounters, Link: b.line.link, Topic: b.line.topic, SourceID: encodeID(b.line.id),
		Partition: b.line.partition, First: b.first, Worker: b.owner}, countersValue{Version: versions[KindCounters], End: b.end}
}

func (v countersValue) block(k Key) (block, error) {
	id, err := decodeID(k.SourceID)
	if err != nil {
		return block{}, err
	}
	if k.First < 0 || v.End <= k.First || v.End > ledger.CounterLimit || k.Worker == "" {
		return block{}, fmt.Errorf("counters from %d to %d of owner %q", k.First, v.End, k.Worker)
	}
	return block{line: lineKey{topicKey{k.Link, k.Topic}, id, k.Partition}, blockKey: blockKey{k.Worker, k.First}, end: v.End}, nil
}

// reserve folds one block in.
func (v *View) reserve(b block) {
	if v.counters[b.line] == nil {
		v.counters[b.line] = make(map[blockKey]block)
	}
	v.counters[b.line][b.blockKey] = b
}

// CounterEnd is the end (exclusive) of all marker counters that were ever
// reserved for a partition of the given incarnation of its source topic; 0 where
// none was.
func (v *View) CounterEnd(link, sourceTopic string, sourceID feed.TopicID, partition int32) int32 {
	return v.counterEnd(lineKey{topicKey{link, sourceTopic}, sourceID, partition})
}

func (v *View) counterEnd(k lineKey) int32 {
	var end int32
	for _, b := range v.counters[k] {
		end = max(end, b.end)
	}
	return end
}

// nextBlock is the lowest block that may be free for an owner that was given
// counters up to given already. One whose writing failed, and that is not on
// record, comes again: under the same key it states the same.
func (v *View) nextBlock(r CounterRequest, given int32) (block, error) {
	first := max(int64(r.Above)+1, int64(v.counterEnd(r.line())), int64(given))
	end := first + int64(r.Count)
	if end > ledger.CounterLimit {
		return block{}, fmt.Errorf("%w: %d of %d are taken, %d more are needed", ErrCountersSpent, first, ledger.CounterLimit, r.Count)
	}
	return block{line: r.line(), blockKey: blockKey{r.Owner, int32(first)}, end: int32(end)}, nil
}

// undisputed reports whether a block that was written at its offset may be used
// (C6). The view must have been read past that offset.
func (v *View) undisputed(own block) bool {
	for k, b := range v.counters[own.line] {
		if k == own.blockKey {
			continue
		}
		// Of two that ask for the same the first in the log gets it. One that
		// begins above may be all that is left to tell of an earlier rival.
		if b.offset < own.offset && b.end > own.first || b.first > own.first {
			return false
		}
	}
	// Gone: the owner of a higher block took it off. Written later: somebody
	// else goes by the same owner.
	now, ok := v.counters[own.line][own.blockKey]
	return ok && now.offset == own.offset
}

// superseded lists the blocks that own makes needless.
func (v *View) superseded(own block) []block {
	var out []block
	for k, b := range v.counters[own.line] {
		if k != own.blockKey && b.end <= own.first {
			out = append(out, b)
		}
	}
	return out
}

// ReserveCounters reserves Count neighbouring marker counters and returns the
// first. No other call, of this or any other Store, gets any of them (C6). They
// lie above Above and above every counter reserved before, and below
// ledger.CounterLimit; where there is no room left the error is
// ErrCountersSpent. Other errors are those of a Put: nothing was reserved, and
// asking again is right. It needs Run to be running, and goes on until ctx ends
// while others ask for the same.
func (s *Store) ReserveCounters(ctx context.Context, r CounterRequest) (first int32, err error) {
	if r.Count < 1 || r.Owner == "" {
		return 0, fmt.Errorf("reserve %d counters for owner %q", r.Count, r.Owner)
	}
	// One at a time: two calls of one owner would ask for one block under one key.
	if err := s.enter(ctx, r.line()); err != nil {
		return 0, err
	}
	defer s.leave(r.line())
	for {
		s.mu.Lock()
		b, err := s.view.nextBlock(r, s.given[r.line()])
		s.mu.Unlock()
		if err != nil {
			return 0, err
		}
		got, err := s.reserve(ctx, b)
		if err != nil {
			return 0, err
		}
		if got {
			return b.first, nil
		}
	}
}

// reserve writes a block and reports whether it is the caller's.
func (s *Store) reserve(ctx context.Context, b block) (bool, error) {
	k, v := encodeCounters(b)
	offset, err := s.putThrough(ctx, k, v)
	if err != nil {
		return false, err
	}
	b.offset = offset
	s.mu.Lock()
	ok := s.view.undisputed(b)
	var needless []block
	if ok {
		s.given[b.line] = b.end
		needless = s.view.superseded(b)
	}
	s.mu.Unlock()
	return ok, s.sweep(ctx, needless)
}

// sweep takes needless blocks off the record. What stays is tried again by the
// next block's owner.
func (s *Store) sweep(ctx context.Context, needless []block) error {
	keys := make([]Key, 0, len(needless))
	for _, b := range needless {
		k, _ := encodeCounters(b)
		keys = append(keys, k)
	}
	return s.discard(ctx, keys...)
}

// enter waits for its turn to reserve counters of a partition.
func (s *Store) enter(ctx context.Context, k lineKey) error {
	for {
		s.mu.Lock()
		others, busy := s.reserving[k]
		if !busy {
			s.reserving[k] = make(chan struct{})
		}
		s.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-others:
		case <-ctx.Done():
			return ownlog.Classify("reserve counters in "+TopicName, "", ctx.Err())
		}
	}
}

func (s *Store) leave(k lineKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.reserving[k])
	delete(s.reserving, k)
}

// CounterEnd is the end of all counters ever reserved; see View.CounterEnd.
func (s *Store) CounterEnd(link, sourceTopic string, sourceID feed.TopicID, partition int32) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view.CounterEnd(link, sourceTopic, sourceID, partition)
}
