package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/fetcher/batch"
)

// loopCommand as first argument makes this program the loop.
const loopCommand = "loop"

// The loop's sizes. They were chosen for throughput; it is no example of a
// mirror that is careful with memory.
const (
	loopFetchBytes     = 16 << 20
	loopPartitionBytes = 2 << 20
	loopBufferBytes    = 48 << 20
	loopRequestBytes   = 8 << 20
	loopLanes          = 2
)

// loop is what the machine can do with this client: it fetches a topic of one
// broker and produces each batch to the same partition of another, one batch per
// partition and request. It checks nothing and recovers from nothing.
type loop struct {
	topic string
	src   *kgo.Client
	srcID [16]byte
	dstID [16]byte
	lanes []*lane
	next  []int64 // per partition; the fetching goroutine's own

	mu       sync.Mutex // guards what is below, and the lanes' queues
	changed  *sync.Cond
	buffered int
	stopped  bool
}

// lane is one produce connection with its partitions.
type lane struct {
	dst        *kgo.Client
	queues     map[int32][][]byte
	partitions []int32 // in the order in which they are looked at
	turn       int
}

// runLoop mirrors until ctx ends.
func runLoop(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet(loopCommand, flag.ContinueOnError)
	source := fs.String("source", "", "bootstrap address")
	target := fs.String("target", "", "bootstrap address")
	topic := fs.String("topic", "", "name on both sides")
	keep := fs.Bool("keep", false, "keep the offsets of logs that are not all records")
	if err := fs.Parse(args); err != nil {
		return err
	}
	src, dst := lab.At{kgo.SeedBrokers(*source)}, lab.At{kgo.SeedBrokers(*target)}
	run := copyRecords
	if *keep {
		run = keepOffsets
	}
	err := run(ctx, src, dst, *topic)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	fmt.Fprintln(os.Stderr, "loop:", err)
	return err
}

func copyRecords(ctx context.Context, src, dst lab.Cluster, topic string) error {
	l, err := newLoop(ctx, src, dst, topic)
	if err != nil {
		return err
	}
	defer l.close()
	return l.run(ctx)
}

func newLoop(ctx context.Context, src, dst lab.Cluster, topic string) (*loop, error) {
	l := &loop{topic: topic}
	l.changed = sync.NewCond(&l.mu)
	var err error
	if l.srcID, err = topicID(ctx, src, topic); err != nil {
		return nil, err
	}
	if l.dstID, err = topicID(ctx, dst, topic); err != nil {
		return nil, err
	}
	if l.src, err = kgo.NewClient(append(src.AdminOpts(), kgo.DisableClientMetrics())...); err != nil {
		return nil, err
	}
	details, err := kadm.NewClient(l.src).ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	l.next = make([]int64, len(details[topic].Partitions))
	for range loopLanes {
		client, err := rawClient(dst)
		if err != nil {
			return nil, err
		}
		l.lanes = append(l.lanes, &lane{dst: client, queues: map[int32][][]byte{}})
	}
	for number := range l.next {
		lane := l.lanes[number%loopLanes]
		lane.partitions = append(lane.partitions, int32(number))
	}
	return l, nil
}

func (l *loop) close() {
	l.src.Close()
	for _, lane := range l.lanes {
		lane.dst.Close()
	}
}

func (l *loop) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.fetch(ctx) })
	for _, lane := range l.lanes {
		group.Go(func() error { return l.produce(ctx, lane) })
	}
	group.Go(func() error {
		<-ctx.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stopped = true
		l.changed.Broadcast()
		return ctx.Err()
	})
	return group.Wait()
}

func (l *loop) fetch(ctx context.Context) error {
	for l.awaitRoom() {
		resp, err := l.fetchRequest().RequestWith(ctx, l.src.Broker(onlyBroker))
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("fetch partition %d: %w", p.Partition, err)
				}
				if err := l.take(p.Partition, p.RecordBatches); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

func (l *loop) fetchRequest() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = 500
	req.MinBytes = 1
	req.MaxBytes = loopFetchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = l.topic, l.srcID
	// A broker fills an answer in the order of the request: begin elsewhere each
	// time, so that no partition waits for the others to be done.
	first := 0
	for i, next := range l.next {
		if next < l.next[first] {
			first = i
		}
	}
	for i := range l.next {
		number := (first + i) % len(l.next)
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = int32(number)
		p.FetchOffset = l.next[number]
		p.PartitionMaxBytes = loopPartitionBytes
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

// awaitRoom waits until the buffer may take another answer; false at the end.
func (l *loop) awaitRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.buffered >= loopBufferBytes && !l.stopped {
		l.changed.Wait()
	}
	return !l.stopped
}

// take queues the whole batches of an answer, with base offset 0 and no leader
// epoch, as producers send them. Neither is under the checksum.
func (l *loop) take(partition int32, records []byte) error {
	whole, _, err := batch.Split(records)
	if err != nil {
		return fmt.Errorf("partition %d: %w", partition, err)
	}
	if len(whole) == 0 {
		return nil
	}
	const baseEnd, epochAt = 8, 12
	size := 0
	for _, b := range whole {
		h, err := batch.ParseHeader(b)
		if err != nil {
			return fmt.Errorf("partition %d: %w", partition, err)
		}
		l.next[partition] = h.NextOffset()
		clear(b[:baseEnd])
		binary.BigEndian.PutUint32(b[epochAt:], ^uint32(0))
		size += len(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.lanes[partition%loopLanes]
	lane.queues[partition] = append(lane.queues[partition], whole...)
	l.buffered += size
	l.changed.Broadcast()
	return nil
}

func (l *loop) produce(ctx context.Context, lane *lane) error {
	for {
		topic, size := l.collect(lane)
		if size == 0 {
			return ctx.Err()
		}
		topic.Topic, topic.TopicID = l.topic, l.dstID
		if err := produce(ctx, lane.dst, newProduceRequest(topic)); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		l.mu.Lock()
		l.buffered -= size
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}

// collect waits for batches and takes one per partition; size 0 is the end.
func (l *loop) collect(lane *lane) (topic kmsg.ProduceRequestTopic, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	topic = kmsg.NewProduceRequestTopic()
	for !l.stopped {
		for range lane.partitions {
			number := lane.partitions[lane.turn%len(lane.partitions)]
			queue := lane.queues[number]
			if len(queue) > 0 && size > 0 && size+len(queue[0]) > loopRequestBytes {
				break
			}
			lane.turn++
			if len(queue) == 0 {
				continue
			}
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = number, queue[0]
			topic.Partitions = append(topic.Partitions, p)
			lane.queues[number] = queue[1:]
			size += len(queue[0])
		}
		if size > 0 {
			return topic, size
		}
		l.changed.Wait()
	}
	return topic, 0
}
