package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"klink/cmd/lab"
)

// failover measures what a group reads again that goes on at the target after
// the source was killed.
func (b *bench) failover(ctx context.Context, j job) (map[string]float64, error) {
	if err := deleteTopics(ctx, b.pair.srcClient, ""); err != nil {
		return nil, err
	}
	for _, cluster := range []lab.Cluster{b.pair.src, b.pair.dst} {
		if err := lab.CreateTopics(ctx, cluster, j.workload.spec()); err != nil {
			return nil, err
		}
	}
	values, err := b.during(j, func(m *mirror) (map[string]float64, error) {
		move := &move{bench: b, job: j, mirror: m, group: fmt.Sprintf("bench-%d", j.serial)}
		return move.run(ctx)
	})
	return values, errors.Join(err, b.revive(ctx))
}

// revive starts the source again for the next run.
func (b *bench) revive(ctx context.Context) error {
	broker := b.pair.src.Broker(onlyBroker)
	if broker.Running() {
		return nil
	}
	return broker.Start(ctx)
}

// move is one group's way to the target.
type move struct {
	bench  *bench
	job    job
	mirror *mirror
	group  string
	given  lab.Deliveries // at both clusters
}

func (m *move) run(ctx context.Context) (map[string]float64, error) {
	consumer, err := m.consume(m.bench.pair.src)
	if err != nil {
		return nil, err
	}
	stop := m.produce(ctx)
	values, behind, err := m.untilKilled(ctx, consumer)
	consumer.Crash()
	stop()
	if err != nil {
		return nil, err
	}
	if values[switchSeconds], err = m.switchOver(ctx); err != nil {
		return nil, err
	}
	again, err := m.goOn(ctx)
	if err != nil {
		return nil, err
	}
	values[readAgain], values[behindCommit], values[readAgainBeyond] = float64(again), float64(behind), float64(max(0, again-behind))
	return values, nil
}

func (m *move) consume(c *lab.Kafka) (*lab.Consumer, error) {
	return lab.StartConsumer(c.ClientOpts(), lab.ConsumerOptions{Group: m.group, Topics: []string{m.job.workload.topic()}}, &m.given)
}

// produce begins the stream; the function returned ends it. What is not
// acknowledged when the source is killed is nobody's loss, so that it tells of no
// error.
func (m *move) produce(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{workload: m.job.workload, base: time.Now()}
	var running sync.WaitGroup
	running.Go(func() { _, _ = s.produce(ctx, m.bench.pair.src) })
	return func() { cancel(); running.Wait() }
}

// untilKilled lets the group be carried for a while, kills the source, and
// returns what lay behind the group's last commit.
func (m *move) untilKilled(ctx context.Context, consumer *lab.Consumer) (values map[string]float64, behind int64, err error) {
	if err := m.awaitCarried(ctx); err != nil {
		return nil, 0, err
	}
	if values, err = m.bench.coresDuring(ctx, m.mirror, failoverCarried.seconds(m.bench.opts.long)); err != nil {
		return nil, 0, err
	}
	if err := m.bench.pair.src.Broker(onlyBroker).Kill(); err != nil {
		return nil, 0, err
	}
	return values, consumer.Behind(), nil
}

// awaitCarried waits for the group's first offsets on the target.
func (m *move) awaitCarried(ctx context.Context) error {
	admin := kadm.NewClient(m.bench.pair.dstClient)
	begun := time.Now()
	for {
		offsets, err := admin.FetchOffsets(ctx, m.group)
		if err == nil && len(offsets) > 0 && len(offsets[m.job.workload.topic()]) == int(m.job.workload.partitions) {
			return nil
		}
		if time.Since(begun) > firstRecordLimit {
			return fmt.Errorf("%w: the group is not on the target (%w)", errStalled, err)
		}
		if err := pause(ctx, m.mirror, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// switchOver does what a person does between the clusters, and returns the
// seconds that it takes.
func (m *move) switchOver(ctx context.Context) (float64, error) {
	if m.job.system != klinkSystem {
		return 0, nil
	}
	begun := time.Now()
	cmd := exec.CommandContext(ctx, m.bench.launcher.klink, "failover", "--target", m.bench.pair.dst.Bootstrap()[0], "--yes")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("klink failover: %w\n%s", err, out)
	}
	return time.Since(begun).Seconds(), nil
}

// goOn consumes at the target to its end, and counts what had been given before.
func (m *move) goOn(ctx context.Context) (again int64, err error) {
	before := m.twice()
	bounds, err := lab.ReadBounds(ctx, m.bench.pair.dst, lab.ReadCommitted, m.job.workload.topic())
	if err != nil {
		return 0, err
	}
	consumer, err := m.consume(m.bench.pair.dst)
	if err != nil {
		return 0, err
	}
	defer consumer.Crash()
	begun := time.Now()
	for !m.has(ctx, bounds) {
		if time.Since(begun) > stallLimit {
			return 0, fmt.Errorf("%w: the group does not come to the end of the target (%w)", errStalled, consumer.Err())
		}
		if err := pause(ctx, m.mirror, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return m.twice() - before, nil
}

// has tells whether the group has committed all that there is. A fence, where
// there is one, is the last offset and no record.
func (m *move) has(ctx context.Context, bounds map[lab.Partition]lab.Bounds) bool {
	committed, err := kadm.NewClient(m.bench.pair.dstClient).FetchOffsets(ctx, m.group)
	if err != nil {
		return false
	}
	for p, b := range bounds {
		if at, ok := committed.Lookup(p.Topic, p.Number); !ok || at.At < b.End-1 {
			return false
		}
	}
	return true
}

func (m *move) twice() (n int64) {
	for _, count := range m.given.Twice() {
		n += count
	}
	return n
}
