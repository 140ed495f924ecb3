package fetcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

const (
	// askTimeout bounds one question to a LogReader, retries included.
	askTimeout = 15 * time.Second
	// requestTimeout bounds one ListOffsets or OffsetForLeaderEpoch (C138).
	requestTimeout = 10 * time.Second
	// listWait is how long a broker may look through remote storage for a
	// ListOffsets (v10, KIP-1075). kgo waits so much longer for the answer, and
	// only that wait, not the end of ctx, ends a connection that is half open:
	// the stock 30 s would keep every later request on it waiting for 40 s.
	listWait = time.Second
	// readWait is how long a one-shot Fetch waits for data at a log's end.
	readWait = 100 * time.Millisecond
)

// LogReader answers single questions about logs of one cluster, source or
// target. It asks leaders only, retries while leadership moves, and gives up
// after 15 seconds. Its errors are *feed.Fault; after the end of ctx they also
// match ctx.Err(). It is safe for concurrent use.
type LogReader struct {
	cl      *kgo.Client
	leaders *leaders.Map
	budget  *Budget
	desks   desks
}

// NewLogReader returns a reader that asks through cl. Read uses cl's Fetch
// connection, and a Read whose ctx ends closes that connection under others.
func NewLogReader(cl *kgo.Client, m *leaders.Map, b *Budget) *LogReader {
	return &LogReader{cl: cl, leaders: m, budget: b}
}

// Bounds returns the ends of a partition's log by its leader: ListOffsets for
// start, last stable offset and high watermark, OffsetForLeaderEpoch of the
// current epoch for the true log end, which is Unknown where the broker cannot
// tell. The topic's id is checked after the answers, since they go by name; a
// zero id is not checked.
func (r *LogReader) Bounds(ctx context.Context, p feed.Partition, id feed.TopicID) (feed.Bounds, error) {
	var b feed.Bounds
	err := r.ask(ctx, question{Partition: p, id: id, next: feed.Unknown}, func(ctx context.Context, l leaders.Leader) error {
		b = feed.Bounds{LogStart: feed.Unknown, LastStable: feed.Unknown, HighWatermark: feed.Unknown,
			LogEnd: feed.Unknown, LeaderEpoch: l.Epoch, SeenAt: time.Now()}
		if err := r.ends(ctx, l, p, &b); err != nil {
			return err
		}
		if err := r.leaders.Refresh(ctx, p.Topic); err != nil {
			return err
		}
		sight, _ := r.leaders.Look(p.Topic, p.Partition)
		if !sight.Exists || otherID(id, sight.ID) {
			return kerr.UnknownTopicID
		}
		b.ID = sight.ID
		return nil
	})
	return b, err
}

// ends puts the four questions of Bounds at the same time.
func (r *LogReader) ends(ctx context.Context, l leaders.Leader, p feed.Partition, b *feed.Bounds) error {
	q := ofLog{Partition: p, leader: l.Epoch, epoch: l.Epoch}
	asked := []struct {
		pending
		to *int64
	}{
		{r.put(l.Broker, logStarts, q), &b.LogStart},
		{r.put(l.Broker, lastStables, q), &b.LastStable},
		{r.put(l.Broker, highWatermarks, q), &b.HighWatermark},
	}
	var end pending
	if l.Epoch != feed.NoEpoch {
		end = r.put(l.Broker, epochEnds, q)
	}
	for _, a := range asked {
		got, err := a.wait(ctx)
		if err != nil {
			return err
		}
		*a.to = got.offset
	}
	if l.Epoch == feed.NoEpoch {
		return nil
	}
	got, err := end.wait(ctx)
	b.LogEnd = got.offset
	return soft(err)
}

// soft drops the error of an optional request that the broker does not serve.
func soft(err error) error {
	if errors.Is(err, kerr.UnsupportedVersion) || errors.Is(err, kerr.UnsupportedForMessageFormat) {
		return nil
	}
	return err
}

