package survey

import (
	"context"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
)

// Target acts on target partitions, as the appender does for a mirror, so that
// what is tried is what a mirror does.
type Target interface {
	Append(ctx context.Context, t appender.Target, batch []byte, expect int64) appender.Result
	LogEnds(ctx context.Context, ts []appender.Target) map[appender.Target]appender.LogEnd
	ProducerState(ctx context.Context, t appender.Target, producerID int64) (appender.ProducerState, error)
	WriteMarkers(ctx context.Context, t appender.Target, m appender.Markers) appender.MarkerResult
}

// Reader reads one cluster once. Every error is a *feed.Fault. Read returns the
// batches from the one that holds from on, at least one whole batch where the
// log has any at or above from; the receiver releases the chunk.
type Reader interface {
	Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error)
	Read(ctx context.Context, p feed.Partition, id feed.TopicID, from int64, maxBytes int32) (*feed.Chunk, error)
}

// From finds the offset at which a link's start lets a mirror begin.
type From interface {
	Offset(ctx context.Context, p feed.Partition, id feed.TopicID, b feed.Bounds) (int64, error)
}

// Records tell what is on record of mirrors on the target.
type Records interface {
	Pad(link, sourceTopic string, partition int32) (control.PadRecord, bool)
	Epochs(link, sourceTopic string, partition int32) []control.Epoch
	Topic(link, sourceTopic string) (control.TopicRecord, bool)
}
