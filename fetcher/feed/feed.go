package feed

import (
	"fmt"
	"sync"
	"time"
)

// Unknown stands for an offset that was not learned.
const Unknown int64 = -1

// NoEpoch stands for a leader epoch that was not learned.
const NoEpoch int32 = -1

// TopicID is the id that a cluster gave a topic when it was created (KIP-516).
// The zero value means the cluster has no topic ids.
type TopicID [16]byte

// String returns the id in hexadecimal.
func (id TopicID) String() string { return fmt.Sprintf("%x", id[:]) }

// IsZero reports whether the id is unknown.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// Partition names one partition of a topic of one cluster.
type Partition struct {
	Topic     string
	Partition int32
}

// String returns "topic/partition" for messages; it is not meant to be parsed.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Start tells where and with what lineage a reader begins.
type Start struct {
	Partition
	// ID must match the topic's id for as long as the stream lives.
	ID TopicID
	// Next is the first offset wanted.
	Next int64
	// LastEpoch is the source's leader epoch of the batch just below Next, sent
	// as LastFetchedEpoch (KIP-595) so that a truncated and regrown log is told
	// apart; NoEpoch where nothing was mirrored yet.
	LastEpoch int32
}

// Bounds are the ends of one partition's log as its leader reported them.
// Offsets are Unknown where the request that would tell them failed softly.
type Bounds struct {
	ID TopicID
	// LogStart is the first offset retained.
	LogStart int64
	// LastStable is the end for read_committed consumers (exclusive).
	LastStable int64
	// HighWatermark is the end for read_uncommitted consumers (exclusive).
	HighWatermark int64
	// LogEnd is the leader's true log end (exclusive), beyond the high
	// watermark where followers lag; from OffsetForLeaderEpoch of the current
	// epoch.
	LogEnd      int64
	LeaderEpoch int32
	SeenAt      time.Time
}

// Aborted is one aborted transaction as a read_committed Fetch lists it.
type Aborted struct {
	ProducerID  int64
	FirstOffset int64
}

// Chunk is what one Fetch brought for one partition. A Chunk without batches
// is news of the log's ends alone.
type Chunk struct {
	// Next is the offset that was asked for.
	Next int64
	// Batches are whole record batches (v2) or message-set entries (v0, v1) as
	// stored by the source; see F1. The receiver owns the bytes and may patch
	// them in place until it calls Release.
	Batches [][]byte
	// Bytes is the sum of the lengths of Batches.
	Bytes int
	// Aborted lists the aborted transactions that touch the chunk.
	Aborted []Aborted

	LogStart      int64
	LastStable    int64
	HighWatermark int64
	LeaderEpoch   int32
	SeenAt        time.Time

	once    sync.Once
	release func()
}

// OnRelease sets what Release does; the fetcher calls it once.
func (c *Chunk) OnRelease(f func()) { c.release = f }

// Release gives the chunk's bytes back to the fetch budget. Safe to call more
// than once; the bytes must not be touched afterwards.
func (c *Chunk) Release() {
	c.once.Do(func() {
		c.Batches = nil
		if c.release != nil {
			c.release()
		}
	})
}

// Event is one step of a Stream: exactly one of the fields is set.
type Event struct {
	Chunk *Chunk
	Fault *Fault
}

// Stream is one open reading of one partition.
type Stream struct {
	// Events is unbuffered and closed after a final Fault or Close.
	Events <-chan Event
	// Close ends the stream and waits for nothing; events not yet received are
	// dropped and their chunks released. Safe to call more than once.
	Close func()
}