// EpochEnd returns the largest leader epoch of the log that is not above epoch,
// and where it ends (exclusive); NoEpoch and Unknown where the leader does not
// know (OffsetForLeaderEpoch, KIP-320).
func (r *LogReader) EpochEnd(ctx context.Context, p feed.Partition, epoch int32) (got int32, end int64, err error) {
	err = r.ask(ctx, question{Partition: p, next: feed.Unknown}, func(ctx context.Context, l leaders.Leader) error {
		a, err := r.put(l.Broker, epochEnds, ofLog{Partition: p, leader: l.Epoch, epoch: epoch}).wait(ctx)
		got, end = a.epoch, a.offset
		return err
	})
	return got, end, err
}

// ReadRequest says what Read reads.
type ReadRequest struct {
	feed.Partition
	// ID is the topic's id, zero where the cluster has none.
	ID feed.TopicID
	// From is the first offset wanted; the first batch may begin below it.
	From int64
	// MaxBytes bounds the answer, but for a larger first batch;
	// DefaultPartitionBytes if not above zero.
	MaxBytes int32
	// ReadCommitted ends the read at the last stable offset and lists aborted
	// transactions; else it ends at the high watermark.
	ReadCommitted bool
}

// Read fetches one partition alone, once. At the end of the log it waits 100 ms
// for data and then returns a chunk without batches; answers that a quota
// emptied are not taken for that. An offset outside the log is an Overrun or,
// beyond the end, a Diverged fault. The chunk's bytes count against the budget,
// for which Read waits as long as ctx allows: who holds chunks while calling
// Read may wait for himself.
func (r *LogReader) Read(ctx context.Context, req ReadRequest) (*feed.Chunk, error) {
	if req.MaxBytes <= 0 {
		req.MaxBytes = DefaultPartitionBytes
	}
	var c *feed.Chunk
	q := question{Partition: req.Partition, id: req.ID, next: req.From}
	err := r.ask(ctx, q, func(ctx context.Context, l leaders.Leader) (err error) {
		c, err = r.read(ctx, req, l)
		return err
	})
	var fault *feed.Fault
	if errors.As(err, &fault) && errors.Is(fault.Err, kerr.OffsetOutOfRange) {
		return nil, r.outside(ctx, req, fault)
	}
	return c, err
}

// outside tells on which side of the log an offset lies.
func (r *LogReader) outside(ctx context.Context, req ReadRequest, fault *feed.Fault) error {
	b, err := r.Bounds(ctx, req.Partition, req.ID)
	if err != nil {
		return err
	}
	fault.LogStart, fault.LogEnd, fault.Kind = b.LogStart, max(b.LogEnd, b.HighWatermark), feed.Diverged
	if req.From < b.LogStart {
		fault.Kind = feed.Overrun
	}
	return fault
}

