package translate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrNoTopic: the cluster does not have the topic, or does not show it to this
// principal.
var ErrNoTopic = errors.New("the topic is not there")

// Read is how a topic was read.
type Read struct {
	Topic string
	// Records is how many there were; Undecodable how many of them were not what they
	// should be (T2), the last of them at UndecodableAt.
	Records, Undecodable, UndecodableAt int64
	// Next is the offset below which all was read; End the log's end as it was when
	// the read began, Unknown where no broker told it.
	Next, End int64
	// Newest is the highest timestamp among the records; zero for none.
	Newest time.Time
	// Complete and TimedOut are T1.
	Complete, TimedOut bool
}

const (
	// fetchBytes bounds one answer; a larger first batch comes whole (KIP-74).
	fetchBytes = 4 << 20
	// fetchWait is how long a broker may wait for records that it says it has.
	fetchWait = 500 * time.Millisecond
	// settleWait is the pause before another try where a leader moves.
	settleWait = 100 * time.Millisecond
	// remoteMillis is how long a broker may look through remote storage (KIP-1075).
	remoteMillis = 1000
)

// Timestamps with a meaning in ListOffsets.
const (
	latest   int64 = -1
	earliest int64 = -2
)

// log reads partition 0 of a topic, the only one that MirrorMaker 2 uses, with raw
// fetches. kgo's consumer would not do: it hides the position behind batches that
// compaction emptied, so that the end could never be known to be reached.
type log struct {
	cl     *kgo.Client
	topic  string
	id     [16]byte
	leader int32
	next   int64
}

// readAll reads a topic from its first record to the end that it had when the read
// began. The error is not about a deadline, which is told by TimedOut; it is
// ErrNoTopic where that is so.
func readAll(ctx context.Context, cl *kgo.Client, topic string, take func(*kgo.Record) error) (Read, error) {
	r := Read{Topic: topic, End: Unknown, UndecodableAt: Unknown}
	l := &log{cl: cl, topic: topic}
	err := l.retry(ctx, func() error { return l.begin(ctx, &r) })
	for err == nil && l.next < r.End {
		err = l.retry(ctx, func() error { return l.piece(ctx, &r, take) })
	}
	r.Next, r.Complete = l.next, err == nil
	switch {
	case err == nil:
		return r, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.TimedOut = true
		return r, nil
	default:
		return r, fmt.Errorf("read %s: %w", topic, err)
	}
}

// retry tries again while what stands in the way passes by itself.
func (l *log) retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || !passes(err) {
			return err
		}
		if !pause(ctx, settleWait) {
			return ctx.Err()
		}
		if err := l.locate(ctx); err != nil && !passes(err) {
			return err
		}
	}
}

// passes tells whether what stands in the way ends by itself: a leader that moves,
// a broker that restarts.
func passes(err error) bool { return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) }

// begin finds the leader and the log's bounds.
func (l *log) begin(ctx context.Context, r *Read) error {
	err := l.locate(ctx)
	if err != nil {
		return err
	}
	if r.End, err = l.edge(ctx, latest); err != nil {
		return err
	}
	l.next, err = l.edge(ctx, earliest)
	return err
}

func (l *log) locate(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(l.topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("metadata of %d topics instead of one", len(resp.Topics))
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return ErrNoTopic
	case err != nil:
		return err
	}
	l.id = resp.Topics[0].TopicID
	for _, p := range resp.Topics[0].Partitions {
		if p.Partition == 0 && p.Leader >= 0 {
			l.leader = p.Leader
			return nil
		}
	}
	return kerr.LeaderNotAvailable
}

// edge asks for one end of the log.
func (l *log) edge(ctx context.Context, timestamp int64) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = timestamp, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = l.topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrListOffsetsRequest()
	req.TimeoutMillis = remoteMillis
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.cl.Broker(int(l.leader)))
	if err != nil {
		return Unknown, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return Unknown, errors.New("the answer does not hold one partition")
	}
	got := resp.Topics[0].Partitions[0]
	return got.Offset, kerr.ErrorForCode(got.ErrorCode)
}

// piece reads some records. Where the log ends before End by now, it was cut off.
func (l *log) piece(ctx context.Context, r *Read, take func(*kgo.Record) error) error {
	p, err := l.fetch(ctx)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		// Retention, or a new leader that has less.
		if l.next, err = l.edge(ctx, earliest); err == nil {
			r.End, err = l.edge(ctx, latest)
		}
		return err
	}
	if err != nil {
		return err
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: l.next, Topic: l.topic},
		p, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return fmt.Errorf("from offset %d on: %w", l.next, got.Err)
	}
	l.next, r.End = next, min(r.End, p.HighWatermark)
	for _, rec := range got.Records {
		r.take(rec, take)
	}
	return nil
}

// take counts a record.
func (r *Read) take(rec *kgo.Record, decode func(*kgo.Record) error) {
	r.Records++
	if rec.Timestamp.After(r.Newest) {
		r.Newest = rec.Timestamp
	}
	if decode(rec) != nil {
		r.Undecodable++
		r.UndecodableAt = rec.Offset
	}
}

func (l *log) fetch(ctx context.Context) (*kmsg.FetchResponseTopicPartition, error) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = l.next, fetchBytes, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = l.topic, l.id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(fetchWait.Milliseconds()), 1, fetchBytes
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.cl.Broker(int(l.leader)))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer does not hold one partition")
	}
	got := &resp.Topics[0].Partitions[0]
	return got, kerr.ErrorForCode(got.ErrorCode)
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
