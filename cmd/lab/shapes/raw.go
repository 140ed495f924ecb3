package shapes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/cmd/lab"
)

// raw writes batches that are exactly what they were meant to be: a producer
// may send the first records of a topic before it was given the last ones.
type raw struct {
	client *kgo.Client
	topic  kadm.TopicDetail
}

func newRaw(ctx context.Context, c lab.Cluster, topic string) (*raw, error) {
	client, err := writer(c)
	if err != nil {
		return nil, err
	}
	w := &raw{client: client}
	if w.topic, err = ledTopic(ctx, kadm.NewClient(client), topic); err != nil {
		client.Close()
		return nil, fmt.Errorf("write to %s: %w", topic, err)
	}
	return w, nil
}

// ledTopic waits until a broker tells of the topic that all its partitions have
// leaders, and of those: one that is behind the others may not know of it yet.
func ledTopic(ctx context.Context, admin *kadm.Client, topic string) (kadm.TopicDetail, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		m, err := admin.Metadata(ctx, topic)
		if err != nil {
			return kadm.TopicDetail{}, err
		}
		if isLed(m.Topics[topic], m.Brokers.NodeIDs()) {
			return m.Topics[topic], nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return kadm.TopicDetail{}, fmt.Errorf("wait for its leaders: %w (last: %v)", ctx.Err(), m.Topics[topic].Err)
		}
	}
}

func isLed(t kadm.TopicDetail, brokers []int32) bool {
	for _, p := range t.Partitions {
		if p.Err != nil || !slices.Contains(brokers, p.Leader) {
			return false
		}
	}
	return t.Err == nil && len(t.Partitions) > 0
}

func (w *raw) close() { w.client.Close() }

// write encodes records as one batch and returns where it landed.
func (w *raw) write(ctx context.Context, partition int32, codec byte, records ...*kgo.Record) (base int64, err error) {
	batch, err := encodeBatch(codec, records)
	if err != nil {
		return -1, err
	}
	return w.produce(ctx, partition, batch)
}

func (w *raw) produce(ctx context.Context, partition int32, batch []byte) (base int64, err error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = w.topic.Topic, w.topic.ID
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := w.client.Broker(int(w.topic.Partitions[partition].Leader)).Request(ctx, req)
	if err != nil {
		return -1, fmt.Errorf("produce to %s[%d]: %w", w.topic.Topic, partition, err)
	}
	resp, ok := answer.(*kmsg.ProduceResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, errors.New("produce: an answer without the partition")
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return -1, fmt.Errorf("produce to %s[%d]: %w", w.topic.Topic, partition, err)
	}
	return got.BaseOffset, nil
}

// deleteBefore is DeleteRecords.
func (w *raw) deleteBefore(ctx context.Context, partition int32, at int64) error {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: w.topic.Topic, Partition: partition, At: at})
	resp, err := kadm.NewClient(w.client).DeleteRecords(ctx, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("delete records before %d: %w", at, err)
	}
	return nil
}

// encodeBatch writes records as a batch of magic 2 (KIP-98) without a producer
// id.
func encodeBatch(codec byte, records []*kgo.Record) ([]byte, error) {
	first, latest := records[0].Timestamp.UnixMilli(), records[0].Timestamp.UnixMilli()
	var content []byte
	for i, r := range records {
		latest = max(latest, r.Timestamp.UnixMilli())
		body := []byte{0}
		body = binary.AppendVarint(body, r.Timestamp.UnixMilli()-first)
		body = binary.AppendVarint(body, int64(i))
		body = appendVarField(appendVarField(body, r.Key), r.Value)
		body = binary.AppendVarint(body, int64(len(r.Headers)))
		for _, h := range r.Headers {
			body = appendVarField(appendVarField(body, []byte(h.Key)), h.Value)
		}
		content = append(binary.AppendVarint(content, int64(len(body))), body...)
	}
	content, err := compress(content, 2, codec)
	if err != nil {
		return nil, err
	}
	checked := binary.BigEndian.AppendUint16(nil, uint16(codec))
	checked = binary.BigEndian.AppendUint32(checked, uint32(len(records)-1))
	checked = binary.BigEndian.AppendUint64(checked, uint64(first))
	checked = binary.BigEndian.AppendUint64(checked, uint64(latest))
	checked = append(checked, slices.Repeat([]byte{0xff}, 14)...) // no producer id, epoch, sequence
	checked = binary.BigEndian.AppendUint32(checked, uint32(len(records)))
	checked = append(checked, content...)

	batch := binary.BigEndian.AppendUint64(nil, 0) // base offset
	batch = binary.BigEndian.AppendUint32(batch, uint32(len(checked)+9))
	batch = append(batch, 0xff, 0xff, 0xff, 0xff, 2) // no leader epoch, magic
	batch = binary.BigEndian.AppendUint32(batch, crc32.Checksum(checked, crc32.MakeTable(crc32.Castagnoli)))
	return append(batch, checked...), nil
}

func appendVarField(b, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(field))), field...)
}
