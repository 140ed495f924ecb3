package contrast

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ends asks for the log ends of one topic, again and again.
type ends struct {
	client     *kgo.Client
	topic      string
	partitions int32
}

func newEnds(c Cluster, topic string, partitions int32) (*ends, error) {
	client, err := kgo.NewClient(append(c.AdminOpts(), kgo.MetadataMinAge(clientAge), kgo.DisableClientMetrics())...)
	return &ends{client, topic, partitions}, err
}

func (e *ends) close() { e.client.Close() }

// sum adds them up, which is the count of records where each offset holds one. A
// topic that is not there, or does not answer, has none.
func (e *ends) sum(ctx context.Context) (n int64) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = e.topic
	for number := range e.partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = number, -1, -1
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	for _, shard := range e.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					n += max(0, p.Offset)
				}
			}
		}
	}
	return n
}
