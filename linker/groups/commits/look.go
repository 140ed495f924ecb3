package commits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/leaders"
	"klink/linker/remote"
	"klink/linker/state"
)

// listTimeout bounds the question for the ends of a broker's partitions: one
// broker that hangs must not hold up those of the others for longer.
const listTimeout = 5 * time.Second

// Isolation levels of ListOffsets (v2+) with the timestamp of the latest offset:
// it is the high watermark for the one and the last stable offset for the other.
const (
	readUncommitted int8  = 0
	readCommitted   int8  = 1
	latestOffset    int64 = -1
)

// looker asks where the partitions are and where they end.
type looker struct {
	cl      *kgo.Client
	leaders *leaders.Map
}

// looked is what one look brought.
type looked struct {
	// err: the topic could not be looked up; the rest is then empty.
	err     error
	id      [16]byte
	leaders []leaders.Leader
	// ends of the partitions that were not placed; faults of those of them that
	// could not be asked.
	ends   map[int32]ends
	faults map[int32]error
}

// look finds the leaders of all partitions and the ends of those that are not
// placed yet; of all of them where the topic's id is not the known one.
func (k looker) look(ctx context.Context, known [16]byte, placed map[int32]bool) looked {
	const op = "look up " + Topic
	right := remote.Right("Describe", "topic", Topic)
	if err := k.leaders.Refresh(ctx, Topic); err != nil {
		return looked{err: remote.Classify(op, right, err)}
	}
	t, ok := k.leaders.Topic(Topic)
	switch {
	case !ok:
		return looked{err: remote.Classify(op, right, kerr.UnknownTopicOrPartition)}
	case t.Err != nil:
		return looked{err: remote.Classify(op, right, t.Err)}
	}
	l := looked{id: t.ID, leaders: t.Leaders, ends: make(map[int32]ends), faults: make(map[int32]error)}
	unplaced := make(map[int32][]int32)
	for i, leader := range t.Leaders {
		if n := int32(i); leader.Broker >= 0 && (t.ID != known || !placed[n]) {
			unplaced[leader.Broker] = append(unplaced[leader.Broker], n)
		}
	}
	var (
		wg sync.WaitGroup
		mu sync.Mutex // guards l's maps
	)
	for broker, ps := range unplaced {
		wg.Go(func() {
			found, faults := k.listEnds(ctx, broker, ps)
			mu.Lock()
			defer mu.Unlock()
			for n, e := range found {
				l.ends[n] = e
			}
			for n, err := range faults {
				l.faults[n] = err
			}
		})
	}
	wg.Wait()
	return l
}

// listEnds asks for the last stable offsets first, so that they are never above
// the ends.
func (k looker) listEnds(ctx context.Context, broker int32, ps []int32) (map[int32]ends, map[int32]error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, faults := make(map[int32]ends), make(map[int32]error)
	stable := k.list(ctx, broker, ps, readCommitted)
	end := k.list(ctx, broker, ps, readUncommitted)
	for _, n := range ps {
		s, e := stable[n], end[n]
		switch {
		case s.err != nil:
			faults[n] = s.err
		case e.err != nil:
			faults[n] = e.err
		default:
			found[n] = ends{stable: s.offset, end: e.offset}
		}
	}
	return found, faults
}

// listedEnd is the answer for one partition.
type listedEnd struct {
	offset int64
	err    error
}

// list has an entry for each partition asked for.
func (k looker) list(ctx context.Context, broker int32, ps []int32, isolation int8) map[int32]listedEnd {
	const op = "find the ends of " + Topic
	right := remote.Right("Describe", "topic", Topic)
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = Topic
	for _, n := range ps {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, latestOffset
		topic.Partitions = append(topic.Partitions, p)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	req.TimeoutMillis = int32(listTimeout.Milliseconds())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, k.cl.Broker(int(broker)))

	out := make(map[int32]listedEnd, len(ps))
	for _, n := range ps {
		unsaid := err
		if unsaid == nil {
			unsaid = &remote.Fault{Op: op, Reason: state.Unreachable, Err: fmt.Errorf("broker %d did not answer for partition %d", broker, n)}
		}
		out[n] = listedEnd{err: remote.Classify(op, right, unsaid)}
	}
	if err != nil {
		return out
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = listedEnd{p.Offset, remote.Classify(op, right, kerr.ErrorForCode(p.ErrorCode))}
		}
	}
	return out
}
