package fetcher

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/fetcher/leaders"
)

// Producers returns what the partition's leader remembers of producers
// (DescribeProducers v0, KIP-664, brokers from 2.8 on; needs Read on the topic).
// The request goes by name, so the topic's id is checked before it; a zero id is
// not checked. From a broker that does not know the request the error holds
// kerr.UnsupportedVersion.
func (r *LogReader) Producers(ctx context.Context, p feed.Partition, id feed.TopicID) ([]feed.Producer, error) {
	var out []feed.Producer
	err := r.ask(ctx, question{Partition: p, id: id, next: feed.Unknown}, func(ctx context.Context, l leaders.Leader) (err error) {
		out, err = r.producers(ctx, p, l)
		return err
	})
	return out, err
}

func (r *LogReader) producers(ctx context.Context, p feed.Partition, l leaders.Leader) ([]feed.Producer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = p.Topic, []int32{p.Partition}
	req.Topics = append(req.Topics, t)
	broker := r.cl.Broker(int(l.Broker))
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		if serves, asked := serves(ctx, broker, req.Key()); asked == nil && !serves {
			err = kerr.UnsupportedVersion
		}
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("describe producers: %w: not exactly the partition asked for", errDisorder)
	}
	a := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	out := make([]feed.Producer, len(a.ActiveProducers))
	for i, e := range a.ActiveProducers {
		out[i] = feed.Producer{ID: e.ProducerID, Epoch: e.ProducerEpoch, TxnStart: max(e.CurrentTxnStartOffset, feed.Unknown)}
		if e.LastTimestamp >= 0 {
			out[i].LastWrite = time.UnixMilli(e.LastTimestamp)
		}
	}
	return out, nil
}

// serves asks a broker for its API keys. kgo refuses a request that the broker
// does not list with an error that cannot be told from others.
func serves(ctx context.Context, b *kgo.Broker, key int16) (bool, error) {
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, b)
	if err != nil {
		return false, err
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == key {
			return true, nil
		}
	}
	return false, nil
}
