package appender

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/state"
)

// LogEnd is a partition's true log end, or why it could not be read.
type LogEnd struct {
	// End is the offset the next append gets, whether or not what lies below is
	// replicated yet; -1 with Err.
	End int64
	// LeaderEpoch is the epoch the leader answered in: the end is the end of
	// that leader's log.
	LeaderEpoch int32
	Leader      int32
	// Reason and Err (a *Fault) tell why there is no answer.
	Reason state.Reason
	Err    error
}

// LogEnds reads the true log ends of many partitions: OffsetForLeaderEpoch v3+
// (KIP-320) for the current leader epoch, asked as a consumer and fenced by
// CurrentLeaderEpoch, which a leader answers with its log end. The high
// watermark would not do: it lags behind an append that followers have not
// confirmed, which is exactly the append in doubt. Every target is in the
// result. It needs Describe on the topic. Run need not be running.
func (a *Appender) LogEnds(ctx context.Context, targets []Target) map[Target]LogEnd {
	out := make(map[Target]LogEnd, len(targets))
	var mu sync.Mutex // guards out
	faults := a.askLeaders(ctx, targets, question{op: "read log end", right: rightDescribe,
		put: func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error {
			return askEnds(ctx, to, about, func(r routed, end int64, err error) {
				if err == nil {
					mu.Lock()
					out[r.Target] = LogEnd{End: end, LeaderEpoch: r.leader.Epoch, Leader: r.leader.Broker}
					mu.Unlock()
				}
				reply(r.Target, err)
			})
		}})
	for t, f := range faults {
		out[t] = LogEnd{End: -1, LeaderEpoch: -1, Leader: f.Broker, Reason: f.Reason, Err: f}
	}
	return out
}

func askEnds(ctx context.Context, to *kgo.Broker, about []routed, reply func(routed, int64, error)) error {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	known := byTopic(about)
	for name, rs := range known {
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic, t.Partitions = name, make([]kmsg.OffsetForLeaderEpochRequestTopicPartition, 0, len(rs))
		for _, r := range rs {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = r.Partition, r.leader.Epoch, r.leader.Epoch
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.OffsetForLeaderEpochResponse)
	if !ok {
		return fmt.Errorf("log end answered by %T", kresp)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			r, ok := known.find(t.Topic, p.Partition)
			if !ok {
				continue
			}
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil && (p.LeaderEpoch != r.leader.Epoch || p.EndOffset < 0) {
				// -1: the leader has not entered its epoch yet. A lower epoch
				// comes with the end of that one, which is not the log's.
				err = fmt.Errorf("%w: asked for epoch %d, got epoch %d end %d",
					ErrNoAnswer, r.leader.Epoch, p.LeaderEpoch, p.EndOffset)
			}
			reply(r, p.EndOffset, err)
		}
	}
	return nil
}

// Bounds is what a consumer may read of a partition, or why it is unknown.
type Bounds struct {
	// Start is the log start offset, HighWatermark the end of what is
	// replicated; both -1 with Err.
	Start, HighWatermark int64
	LeaderEpoch          int32
	Reason               state.Reason
	Err                  error
}

// Bounds reads log starts and high watermarks (ListOffsets -2 and -1,
// read_uncommitted, fenced by the leader epoch). Every target is in the result.
func (a *Appender) Bounds(ctx context.Context, targets []Target) map[Target]Bounds {
	starts, faults := a.listOffsets(ctx, targets, listEarliest)
	marks, more := a.listOffsets(ctx, targets, listLatest)
	out := make(map[Target]Bounds, len(targets))
	for _, t := range targets {
		f := faults[t]
		if f == nil {
			f = more[t]
		}
		if f != nil {
			out[t] = Bounds{Start: -1, HighWatermark: -1, LeaderEpoch: -1, Reason: f.Reason, Err: f}
			continue
		}
		out[t] = Bounds{Start: starts[t].offset, HighWatermark: marks[t].offset, LeaderEpoch: marks[t].epoch}
	}
	return out
}

// Timestamps with a meaning in ListOffsets.
const (
	listLatest   = -1
	listEarliest = -2
)

// listWait is how long a broker may look through remote storage for a
// ListOffsets (v10, KIP-1075). kgo adds it to its read deadline, which alone
// ends a connection that is half open.
const listWait = time.Second

type listed struct {
	offset int64
	epoch  int32 // of the leader that was asked
}

func (a *Appender) listOffsets(ctx context.Context, targets []Target, which int64) (map[Target]listed, map[Target]*Fault) {
	out := make(map[Target]listed, len(targets))
	var mu sync.Mutex // guards out
	faults := a.askLeaders(ctx, targets, question{op: "list offsets", right: rightDescribe,
		put: func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error {
			return askOffsets(ctx, to, which, about, func(r routed, offset int64, err error) {
				if err == nil {
					mu.Lock()
					out[r.Target] = listed{offset, r.leader.Epoch}
					mu.Unlock()
				}
				reply(r.Target, err)
			})
		}})
	return out, faults
}

func askOffsets(ctx context.Context, to *kgo.Broker, which int64, about []routed, reply func(routed, int64, error)) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.TimeoutMillis = -1, int32(listWait.Milliseconds())
	known := byTopic(about)
	for name, rs := range known {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = name, make([]kmsg.ListOffsetsRequestTopicPartition, 0, len(rs))
		for _, r := range rs {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.Timestamp = r.Partition, r.leader.Epoch, which
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.ListOffsetsResponse)
	if !ok {
		return fmt.Errorf("offsets answered by %T", kresp)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			r, ok := known.find(t.Topic, p.Partition)
			if !ok {
				continue
			}
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil && p.Offset < 0 {
				err = fmt.Errorf("%w: offset %d", ErrNoAnswer, p.Offset)
			}
			reply(r, p.Offset, err)
		}
	}
	return nil
}
