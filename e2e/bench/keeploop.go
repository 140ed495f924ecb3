package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/fetcher/batch"
	"klink/linker/fill"
	"klink/linker/pad"
)

// keeper is the bare loop for logs that are not all records, for one partition:
// it pads up to where the source begins, then writes a request of markers, as
// large as klink's, for what no batch covers, one marker for each marker, and
// data batches as they are, one request after the other. It has its connections
// for itself, checks nothing and recovers from nothing.
type keeper struct {
	topic        string
	srcID, dstID [16]byte
	partition    int32
	src, dst     *kgo.Client
	next         int64 // on both sides; the writing goroutine's own
}

// keepOffsets mirrors all partitions of a topic until ctx ends.
func keepOffsets(ctx context.Context, src, dst lab.Cluster, topic string) error {
	srcID, err := topicID(ctx, src, topic)
	if err != nil {
		return err
	}
	dstID, err := topicID(ctx, dst, topic)
	if err != nil {
		return err
	}
	starts, err := logStarts(ctx, src, topic)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for number, start := range starts {
		k := &keeper{topic: topic, srcID: srcID, dstID: dstID, partition: number}
		group.Go(func() error { return k.run(ctx, src, dst, start) })
	}
	return group.Wait()
}

func logStarts(ctx context.Context, c lab.Cluster, topic string) (map[int32]int64, error) {
	client, err := rawClient(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListStartOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the start of %s: %w", topic, err)
	}
	starts := map[int32]int64{}
	for number, o := range listed[topic] {
		starts[number] = o.Offset
	}
	return starts, nil
}

func (k *keeper) run(ctx context.Context, src, dst lab.Cluster, start int64) error {
	var err error
	if k.src, err = rawClient(src); err != nil {
		return err
	}
	defer k.src.Close()
	if k.dst, err = rawClient(dst); err != nil {
		return err
	}
	defer k.dst.Close()
	group, ctx := errgroup.WithContext(ctx)
	answers := make(chan []byte, 1) // one is fetched while another is written
	group.Go(func() error { return k.fetch(ctx, start, answers) })
	group.Go(func() error {
		if err := k.pad(ctx, start); err != nil {
			return fmt.Errorf("pad partition %d: %w", k.partition, err)
		}
		for {
			select {
			case records := <-answers:
				if err := k.write(ctx, records); err != nil {
					return fmt.Errorf("write partition %d from offset %d on: %w", k.partition, k.next, err)
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return group.Wait()
}

// fetch reads from an offset on, whole answers at a time.
func (k *keeper) fetch(ctx context.Context, next int64, answers chan<- []byte) error {
	for {
		records, err := k.fetchOnce(ctx, next)
		if err != nil {
			return fmt.Errorf("fetch partition %d: %w", k.partition, err)
		}
		whole, rest, err := batch.Split(records)
		if err != nil {
			return fmt.Errorf("fetch partition %d: %w", k.partition, err)
		}
		if len(whole) == 0 {
			continue
		}
		h, err := batch.ParseHeader(whole[len(whole)-1])
		if err != nil {
			return fmt.Errorf("fetch partition %d: %w", k.partition, err)
		}
		next = h.NextOffset()
		select {
		case answers <- records[:len(records)-len(rest)]:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k *keeper) fetchOnce(ctx context.Context, next int64) ([]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, loopPartitionBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = k.topic, k.srcID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = k.partition, next, loopPartitionBytes
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, k.src.Broker(onlyBroker))
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("an answer without the partition")
	}
	got := resp.Topics[0].Partitions[0]
	return got.RecordBatches, kerr.ErrorForCode(got.ErrorCode)
}

// pad writes batches like klink's, of empty records.
func (k *keeper) pad(ctx context.Context, to int64) error {
	most := int64(pad.DefaultSettings().PieceOffsets)
	var piece []byte
	for held := int64(0); k.next < to; k.next += held {
		if count := min(most, to-k.next); count != held {
			var err error
			if piece, err = batch.Pad(int32(count), batch.DefaultPadOptions()); err != nil {
				return err
			}
			held = count
		}
		if err := k.produce(ctx, piece); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) write(ctx context.Context, records []byte) error {
	whole, _, err := batch.Split(records)
	if err != nil {
		return err
	}
	for _, b := range whole {
		h, err := batch.ParseHeader(b)
		if err != nil {
			return err
		}
		if err := k.fill(ctx, h.BaseOffset); err != nil {
			return fmt.Errorf("fill up to %d: %w", h.BaseOffset, err)
		}
		if h.IsControl() {
			err = k.fill(ctx, h.NextOffset())
		} else if err = batch.Patch(b, batch.Fields{Identity: batch.Identity{ProducerID: -1, ProducerEpoch: -1}, BaseSequence: -1}); err == nil {
			err = k.produce(ctx, b)
		}
		if err != nil {
			return err
		}
		k.next = h.NextOffset()
	}
	return nil
}

// fill writes markers up to an offset.
func (k *keeper) fill(ctx context.Context, to int64) error {
	for k.next < to {
		m := markers{topic: k.topic, producer: keeperProducer, partitions: []int32{k.partition}}
		m.count = min(int(to-k.next), fill.DefaultSettings().BulkMarkers)
		if err := writeMarkers(ctx, k.dst, m); err != nil {
			return err
		}
		k.next += int64(m.count)
	}
	return nil
}

func (k *keeper) produce(ctx context.Context, b []byte) error {
	return produce(ctx, k.dst, newProduceRequest(onePartition(k.topic, k.dstID, k.partition, b)))
}

// keeperProducer owns the loop's markers.
var keeperProducer = batch.Identity{ProducerID: 1<<40 + 1}

// markers are so many COMMIT markers of a producer for each partition.
type markers struct {
	topic      string
	producer   batch.Identity
	partitions []int32
	count      int
}

// writeMarkers sends one request (WriteTxnMarkers); any partition's error is an
// error.
func writeMarkers(ctx context.Context, client *kgo.Client, m markers) error {
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = m.topic, m.partitions
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed = m.producer.ProducerID, m.producer.ProducerEpoch, true
	marker.Topics = append(marker.Topics, topic)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for range m.count {
		req.Markers = append(req.Markers, marker)
	}
	resp, err := req.RequestWith(ctx, client.Broker(onlyBroker))
	if err != nil {
		return err
	}
	for _, answered := range resp.Markers {
		for _, t := range answered.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("markers of partition %d: %w", p.Partition, err)
				}
			}
		}
	}
	return nil
}
