package switchover

import (
	"context"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/topics"
)

// Store is the control topic, as control.Store has it: every Put that returns
// nil is on record, every one that fails may be. Changed may never fire, as it
// does where Recorded stands in.
type Store interface {
	CatchUp(ctx context.Context) error
	Changed() <-chan struct{}
	Link(name string) (control.LinkRecord, bool)
	Topics(link string) []control.TopicRecord
	States(link string) []control.StateRecord
	Pad(link, sourceTopic string, partition int32) (control.PadRecord, bool)
	Ledger(link, sourceTopic string, partition int32) (control.LedgerRecord, bool)
	Groups(link string) []control.GroupRecord

	Commands(link string) []intent.Command
	Intents(link string) intent.Intents
	PutCommand(ctx context.Context, c intent.Command) error
	Acks(link, topic string) []control.AckRecord
	Cuts(link, switchID string) []control.CutRecord
	PutCuts(ctx context.Context, rs []control.CutRecord) error

	ReserveCounters(ctx context.Context, r control.CounterRequest) (first int32, err error)
	CounterEnd(link, sourceTopic string, sourceID feed.TopicID, partition int32) int32
}

// Target acts on target partitions, as appender.Appender does. Its Run must be
// running.
type Target interface {
	Ends(ctx context.Context, ts []appender.Target) map[appender.Target]appender.Ends
	WriteMarkers(ctx context.Context, t appender.Target, m appender.Markers) appender.MarkerResult
	ProducerStates(ctx context.Context, producerIDs map[appender.Target]int64) map[appender.Target]appender.AskedState
}

// Reader reads a target partition once, up to its high watermark or its last
// stable offset: the batches from the one that holds from on. The receiver
// releases the chunk.
type Reader interface {
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// SourceEnds asks the source where its logs end. The answer holds every
// partition that was asked for.
type SourceEnds interface {
	SourceEnds(ctx context.Context, ps []feed.Partition) (map[feed.Partition]SourceEnd, error)
}

// SourceEnd is the end of one partition of the source.
type SourceEnd struct {
	// ID is the topic's, zero on clusters without topic ids.
	ID feed.TopicID
	// Stable is the last stable offset, End the high watermark, read in this
	// order; feed.Unknown with Err.
	Stable, End int64
	Err         error
}

// Settings brings the source's settings into force on target topics, as
// topics.Target does. The answers are in the order of the questions.
type Settings interface {
	Restore(ctx context.Context, rs []topics.Restoration) []topics.Restored
}

// Groups asks the target what its groups have committed.
type Groups interface {
	// Committed returns the offsets of the named groups by target partition. A
	// group that is not in the answer could not be asked.
	Committed(ctx context.Context, groups []string) (map[string]map[feed.Partition]int64, error)
}
