package ownlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/leaders"
	"klink/linker/state"
)

// fetchBytes bounds one answer; a larger first batch comes whole (KIP-74).
const fetchBytes = 4 << 20

// lostAfter is how many looks in a row must find the topic gone: one broker
// that lags behind the controller tells of old times.
const lostAfter = 3

// listTimeoutMillis is how long a broker may look through remote storage for a
// ListOffsets (v10, KIP-1075). kgo adds it to its read deadline, which alone ends
// a connection that is half open; the stock 30 s would hold it for 40 s.
const listTimeoutMillis = 1000

// Log reads one of klink's own topics in log order with raw fetches. kgo's consumer
// would not do: it hides the position behind batches that compaction emptied,
// so that the end could never be known to be reached, and it hides that the
// topic was deleted. It is one goroutine's, but for what says otherwise.
type Log struct {
	topic   string
	cl      *kgo.Client
	leaders *leaders.Map

	id         [16]byte // pinned by the first Locate (L1)
	pinned     bool
	gone       int // looks in a row that did not find the pinned topic
	partitions int
	next       int64

	// Patience bounds each answer that ReadToEnd waits for; 0 for no bound but the
	// context's.
	Patience time.Duration
}

// Within is context.WithTimeout, without a timeout for 0.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// New returns a Log that is at its topic's offset 0 and has asked nobody yet. Close
// must be called on it; it does not close the client.
func New(cl *kgo.Client, topic string) *Log {
	return &Log{topic: topic, cl: cl, leaders: leaders.New(cl)}
}

// Close ends what New began.
func (t *Log) Close() { t.leaders.Close() }

// ID is the topic's id, once it was Located.
func (t *Log) ID() [16]byte { return t.id }

// Next is the offset below which everything was read.
func (t *Log) Next() int64 { return t.next }

// Locate refreshes the leader. The first call pins the topic's id; later ones
// fail with ErrLost once lostAfter looks in a row found another id, or no topic.
func (t *Log) Locate(ctx context.Context) error {
	op, right := "look up "+t.topic, "Describe on topic "+t.topic
	if err := t.leaders.Refresh(ctx, t.topic); err != nil {
		return Classify(op, right, err)
	}
	topic, ok := t.leaders.Topic(t.topic)
	switch {
	case !ok:
		return &Fault{Op: op, Reason: state.TopicMissing, Err: kerr.UnknownTopicOrPartition}
	case t.pinned && (errors.Is(topic.Err, kerr.UnknownTopicOrPartition) || topic.Err == nil && topic.ID != t.id):
		if t.gone++; t.gone >= lostAfter {
			return ErrLost
		}
		return &Fault{Op: op, Reason: state.TopicMissing, Err: kerr.UnknownTopicOrPartition}
	case topic.Err != nil:
		return Classify(op, right, topic.Err)
	}
	t.gone = 0
	if !t.pinned {
		t.id, t.pinned = topic.ID, true
	}
	t.partitions = len(topic.Leaders)
	if _, ok := t.leaders.Leader(t.topic, 0); !ok {
		return &Fault{Op: op, Reason: state.NoLeader, Err: kerr.LeaderNotAvailable}
	}
	return nil
}

// Fetched is one answer.
type Fetched struct {
	Records []*kgo.Record
	// End is the high watermark (exclusive).
	End int64
}

// fetch asks once, waiting up to maxWait where there is nothing new, and moves
// next behind what came.
func (t *Log) Fetch(ctx context.Context, maxWait time.Duration) (Fetched, error) {
	op, right := "read "+t.topic, "Read on topic "+t.topic
	leader, ok := t.leaders.Leader(t.topic, 0)
	if !ok {
		return Fetched{}, &Fault{Op: op, Reason: state.NoLeader, Err: kerr.LeaderNotAvailable}
	}
	resp, err := t.request(maxWait).RequestWith(ctx, t.cl.Broker(int(leader.Broker)))
	if err != nil {
		return Fetched{}, Classify(op, right, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return Fetched{}, Classify(op, right, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return Fetched{}, &Fault{Op: op, Reason: state.ControlUnwritable,
			Err: fmt.Errorf("the answer holds %d topics instead of one partition", len(resp.Topics))}
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return Fetched{}, Classify(op, right, err)
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: t.next, Topic: t.topic},
		p, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return Fetched{}, &Fault{Op: op, Reason: state.ControlUnwritable, Err: got.Err}
	}
	t.next = next
	return Fetched{Records: got.Records, End: p.HighWatermark}, nil
}

func (t *Log) request(maxWait time.Duration) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = 0, t.next, fetchBytes
	p.CurrentLeaderEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	// By id from Fetch v13 on: then a topic made anew is an error (L1).
	topic.Topic, topic.TopicID = t.topic, t.id
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(maxWait.Milliseconds())
	req.MinBytes, req.MaxBytes = 1, fetchBytes
	req.Topics = append(req.Topics, topic)
	return req
}

