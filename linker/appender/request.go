package appender

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
)

// acksAll: an answer comes when all in-sync replicas have the batch.
const acksAll = -1

// request is a produce request as kgo gets it. The wrapper type has three
// effects. kgo leaves Acks alone (it overwrites those of *kmsg.ProduceRequest).
// made and encoded tell whether kgo got as far as making the bytes: before that
// nothing can have been sent (A2), and from then on a request that is begun on
// the same client comes behind it. And the buffer grows once.
type request struct {
	*kmsg.ProduceRequest
	bytes   int // of all batches
	made    atomic.Bool
	encoded chan struct{} // closed with made
}

// AppendTo implements kmsg.Request. kgo calls it again after a first try of
// which no byte was written.
func (r *request) AppendTo(dst []byte) []byte {
	if r.made.CompareAndSwap(false, true) {
		close(r.encoded)
	}
	overhead := 64
	for i := range r.Topics {
		overhead += 32 + len(r.Topics[i].Topic) + 16*len(r.Topics[i].Partitions)
	}
	return r.ProduceRequest.AppendTo(slices.Grow(dst, r.bytes+overhead))
}

// build lays the items out by topic. Name and id are both set: up to v12 the
// name travels, from v13 on the id.
func (r *request) build(items []*item, timeout time.Duration) {
	r.ProduceRequest, r.encoded = kmsg.NewPtrProduceRequest(), make(chan struct{})
	r.Acks = acksAll
	r.TimeoutMillis = int32(timeout.Milliseconds())
	topics := make(map[[16]byte]int, 8)
	names := make(map[string]int)
	for _, it := range items {
		at, ok := topics[it.target.ID]
		if it.target.ID == ([16]byte{}) {
			at, ok = names[it.target.Topic]
		}
		if !ok {
			at = len(r.Topics)
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = it.target.Topic, it.target.ID
			r.Topics = append(r.Topics, t)
			if it.target.ID == ([16]byte{}) {
				names[t.Topic] = at
			} else {
				topics[t.TopicID] = at
			}
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = it.target.Partition, it.batch
		r.Topics[at].Partitions = append(r.Topics[at].Partitions, p)
		r.bytes += len(it.batch)
	}
}

// answers finds a partition's answer by what the answer names its topic with.
type answers struct {
	byID   map[[16]byte]*kmsg.ProduceResponseTopic
	byName map[string]*kmsg.ProduceResponseTopic
}

func indexAnswers(resp *kmsg.ProduceResponse) answers {
	a := answers{byID: make(map[[16]byte]*kmsg.ProduceResponseTopic, len(resp.Topics)),
		byName: make(map[string]*kmsg.ProduceResponseTopic, len(resp.Topics))}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		slices.SortFunc(t.Partitions, func(x, y kmsg.ProduceResponseTopicPartition) int {
			return int(x.Partition) - int(y.Partition)
		})
		if resp.Version >= 13 {
			a.byID[t.TopicID] = t
		} else {
			a.byName[t.Topic] = t
		}
	}
	return a
}

func (a answers) find(t Target) *kmsg.ProduceResponseTopicPartition {
	topic := a.byName[t.Topic]
	if topic == nil {
		topic = a.byID[t.ID]
	}
	if topic == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(topic.Partitions, t.Partition,
		func(p kmsg.ProduceResponseTopicPartition, want int32) int { return int(p.Partition) - int(want) })
	if !ok {
		return nil
	}
	return &topic.Partitions[i]
}

// detail is the broker's text about a refused batch (KIP-467, v8+).
func detail(p *kmsg.ProduceResponseTopicPartition) string {
	s := ""
	if p.ErrorMessage != nil {
		s = *p.ErrorMessage
	}
	if len(p.ErrorRecords) > 0 {
		r := p.ErrorRecords[0]
		s += fmt.Sprintf(" record %d", r.RelativeOffset)
		if r.ErrorMessage != nil {
			s += ": " + *r.ErrorMessage
		}
	}
	return shorten(s)
}

// checkBatch holds back what makes a broker refuse the whole request or hang
// up, and so would hit the partitions beside it: bytes that are not exactly one
// batch, or a transactional one (ProduceRequest.validateRecords). It also holds
// back a batch without a producer id, which no sequence would guard.
func checkBatch(b []byte) error {
	h, err := batch.ParseHeader(b)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadBatch, err)
	case h.BaseOffset != 0:
		return fmt.Errorf("%w: base offset %d", ErrBadBatch, h.BaseOffset)
	case h.IsTransactional() || h.IsControl():
		return fmt.Errorf("%w: attributes %#x", ErrBadBatch, h.Attributes)
	case h.ProducerID < 0:
		return fmt.Errorf("%w: producer id %d", ErrBadBatch, h.ProducerID)
	}
	return nil
}
