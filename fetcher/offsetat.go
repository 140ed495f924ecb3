package fetcher

import (
	"context"
	"time"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

// OffsetAt returns the first offset whose record has a timestamp of at least t
// (ListOffsets v1+, KIP-79); feed.Unknown where there is none. It needs
// Describe on the topic. The error is a *feed.Fault.
func (r *LogReader) OffsetAt(ctx context.Context, p feed.Partition, id feed.TopicID, t time.Time) (offset int64, err error) {
	q := question{Partition: p, id: id, next: feed.Unknown}
	err = r.ask(ctx, q, func(ctx context.Context, l leaders.Leader) (err error) {
		offset, err = r.offsetAt(ctx, l, ofLog{Partition: p, leader: l.Epoch}, t.UnixMilli())
		return err
	})
	if err != nil || offset < 0 {
		return feed.Unknown, err
	}
	return offset, nil
}
