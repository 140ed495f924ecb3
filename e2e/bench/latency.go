package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
)

const (
	streamRate   = 5_000 // records per second
	streamLinger = 5 * time.Millisecond
	streamTick   = time.Millisecond
	// drainTime is what the last records may take to reach both consumers.
	drainTime = 15 * time.Second
)

// latency runs a steady stream through the mirror, with a consumer on each side.
func (b *bench) latency(ctx context.Context, j job) (map[string]float64, error) {
	w := j.workload
	if err := deleteTopics(ctx, b.pair.srcClient, ""); err != nil {
		return nil, err
	}
	for _, cluster := range []lab.Cluster{b.pair.src, b.pair.dst} {
		if err := lab.CreateTopics(ctx, cluster, w.spec()); err != nil {
			return nil, err
		}
	}
	warm := quickLatencyWarm
	if isMM2(j.system) {
		warm = mm2LatencyWarm
	}
	return b.during(j, func(m *mirror) (map[string]float64, error) {
		s := &stream{workload: w, base: m.started}
		return s.measure(ctx, m, b.pair, warm.seconds(b.opts.long), latencyMeasured.seconds(b.opts.long))
	})
}

// stream is a producer and two consumers. Times are since base, on this
// process's steady clock.
type stream struct {
	workload workload
	base     time.Time
	direct   tap // on the source
	mirrored tap // on the target
}

// tap is what one consumer was given.
type tap struct {
	mu         sync.Mutex // guards what is below
	count      int64
	deliveries []delivery
}

// delivery is a record's production, since the stream's base, and how long it
// took until it was delivered.
type delivery struct{ produced, took time.Duration }

func (t *tap) add(d delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	t.deliveries = append(t.deliveries, d)
}

func (t *tap) delivered() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// within gives the latencies, in milliseconds, of what was produced in a time.
func (t *tap) within(from, to time.Duration) []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ms []float64
	for _, d := range t.deliveries {
		if d.produced >= from && d.produced < to {
			ms = append(ms, float64(d.took)/float64(time.Millisecond))
		}
	}
	return ms
}

func (s *stream) measure(ctx context.Context, m *mirror, p *pair, warm, length time.Duration) (map[string]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.consume(gctx, p.src, &s.direct) })
	group.Go(func() error { return s.consume(gctx, p.dst, &s.mirrored) })
	producing, stopProducing := context.WithCancel(gctx)
	produced := make(chan int64, 1)
	group.Go(func() error {
		n, err := s.produce(producing, p.src)
		produced <- n
		return err
	})
	values, err := s.observe(gctx, m, p, warm, length)
	stopProducing()
	if err == nil {
		err = s.drain(gctx, <-produced)
	}
	cancel()
	if werr := group.Wait(); err == nil && werr != nil {
		err = werr
	}
	if err != nil {
		return nil, err
	}
	return values()
}

// observe waits until the mirror is warm and for the measured time after that.
// The function it returns gives the figures, once everything was delivered.
func (s *stream) observe(ctx context.Context, m *mirror, p *pair, warm, length time.Duration) (func() (map[string]float64, error), error) {
	begun := time.Now()
	for s.mirrored.delivered() == 0 {
		if time.Since(begun) > firstRecordLimit {
			return nil, fmt.Errorf("%w for %s", errStalled, firstRecordLimit)
		}
		if err := pause(ctx, m, streamTick); err != nil {
			return nil, err
		}
	}
	first := time.Since(m.started)
	if err := pause(ctx, m, warm); err != nil {
		return nil, err
	}
	from := time.Since(s.base)
	before, err := measureUsage(m, p)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, m, length); err != nil {
		return nil, err
	}
	to := time.Since(s.base)
	after, err := measureUsage(m, p)
	if err != nil {
		return nil, err
	}
	return func() (map[string]float64, error) {
		return latencyFigures(s.direct.within(from, to), s.mirrored.within(from, to), after.minus(before), to-from, first)
	}, nil
}

var errLost = errors.New("records did not arrive")

func latencyFigures(direct, mirrored []float64, used usage, length, first time.Duration) (map[string]float64, error) {
	if len(direct) == 0 || len(mirrored) < len(direct) {
		return nil, fmt.Errorf("%w: %d on the source, %d on the target", errLost, len(direct), len(mirrored))
	}
	v := map[string]float64{
		directP50: percentile(direct, 50), directP99: percentile(direct, 99),
		mirroredP50: percentile(mirrored, 50), mirroredP99: percentile(mirrored, 99),
		mirrorCores:       ratio(used.mirror.Seconds(), length.Seconds()),
		othersCores:       ratio(used.others().Seconds(), length.Seconds()),
		latencyDeliveries: float64(len(mirrored)),
		firstRecord:       first.Seconds(),
	}
	v[addedP50] = v[mirroredP50] - v[directP50]
	v[addedP99] = v[mirroredP99] - v[directP99]
	return v, nil
}

// pause waits, unless the mirror ends before.
func pause(ctx context.Context, m *mirror, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-m.Done():
		return m.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain waits until both consumers were given everything. MirrorMaker 2 may
// deliver a record twice; the figures then hold both.
func (s *stream) drain(ctx context.Context, produced int64) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.direct.delivered() < produced || s.mirrored.delivered() < produced {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d produced, %d on the source, %d on the target: %w", errLost, produced, s.direct.delivered(), s.mirrored.delivered(), ctx.Err())
		}
	}
	return nil
}

// produce keeps to the rate until ctx ends, and returns how many records were
// acknowledged.
func (s *stream) produce(ctx context.Context, c lab.Cluster) (acked int64, err error) {
	client, err := kgo.NewClient(append(c.AdminOpts(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(streamLinger),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
	)...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	data := newPayload()
	var mu sync.Mutex // guards acked and failed
	var failed error
	settle := func(_ *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = errors.Join(failed, err)
			return
		}
		acked++
	}
	tick := time.NewTicker(streamTick)
	defer tick.Stop()
	begun, sent := time.Now(), int64(0)
	for ctx.Err() == nil {
		for due := int64(time.Since(begun) * streamRate / time.Second); sent < due; sent++ {
			// Acknowledgements are waited for by Flush, whatever becomes of ctx.
			client.Produce(context.WithoutCancel(ctx), s.record(data, sent), settle)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err = client.Flush(flush)
	mu.Lock()
	defer mu.Unlock()
	return acked, errors.Join(failed, err)
}

func (s *stream) record(data payload, n int64) *kgo.Record {
	at := int(n*997) % (len(data.pool) - s.workload.valueBytes)
	value := binary.BigEndian.AppendUint64(nil, uint64(time.Since(s.base)))
	value = append(value, data.pool[at:at+s.workload.valueBytes-len(value)]...)
	return &kgo.Record{Topic: s.workload.topic(), Partition: int32(n % int64(s.workload.partitions)), Value: value}
}

// consume notes every record of the topic until ctx ends.
func (s *stream) consume(ctx context.Context, c lab.Cluster, t *tap) error {
	offsets := map[int32]kgo.Offset{}
	for number := range s.workload.partitions {
		offsets[number] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(c.AdminOpts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.workload.topic(): offsets}))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		now := time.Since(s.base)
		fetches.EachRecord(func(r *kgo.Record) {
			produced := time.Duration(binary.BigEndian.Uint64(r.Value))
			t.add(delivery{produced: produced, took: now - produced})
		})
	}
}
