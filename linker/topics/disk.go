package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
)

// Room is what a volume has left.
type Room struct {
	Broker int32
	// Dir is the broker's log folder.
	Dir string
	// UsableBytes is what the broker may still write there.
	UsableBytes int64
}

// ErrRoomUnknown: no broker told what its disks have left, which brokers before
// 3.3 do not (KIP-827).
var ErrRoomUnknown = errors.New("no broker tells what its disks have left")

// Room asks the brokers that hold a replica of a partition what the volume it
// lies on has left, and returns the tightest answer (DescribeLogDirs v4,
// KIP-827). It needs Describe on the cluster. Brokers that do not answer or do
// not tell are passed over; the error is a *remote.Fault or ErrRoomUnknown where
// none did.
func (t *Target) Room(ctx context.Context, topic string, partition int32) (Room, error) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	rt := kmsg.NewDescribeLogDirsRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	var (
		tightest Room
		found    bool
		failed   error
	)
	for _, shard := range t.cl.RequestSharded(ctx, req) {
		if err := shardError(shard); err != nil {
			failed = err
			continue
		}
		for _, d := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			if d.ErrorCode != 0 || d.UsableBytes < 0 || !holds(d, topic, partition) {
				continue
			}
			if !found || d.UsableBytes < tightest.UsableBytes {
				tightest, found = Room{Broker: shard.Meta.NodeID, Dir: d.Dir, UsableBytes: d.UsableBytes}, true
			}
		}
	}
	switch {
	case found:
		return tightest, nil
	case failed != nil:
		return Room{}, remote.Classify(fmt.Sprintf("describe the log folders of topic %s", topic), "Describe on the cluster", failed)
	}
	return Room{}, ErrRoomUnknown
}

func shardError(s kgo.ResponseShard) error {
	if s.Err != nil {
		return s.Err
	}
	return kerr.ErrorForCode(s.Resp.(*kmsg.DescribeLogDirsResponse).ErrorCode)
}

// holds tells whether a replica lies in a log folder; one that is only being
// moved there does not count.
func holds(d kmsg.DescribeLogDirsResponseDir, topic string, partition int32) bool {
	for _, t := range d.Topics {
		if t.Topic != topic {
			continue
		}
		for _, p := range t.Partitions {
			if p.Partition == partition && !p.IsFuture {
				return true
			}
		}
	}
	return false
}