// mostDeaths is how often a connection may die while a log is read to its end: a
// request to one broker by name is not sent again by the client.
const mostDeaths = 3

// ReadToEnd reads everything that was committed when it was called.
func (t *Log) ReadToEnd(ctx context.Context, take func([]*kgo.Record) error) error {
	end, deaths := int64(-1), 0
	for end < 0 || t.next < end {
		got, err := t.answer(ctx, &deaths)
		if err != nil {
			return err
		}
		if end < 0 {
			end = got.End
		}
		if err := take(got.Records); err != nil {
			return err
		}
	}
	return nil
}

// answer asks until it is answered, within Patience, whatever stands in the way.
func (t *Log) answer(ctx context.Context, deaths *int) (Fetched, error) {
	ctx, cancel := Within(ctx, t.Patience)
	defer cancel()
	for {
		got, err := t.Fetch(ctx, 0)
		if err == nil {
			return got, nil
		}
		if kgo.IsRetryableBrokerErr(err) && *deaths < mostDeaths && Pause(ctx, SettleWait) {
			*deaths++
			continue
		}
		if err := t.recover(ctx, err); err != nil {
			return Fetched{}, err
		}
	}
}

// recover deals with answers that a moved leader, or a log that does not begin
// at 0, explains; any other error is given back.
func (t *Log) recover(ctx context.Context, err error) error {
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return t.ToStart(ctx)
	}
	if !kerr.IsRetriable(err) || !Pause(ctx, SettleWait) {
		return err
	}
	Located := t.Locate(ctx)
	if f := (*Fault)(nil); errors.As(Located, &f) && f.Reason == state.TopicMissing {
		return nil // a broker that lags behind; ErrLost follows if it is true
	}
	return Located
}

// ToStart moves to the first offset that the log retains: above 0 where the
// topic had another cleanup policy once.
func (t *Log) ToStart(ctx context.Context) error {
	start, err := t.edge(ctx, earliest)
	if err == nil {
		t.next = start
	}
	return err
}

// Timestamps with a meaning in ListOffsets.
const (
	latest   int64 = -1
	earliest int64 = -2
)

// End asks for the log's end: the high watermark, exclusive. It may be called from
// any goroutine once the topic was located.
func (t *Log) End(ctx context.Context) (int64, error) { return t.edge(ctx, latest) }

// Refresh looks for the topic's leader anew. It may be called from any goroutine.
func (t *Log) Refresh(ctx context.Context) error { return t.leaders.Refresh(ctx, t.topic) }

// edge asks for one end of the log: earliest, or latest, which is the high
// watermark. A leader that was just elected says OFFSET_NOT_AVAILABLE rather than
// an old one (KIP-207, ListOffsets v5+). It may be called from any goroutine.
func (t *Log) edge(ctx context.Context, timestamp int64) (int64, error) {
	op, right := "find the ends of "+t.topic, "Describe on topic "+t.topic
	leader, ok := t.leaders.Leader(t.topic, 0)
	if !ok {
		return 0, &Fault{Op: op, Reason: state.NoLeader, Err: kerr.LeaderNotAvailable}
	}
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = 0, timestamp
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = t.topic
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrListOffsetsRequest()
	req.TimeoutMillis = listTimeoutMillis
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, t.cl.Broker(int(leader.Broker)))
	if err != nil {
		return 0, Classify(op, right, err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, &Fault{Op: op, Reason: state.ControlUnwritable, Err: errors.New("the answer does not hold one partition")}
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return 0, Classify(op, right, err)
	}
	return got.Offset, nil
}
