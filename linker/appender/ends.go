package appender

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/state"
)

// Ends is where a partition's log starts and ends, by one leader in one leader
// epoch, or why that could not be read.
type Ends struct {
	// LogStart is the first offset, HighWatermark the end of what is replicated,
	// LogEnd the offset the next append gets; all -1 with Err. They are read in
	// this order: if the last two are equal, and nobody but the caller writes, the
	// whole log was replicated at the time LogEnd was read.
	LogStart, HighWatermark, LogEnd int64
	// LeaderEpoch is the epoch the leader Leader gave all three answers in.
	LeaderEpoch int32
	Leader      int32
	// Reason and Err (a *Fault) tell why there is no answer.
	Reason state.Reason
	Err    error
}

// Ends reads log start, high watermark and true log end of many partitions
// (ListOffsets -2 and -1, OffsetForLeaderEpoch, as Bounds and LogEnds do), each
// request fenced by the same leader epoch. If the leader changes meanwhile,
// all three are asked again, once. Every target is in the result. It needs
// Describe on the topic. Run need not be running.
func (a *Appender) Ends(ctx context.Context, targets []Target) map[Target]Ends {
	out := make(map[Target]Ends, len(targets))
	var mu sync.Mutex // guards out
	faults := a.askLeaders(ctx, targets, question{op: "read log ends", right: rightDescribe,
		put: func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error {
			return askAllEnds(ctx, to, about, func(r routed, e Ends, err error) {
				if err == nil {
					mu.Lock()
					out[r.Target] = e
					mu.Unlock()
				}
				reply(r.Target, err)
			})
		}})
	for t, f := range faults {
		out[t] = Ends{LogStart: -1, HighWatermark: -1, LogEnd: -1, LeaderEpoch: -1, Leader: f.Broker, Reason: f.Reason, Err: f}
	}
	return out
}

// askAllEnds puts three questions to one broker, each about those partitions
// that answered the one before.
func askAllEnds(ctx context.Context, to *kgo.Broker, about []routed, reply func(routed, Ends, error)) error {
	found := make(map[Target]Ends, len(about))
	questions := []struct {
		put  func(func(routed, int64, error)) error
		into func(*Ends, int64)
	}{
		{func(each func(routed, int64, error)) error { return askOffsets(ctx, to, listEarliest, about, each) },
			func(e *Ends, offset int64) { e.LogStart = offset }},
		{func(each func(routed, int64, error)) error { return askOffsets(ctx, to, listLatest, about, each) },
			func(e *Ends, offset int64) { e.HighWatermark = offset }},
		{func(each func(routed, int64, error)) error { return askEnds(ctx, to, about, each) },
			func(e *Ends, offset int64) { e.LogEnd = offset }},
	}
	for _, q := range questions {
		good := make([]routed, 0, len(about))
		err := q.put(func(r routed, offset int64, err error) {
			if err != nil {
				reply(r, Ends{}, err)
				return
			}
			e := found[r.Target]
			e.LeaderEpoch, e.Leader = r.leader.Epoch, r.leader.Broker
			q.into(&e, offset)
			found[r.Target] = e
			good = append(good, r)
		})
		if err != nil {
			return err
		}
		if about = good; len(about) == 0 {
			return nil
		}
	}
	for _, r := range about {
		e := found[r.Target]
		var err error
		if e.LogStart > e.HighWatermark || e.HighWatermark > e.LogEnd {
			err = fmt.Errorf("%w: log start %d, high watermark %d, log end %d", ErrNoAnswer, e.LogStart, e.HighWatermark, e.LogEnd)
		}
		reply(r, e, err)
	}
	return nil
}
