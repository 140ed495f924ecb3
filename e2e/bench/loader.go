package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
)

// loaded is what a source topic holds.
type loaded struct {
	records   int64
	offsets   int64 // where its partitions' logs end, added up
	measured  int64 // up to where a copy is measured
	wireBytes int64 // of the batches as they stand in the log; 0 where nobody counted them
}

const (
	// loaders encode and send beside each other, each on a connection of its own;
	// the order of batches within a partition does not matter.
	loaders = 4
	// loadedAtOnce bounds the partitions of a request, and so its size.
	loadedAtOnce = 64
)

// load fills the workload's topic, which exists and is empty, with raw requests.
func load(ctx context.Context, c lab.Cluster, w workload, long bool) (loaded, error) {
	id, err := topicID(ctx, c, w.topic())
	if err != nil {
		return loaded{}, err
	}
	data := newPayload()
	var next, sent atomic.Int64
	chunks := (int64(w.partitions) + loadedAtOnce - 1) / loadedAtOnce
	jobs := w.batches(long) * chunks
	group, ctx := errgroup.WithContext(ctx)
	for range loaders {
		group.Go(func() error {
			client, err := rawClient(c)
			if err != nil {
				return err
			}
			defer client.Close()
			for job := next.Add(1) - 1; job < jobs; job = next.Add(1) - 1 {
				first := int32(job%chunks) * loadedAtOnce
				req, bytes, err := loadRequest(data, w, first, job/chunks)
				if err != nil {
					return err
				}
				req.Topics[0].TopicID = id
				if err := produce(ctx, client, req); err != nil {
					return err
				}
				sent.Add(bytes)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return loaded{}, fmt.Errorf("load %s: %w", w.name, err)
	}
	total := w.total(long)
	return loaded{records: total, offsets: total, measured: total, wireBytes: sent.Load()}, nil
}

// loadRequest makes the nth batch for some partitions from first on.
func loadRequest(data payload, w workload, first int32, n int64) (req *kmsg.ProduceRequest, bytes int64, err error) {
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = w.topic()
	for number := first; number < min(first+loadedAtOnce, w.partitions); number++ {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition = number
		if p.Records, err = data.batch(w, number, n); err != nil {
			return nil, 0, err
		}
		bytes += int64(len(p.Records))
		topic.Partitions = append(topic.Partitions, p)
	}
	return newProduceRequest(topic), bytes, nil
}

// onePartition is a batch for a partition.
func onePartition(topic string, id [16]byte, number int32, b []byte) kmsg.ProduceRequestTopic {
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = number, b
	t.Partitions = append(t.Partitions, p)
	return t
}

// newProduceRequest asks for all acknowledgements, within half a minute.
func newProduceRequest(topic kmsg.ProduceRequestTopic) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, topic)
	return req
}

// onlyBroker is the node of a single-broker cluster.
const onlyBroker = 1

// produce sends a request once; any partition's error is an error.
func produce(ctx context.Context, client *kgo.Client, req *kmsg.ProduceRequest) error {
	resp, err := req.RequestWith(ctx, client.Broker(onlyBroker))
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}

// rawClient is for requests of this program's own making.
func rawClient(c lab.Cluster, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append(c.AdminOpts(), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableClientMetrics()), more...)...)
}

func topicID(ctx context.Context, c lab.Cluster, topic string) ([16]byte, error) {
	client, err := kgo.NewClient(c.AdminOpts()...)
	if err != nil {
		return [16]byte{}, err
	}
	defer client.Close()
	details, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return [16]byte{}, fmt.Errorf("find topic %s: %w", topic, err)
	}
	return details[topic].ID, nil
}
