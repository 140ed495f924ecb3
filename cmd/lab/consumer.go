package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ConsumerOptions describe a member of a consumer group.
type ConsumerOptions struct {
	Group       string
	Topics      []string
	CommitEvery time.Duration // how often it commits what it was given; 0 is 1 s
	// Rename gives the names under which records of renamed topics are noted.
	Rename map[string]string
}

// Consumer is an ordinary member of a consumer group: it is given records,
// notes them, and commits now and then. Where the group has no commit it begins
// at the start.
type Consumer struct {
	client     *kgo.Client
	opts       ConsumerOptions
	deliveries *Deliveries
	cancel     context.CancelFunc
	done       chan struct{}

	mu      sync.Mutex // guards what is below
	first   time.Time
	lastErr error
}

// StartConsumer joins a group with a client of these options; what it is given
// goes to deliveries. Stop or Crash ends it.
func StartConsumer(client []kgo.Opt, o ConsumerOptions, deliveries *Deliveries) (*Consumer, error) {
	if o.Group == "" || len(o.Topics) == 0 {
		return nil, errors.New("start a consumer: no group or no topics")
	}
	if o.CommitEvery == 0 {
		o.CommitEvery = time.Second
	}
	cl, err := kgo.NewClient(append(slices.Clone(client),
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(o.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)...)
	if err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Consumer{client: cl, opts: o, deliveries: deliveries, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.run(ctx)
	}()
	return c, nil
}

func (c *Consumer) run(ctx context.Context) {
	committed := time.Now()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, c.opts.CommitEvery)
		fetches := c.client.PollFetches(limited)
		cancel()
		c.take(fetches)
		if time.Since(committed) >= c.opts.CommitEvery && ctx.Err() == nil {
			c.note(c.client.CommitUncommittedOffsets(ctx))
			committed = time.Now()
		}
		c.client.AllowRebalance()
	}
}

func (c *Consumer) take(fetches kgo.Fetches) {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			c.note(e.Err)
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		topic := r.Topic
		if name, ok := c.opts.Rename[topic]; ok {
			topic = name
		}
		c.deliveries.Note(Partition{topic, r.Partition}, r.Offset)
	})
	if fetches.NumRecords() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		c.first = time.Now()
	}
}

func (c *Consumer) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = err
}

// First is when the first record was delivered; zero while there is none.
func (c *Consumer) First() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// Err is the last error of a poll or commit. Clients go on after errors.
func (c *Consumer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr
}

// Behind counts the offsets between what it was given and what it has committed,
// which whoever goes on after a crash is given again.
func (c *Consumer) Behind() (n int64) {
	committed := c.client.CommittedOffsets()
	for topic, partitions := range c.client.UncommittedOffsets() {
		for number, given := range partitions {
			n += max(0, given.Offset-max(0, committed[topic][number].Offset))
		}
	}
	return n
}

// leaveTime bounds the goodbye to a group on a cluster that may be down.
const leaveTime = 3 * time.Second

// Stop commits everything it was given, leaves the group and ends.
func (c *Consumer) Stop(ctx context.Context) error {
	c.cancel()
	<-c.done
	defer c.client.Close()
	limited, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := c.client.CommitUncommittedOffsets(limited); err != nil {
		return fmt.Errorf("stop the consumer: commit: %w", err)
	}
	if err := c.client.LeaveGroupContext(limited); err != nil {
		return fmt.Errorf("stop the consumer: leave: %w", err)
	}
	return nil
}

// Crash ends the member without a commit: what came since the last one is
// delivered again to whoever goes on. Its cluster may be down.
func (c *Consumer) Crash() {
	c.cancel()
	<-c.done
	limited, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_ = c.client.LeaveGroupContext(limited) // so that nobody waits for its session to end
	c.client.Close()
}
