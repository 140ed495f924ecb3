package linker

import (
	"context"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
)

// Source opens streams on the source cluster. Obligations: F1 to F4 of package
// feed; Open may be called at any time and from any goroutine; a stream keeps
// trying through temporary faults.
type Source interface {
	Open(start feed.Start) feed.Stream
}

// Reader reads either cluster once. Every error is a *feed.Fault. Read returns
// the batches from the one that holds from on, at least one whole batch where
// the log has any at or above from; the receiver releases the chunk.
type Reader interface {
	Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error)
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// Target acts on target partitions. Obligations: Append never sends a batch
// twice and says Unknown where it cannot tell; LogEnds tells the leader's log
// end beyond the high watermark.
type Target interface {
	Append(ctx context.Context, t appender.Target, b []byte, expect int64) appender.Result
	LogEnds(ctx context.Context, ts []appender.Target) map[appender.Target]appender.LogEnd
	ProducerState(ctx context.Context, t appender.Target, producerID int64) (appender.ProducerState, error)
}

// Lineage keeps source leader epochs on the target. PutEpoch returns once the
// cluster acknowledged the record (K3).
type Lineage interface {
	Epochs(link, topic string, partition int32) []control.Epoch
	PutEpoch(ctx context.Context, r control.EpochRecord) error
}

// Memory tells whether somebody waits for the fetch budget, so that data which
// cannot be used now should be dropped and read again later.
type Memory interface {
	Contended() bool
}
