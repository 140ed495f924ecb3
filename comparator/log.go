package comparator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/time/rate"

	"klink/fetcher/batch"
	"klink/fetcher/leaders"
)

const (
	// patience is how long a leader may be away before a read gives up.
	patience = 30 * time.Second
	// pause lies between tries of a request that was answered by an error.
	pause = 200 * time.Millisecond
	// fetchWait is how long a broker waits for data at the end of a log.
	fetchWait = 100 * time.Millisecond
	// emptyTwice is how many unthrottled answers without a batch end a log: after
	// one the broker may have met a first batch that it did not have in memory.
	emptyTwice = 2
)

// Special timestamps of ListOffsets.
const (
	latestOffset   = -1
	earliestOffset = -2
)

var errAnswer = errors.New("the answer is not about what was asked")

// cluster is one side.
type cluster struct {
	side    Side
	cl      *kgo.Client
	leaders *leaders.Map
	limit   *rate.Limiter // of bytes read; nil: none
}

// pace waits until so many bytes that were read are paid for.
func (c *cluster) pace(ctx context.Context, bytes int) error {
	for c.limit != nil && bytes > 0 {
		n := min(bytes, c.limit.Burst())
		if err := c.limit.WaitN(ctx, n); err != nil {
			return err
		}
		bytes -= n
	}
	return nil
}

// topicID is the id that a topic had when leaders were last learned, zero where it
// has none.
func (c *cluster) topicID(name string) [16]byte {
	t, _ := c.leaders.Topic(name)
	return t.ID
}

// log is one partition of a cluster.
type log struct {
	*cluster
	topic     string
	partition int32
}

// bounds asks the leader where the log starts and ends.
func (l *log) bounds(ctx context.Context) (b Bounds, err error) {
	if b.Start, err = l.listOffset(ctx, earliestOffset); err != nil {
		return b, err
	}
	b.LastStable, err = l.listOffset(ctx, latestOffset)
	return b, err
}

// listOffset returns the first offset at or after a time in milliseconds, or
// one of the special ones; -1 where there is none.
func (l *log) listOffset(ctx context.Context, at int64) (offset int64, err error) {
	err = l.ask(ctx, func(ctx context.Context, s leaders.Sight) error {
		req := kmsg.NewPtrListOffsetsRequest()
		req.IsolationLevel, req.TimeoutMillis = 1, int32(time.Second.Milliseconds())
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = l.topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = l.partition, s.Epoch, at
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, l.cl.Broker(int(s.Broker)))
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errAnswer
		}
		offset = resp.Topics[0].Partitions[0].Offset
		return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	})
	if err != nil {
		return 0, fmt.Errorf("list offsets: %w", err)
	}
	return offset, nil
}

// answer is what one Fetch brought.
type answer struct {
	parts []Part
	// start is the log start then.
	start int64
	bytes int
	// throttled: a quota may have emptied it.
	throttled bool
}

// fetch reads once from an offset on, as a read_committed consumer. An offset
// below the log's start gives kerr.OffsetOutOfRange.
func (l *log) fetch(ctx context.Context, from int64, maxBytes int32) (a answer, err error) {
	err = l.ask(ctx, func(ctx context.Context, s leaders.Sight) error {
		resp, err := l.cl.Broker(int(s.Broker)).Request(ctx, l.fetchRequest(s, from, maxBytes))
		if err != nil {
			return err
		}
		a, err = read(resp.(*kmsg.FetchResponse))
		return err
	})
	if err != nil {
		return a, fmt.Errorf("read from offset %d: %w", from, err)
	}
	return a, nil
}

func (l *log) fetchRequest(s leaders.Sight, from int64, maxBytes int32) kmsg.Request {
	f := kmsg.NewPtrFetchRequest()
	f.MaxWaitMillis, f.MinBytes, f.MaxBytes, f.IsolationLevel = int32(fetchWait.Milliseconds()), 1, maxBytes, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = l.topic, s.ID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = l.partition, from, s.Epoch, maxBytes
	t.Partitions = append(t.Partitions, p)
	f.Topics = append(f.Topics, t)
	if s.ID == [16]byte{} {
		return fetchByName{f}
	}
	return f
}

// fetchByName keeps a Fetch to the last version that names topics (v12, before
// KIP-516), for clusters without topic ids.
type fetchByName struct{ *kmsg.FetchRequest }

// MaxVersion is 12.
func (fetchByName) MaxVersion() int16 { return 12 }

func read(resp *kmsg.FetchResponse) (a answer, err error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return a, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return a, errAnswer
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return a, err
	}
	list := make([]Aborted, 0, len(p.AbortedTransactions))
	for _, x := range p.AbortedTransactions {
		list = append(list, Aborted{x.ProducerID, x.FirstOffset})
	}
	whole, _, err := batch.Split(p.RecordBatches)
	if err != nil && len(whole) == 0 {
		return a, err
	}
	a = answer{start: p.LogStartOffset, bytes: len(p.RecordBatches), throttled: resp.ThrottleMillis > 0}
	a.parts, err = Visible(whole, list)
	return a, err
}

// ask puts a question to the partition's leader and asks again while leadership
// moves or the broker is away.
func (l *log) ask(ctx context.Context, do func(context.Context, leaders.Sight) error) error {
	deadline := time.Now().Add(patience)
	for again := false; ; again = true {
		err := l.once(ctx, again, do)
		if err == nil || ctx.Err() != nil || !worthAgain(err) || time.Now().After(deadline) {
			return err
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// once asks with leaders learned anew where that may help.
func (l *log) once(ctx context.Context, again bool, do func(context.Context, leaders.Sight) error) error {
	sight, known := l.leaders.Look(l.topic, l.partition)
	if again || !known || sight.Broker < 0 || sight.Err != nil {
		if err := l.leaders.Refresh(ctx, l.topic); err != nil {
			return err
		}
		sight, _ = l.leaders.Look(l.topic, l.partition)
	}
	switch {
	case sight.Err != nil:
		return sight.Err
	case !sight.Exists:
		return kerr.UnknownTopicOrPartition
	case sight.Broker < 0:
		return sight.Absence()
	}
	return do(ctx, sight)
}

// worthAgain reports whether asking again may bring another answer. Whatever is
// not an answer of a broker is trouble of the way there.
func worthAgain(err error) bool {
	var answered *kerr.Error
	return !errors.As(err, &answered) && !malformed(err) || answered != nil && answered.Retriable && !errors.Is(err, kerr.OffsetOutOfRange)
}

// missing reports whether a cluster says that there is no such topic.
func missing(err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) }

func malformed(err error) bool {
	return errors.Is(err, batch.ErrMalformed) || errors.Is(err, batch.ErrCRC) || errors.Is(err, errAnswer)
}

// sleep reports whether the whole time passed before the end of ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