func (r *LogReader) read(ctx context.Context, req ReadRequest, l leaders.Leader) (*feed.Chunk, error) {
	granted, err := r.budget.reserve(ctx, int64(req.MaxBytes), int64(req.MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("reserve fetch memory: %w", err)
	}
	resp, err := r.fetch(ctx, req, l, granted)
	if err != nil {
		r.budget.settle(granted, 0)
		return nil, err
	}
	p, err := only(resp)
	if err == nil && len(p.RecordBatches) == 0 && resp.ThrottleMillis > 0 {
		err = kerr.ThrottlingQuotaExceeded
	}
	if err != nil {
		r.budget.settle(granted, 0)
		return nil, err
	}
	x := part{resp: p, from: req.From, epoch: l.Epoch}
	if x.slice, err = cut(p.RecordBatches, req.From, feed.NoEpoch, l.Epoch); err != nil {
		r.budget.settle(granted, 0)
		return nil, err
	}
	if x.suspicious && x.bytes == 0 {
		r.budget.settle(granted, 0)
		return nil, kerr.FencedLeaderEpoch
	}
	c := x.makeChunk()
	held := int64(len(p.RecordBatches))
	r.budget.settle(granted, held)
	c.OnRelease(func() { r.budget.release(held) })
	return c, nil
}

func (r *LogReader) fetch(ctx context.Context, req ReadRequest, l leaders.Leader, maxBytes int64) (*kmsg.FetchResponse, error) {
	f := kmsg.NewPtrFetchRequest()
	f.MaxWaitMillis, f.MinBytes = int32(readWait.Milliseconds()), 1
	f.MaxBytes = int32(min(maxBytes, 1<<30))
	if req.ReadCommitted {
		f.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = req.Topic, req.ID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.CurrentLeaderEpoch = req.Partition.Partition, req.From, l.Epoch
	p.PartitionMaxBytes = f.MaxBytes
	t.Partitions = append(t.Partitions, p)
	f.Topics = append(f.Topics, t)
	var kreq kmsg.Request = f
	if req.ID.IsZero() {
		kreq = fetchByName{f}
	}
	resp, err := r.cl.Broker(int(l.Broker)).Request(ctx, kreq)
	if err != nil {
		return nil, fmt.Errorf("fetch from broker %d: %w", l.Broker, err)
	}
	return resp.(*kmsg.FetchResponse), nil
}

// only returns the single partition of an answer.
func only(resp *kmsg.FetchResponse) (*kmsg.FetchResponseTopicPartition, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("%w: not exactly the partition asked for", errDisorder)
	}
	p := &resp.Topics[0].Partitions[0]
	return p, kerr.ErrorForCode(p.ErrorCode)
}

// question is what a LogReader is asked about; next goes into faults.
type question struct {
	feed.Partition
	id   feed.TopicID
	next int64
}

// ask puts a question to the partition's leader until it is answered, the error
// is one that waiting does not mend, or time is up.
func (r *LogReader) ask(ctx context.Context, q question, do func(context.Context, leaders.Leader) error) error {
	bounded, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var (
		gone doubt
		last error // the latest that tells more than "time is up"
	)
	for try := 0; ; try++ {
		broker, err := r.once(bounded, q, try > 0, do)
		switch {
		case err == nil:
			return nil
		case bounded.Err() == nil || last == nil:
			last = err
		default:
			err = last
		}
		v, wait := classify(err), pause(try)
		if v.act == actLook && !errors.Is(err, kerr.OffsetOutOfRange) {
			sight, _ := r.leaders.Look(q.Topic, q.Partition.Partition)
			kind, found := gone.judge(position{id: q.id, next: q.next}, testimony{sight: sight}, time.Now())
			if found == believed {
				return q.fault(kind, broker, err)
			}
			if found == unsure && gone.seen != kind {
				gone.seen, gone.at = kind, time.Now()
			}
			v, wait = verdict{act: actMove, kind: feed.NoLeader, quiet: true}, max(wait, apart/4)
		}
		if !v.quiet || !sleep(bounded, wait) {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w (%w)", err, ctx.Err())
			}
			return q.fault(v.kind, broker, err)
		}
	}
}

// once puts a question once, with leaders learned anew where that may help.
func (r *LogReader) once(ctx context.Context, q question, again bool, do func(context.Context, leaders.Leader) error) (int32, error) {
	sight, _ := r.leaders.Look(q.Topic, q.Partition.Partition)
	if again || sight.Broker < 0 || sight.Err != nil || otherID(q.id, sight.ID) {
		if err := r.leaders.Refresh(ctx, q.Topic); err != nil {
			return -1, err
		}
		sight, _ = r.leaders.Look(q.Topic, q.Partition.Partition)
	}
	switch {
	case sight.Err != nil:
		return -1, sight.Err
	case !sight.Exists:
		return -1, kerr.UnknownTopicOrPartition
	case otherID(q.id, sight.ID):
		return -1, kerr.UnknownTopicID
	case sight.Broker < 0:
		return -1, sight.Absence()
	}
	return sight.Broker, do(ctx, sight.Leader)
}

func (q question) fault(kind feed.Kind, broker int32, err error) *feed.Fault {
	x := feed.NewFault(kind, q.Partition, q.next, err)
	x.Broker = broker
	return x
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
