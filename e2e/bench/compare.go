package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
	"klink/cmd/lab/proc"
	"klink/fetcher/batch"
)

// errCompared: klink compare did not find what is there.
var errCompared = errors.New("klink compare found something else than an equal copy")

// comparing times klink compare, with digests and without, and beside each the barest
// code that reads as much: in turn, in another order each round.
func (b *bench) comparing(ctx context.Context, j job, held loaded, round int) (map[string]float64, error) {
	if err := b.copyByLoop(ctx, j.workload, held); err != nil {
		return nil, fmt.Errorf("copy the log: %w", err)
	}
	bare := func(read func([]byte) error) func() (float64, error) {
		return func() (float64, error) { return b.bareRead(ctx, j.workload, read) }
	}
	values := map[string]float64{}
	steps := []struct {
		figure string
		do     func() (seconds float64, err error)
	}{
		{bareDigests, bare(digestAll)},
		{compareDigests, func() (float64, error) { return b.klinkCompare(ctx, j.workload, held, values) }},
		{bareBytes, bare(func([]byte) error { return nil })},
		{compareBytes, func() (float64, error) { return b.klinkCompare(ctx, j.workload, held, values, "--no-digest") }},
	}
	for i := range steps {
		step := steps[(i+round)%len(steps)]
		seconds, err := step.do()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.figure, err)
		}
		values[step.figure] = 2 * float64(held.wireBytes) / 1e6 / seconds
	}
	values[compareShare] = ratio(values[compareDigests], values[bareDigests])
	values[compareBytesShare] = ratio(values[compareBytes], values[bareBytes])
	return values, nil
}

// copyByLoop copies the log, batch by batch as it is.
func (b *bench) copyByLoop(ctx context.Context, w workload, held loaded) error {
	if err := lab.CreateTopics(ctx, b.pair.dst, w.spec()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- copyRecords(ctx, b.pair.src, b.pair.dst, w.topic()) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		}
		n, err := b.pair.onTarget(ctx, w)
		if err != nil || n >= held.offsets {
			cancel()
			<-ended
			return err
		}
	}
}

// klinkCompare runs klink compare, and returns how long it took without its start.
func (b *bench) klinkCompare(ctx context.Context, w workload, held loaded, values map[string]float64, flags ...string) (float64, error) {
	args := []string{"compare", "--source", b.pair.src.Bootstrap()[0], "--target", b.pair.dst.Bootstrap()[0], "--topic", w.topic(), "-o", "json"}
	cmd := exec.CommandContext(ctx, b.launcher.klink, append(args, flags...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	peak := watchMemory(cmd.Process.Pid)
	failed := cmd.Wait() // differences in settings give exit code 3, and do not matter here
	values[peakRSS] = max(values[peakRSS], peak())
	var r struct {
		Failed  int     `json:"failed"`
		Seconds float64 `json:"seconds"`
		Topics  []struct {
			Partitions []struct {
				Records  int64 `json:"records_compared"`
				Findings []any `json:"findings"`
			} `json:"partitions"`
		} `json:"topics"`
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return 0, errors.Join(failed, err)
	}
	records, findings := int64(0), r.Failed
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			records += p.Records
			findings += len(p.Findings)
		}
	}
	if records != held.records || findings > 0 {
		return 0, fmt.Errorf("%w: %d of %d records, %d findings", errCompared, records, held.records, findings)
	}
	return r.Seconds, nil
}

// watchMemory looks at a process's peak memory until it is asked for it, in MiB. What
// the kernel tells of a process that has ended is no less than its parent's.
func watchMemory(pid int) (peak func() float64) {
	ended, most := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var seen int64
		for {
			if n, err := proc.PeakMemory(pid); err == nil {
				seen = n
			}
			select {
			case <-tick.C:
			case <-ended:
				most <- float64(seen) / (1 << 20)
				return
			}
		}
	}()
	return func() float64 { close(ended); return <-most }
}

// bareAtOnce are as many partitions as klink compares at a time.
const bareAtOnce = 2

// bareRead reads all partitions of both sides, and does the same with every batch.
func (b *bench) bareRead(ctx context.Context, w workload, read func([]byte) error) (seconds float64, err error) {
	var readers [bareAtOnce][]*logReader
	for i := range readers {
		for _, c := range []lab.Cluster{b.pair.src, b.pair.dst} {
			r, err := newLogReader(ctx, c, w, b.opts.long)
			if err != nil {
				return 0, err
			}
			defer r.client.Close()
			readers[i] = append(readers[i], r)
		}
	}
	begun := time.Now()
	var next atomic.Int32
	g, ctx := errgroup.WithContext(ctx)
	for _, sides := range readers {
		g.Go(func() error {
			for n := next.Add(1) - 1; n < w.partitions; n = next.Add(1) - 1 {
				both, ctx := errgroup.WithContext(ctx)
				for _, r := range sides {
					both.Go(func() error { return r.readAll(ctx, n, read) })
				}
				if err := both.Wait(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return time.Since(begun).Seconds(), err
}

// digestAll decompresses a batch and hashes its records as klink's digest does.
func digestAll(b []byte) error {
	var chain batch.Chain
	for r, err := range batch.Records(b, batch.Limits{}) {
		if err != nil {
			return err
		}
		chain.Add(r)
	}
	return nil
}

// logReader reads logs of a topic of equal length, on a connection of its own.
type logReader struct {
	client *kgo.Client
	id     [16]byte
	end    int64
}

func newLogReader(ctx context.Context, c lab.Cluster, w workload, long bool) (*logReader, error) {
	id, err := topicID(ctx, c, w.topic())
	if err != nil {
		return nil, err
	}
	client, err := rawClient(c)
	if err != nil {
		return nil, err
	}
	return &logReader{client: client, id: id, end: w.batches(long) * int64(w.batchRecords)}, nil
}

// readAll reads one log to its end, one answer ahead of what is done with it.
func (r *logReader) readAll(ctx context.Context, partition int32, read func([]byte) error) error {
	g, ctx := errgroup.WithContext(ctx)
	answers := make(chan [][]byte)
	g.Go(func() error {
		defer close(answers)
		return r.fetchAll(ctx, partition, answers)
	})
	g.Go(func() error {
		for batches := range answers {
			for _, b := range batches {
				if err := read(b); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g.Wait()
}

func (r *logReader) fetchAll(ctx context.Context, partition int32, answers chan<- [][]byte) error {
	for at := int64(0); at < r.end; {
		batches, err := r.fetch(ctx, partition, at)
		if err != nil {
			return err
		}
		if len(batches) == 0 {
			continue
		}
		h, err := batch.ParseHeader(batches[len(batches)-1])
		if err != nil {
			return err
		}
		at = h.NextOffset()
		select {
		case answers <- batches:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fetch asks once for a partition.
func (r *logReader) fetch(ctx context.Context, partition int32, from int64) ([][]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 100, 1, loopPartitionBytes, 1
	topic := kmsg.NewFetchRequestTopic()
	topic.TopicID = r.id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, from, loopPartitionBytes
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, r.client.Broker(onlyBroker))
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("fetch partition %d: error code %d", partition, resp.ErrorCode)
	}
	answer := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch partition %d: %w", partition, err)
	}
	whole, _, err := batch.Split(answer.RecordBatches)
	return whole, err
}
