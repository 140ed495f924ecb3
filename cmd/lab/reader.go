package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Isolation is what a consumer is to see of transactions.
type Isolation int

const (
	// ReadCommitted sees no record of an open or aborted transaction.
	ReadCommitted Isolation = iota
	// ReadUncommitted sees every record.
	ReadUncommitted
)

func (i Isolation) level() kgo.IsolationLevel {
	if i == ReadCommitted {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// Bounds are where a log begins and where a consumer's view of it ends: at the
// last stable offset or the high watermark, as the isolation has it.
type Bounds struct {
	Start int64
	End   int64 // exclusive
}

// ReadBounds asks for the bounds of every partition of the topics.
func ReadBounds(ctx context.Context, c Cluster, isolation Isolation, topics ...string) (map[Partition]Bounds, error) {
	client, err := adminClient(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	list := admin.ListCommittedOffsets
	if isolation == ReadUncommitted {
		list = admin.ListEndOffsets
	}
	ends, err := list(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	bounds := map[Partition]Bounds{}
	starts.Each(func(o kadm.ListedOffset) {
		end, ok := ends.Lookup(o.Topic, o.Partition)
		if ok {
			bounds[Partition{o.Topic, o.Partition}] = Bounds{o.Offset, end.Offset}
		}
	})
	return bounds, nil
}

// idlePoll is how long a reader waits for records before it looks whether none
// are to come.
const idlePoll = 300 * time.Millisecond

// reader is an ordinary consumer of one partition from an offset up to another.
type reader struct {
	client    *kgo.Client
	partition Partition
	isolation Isolation
	next, end int64 // offset to come, and where to stop (exclusive)
	buffered  []*kgo.Record
}

// newReader reads from and up to (exclusive) offsets. Its memory is bounded by
// the client's buffer of some MiB.
func newReader(c Cluster, p Partition, isolation Isolation, from, to int64) (*reader, error) {
	client, err := kgo.NewClient(append(slices.Clone(c.AdminOpts()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.Topic: {p.Number: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a range that has gone is an error, never another range
		kgo.FetchIsolationLevel(isolation.level()),
		// Markers are no records, but they tell how far the log has been read.
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(4<<20),
		kgo.FetchMaxWait(idlePoll), kgo.MetadataMinAge(metadataAge),
	)...)
	if err != nil {
		return nil, err
	}
	return &reader{client: client, partition: p, isolation: isolation, next: from, end: to}, nil
}

func (r *reader) close() { r.client.Close() }

// read gives the next record, nil at the end of the range.
func (r *reader) read(ctx context.Context) (*kgo.Record, error) {
	for {
		for len(r.buffered) > 0 {
			rec := r.buffered[0]
			r.buffered = r.buffered[1:]
			if rec.Offset >= r.end {
				r.next, r.buffered = r.end, nil
				return nil, nil
			}
			if rec.Offset < r.next {
				return nil, fmt.Errorf("%s: offset %d after %d", r.partition, rec.Offset, r.next-1)
			}
			r.next = rec.Offset + 1
			if !rec.Attrs.IsControl() {
				return rec, nil
			}
		}
		if r.next >= r.end {
			return nil, nil
		}
		if err := r.poll(ctx); err != nil {
			return nil, fmt.Errorf("read %s at offset %d of %d: %w", r.partition, r.next, r.end, err)
		}
	}
}

// poll fills the buffer or moves next to the end.
func (r *reader) poll(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 2*idlePoll)
	defer cancel()
	fetches := r.client.PollFetches(limited)
	r.buffered = fetches.Records()
	if len(r.buffered) > 0 {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !kerr.IsRetriable(e.Err) {
			return e.Err
		}
	}
	return r.skipInvisible(ctx)
}

// skipInvisible moves next to the end if the log holds nothing visible from
// here on: the client drops aborted records and empty batches, and so would wait
// for ever where the range ends in them.
func (r *reader) skipInvisible(ctx context.Context) error {
	for at := r.next; ; {
		partition, err := r.fetch(ctx, at)
		if err != nil {
			return err
		}
		decoded, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: at, IsolationLevel: r.isolation.level(), Topic: r.partition.Topic, Partition: r.partition.Number,
		}, partition, kgo.DefaultDecompressor(), nil)
		if decoded.Err != nil && !kerr.IsRetriable(decoded.Err) {
			return decoded.Err
		}
		if len(decoded.Records) > 0 && decoded.Records[0].Offset < r.end || next <= at {
			return nil // something is there, or nothing can be said: the consumer goes on
		}
		if next >= r.end {
			r.next = r.end
			return nil
		}
		at = next
	}
}

// fetch asks the leader for the reader's partition, once.
func (r *reader) fetch(ctx context.Context, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	return fetchRaw(ctx, r.client, r.partition, r.isolation, at)
}

// fetchRaw asks a partition's leader for what lies at an offset, once. Nothing
// comes back where there is no leader or no answer: it is to be asked again.
func fetchRaw(ctx context.Context, client *kgo.Client, partition Partition, isolation Isolation, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	metadata, err := kadm.NewClient(client).Metadata(ctx, partition.Topic)
	if err != nil {
		return nil, err
	}
	topic := metadata.Topics[partition.Topic]
	leader := topic.Partitions[partition.Number].Leader
	if topic.Err != nil || leader < 0 {
		return &kmsg.FetchResponseTopicPartition{}, nil
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 100, 1, 4<<20
	req.IsolationLevel = int8(1 - isolation)
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = partition.Topic, topic.ID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition.Number, at, 4<<20
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client.Broker(int(leader)))
	if err != nil || len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return &kmsg.FetchResponseTopicPartition{}, ctx.Err()
	}
	return &resp.Topics[0].Partitions[0], nil
}
