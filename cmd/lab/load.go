package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Partition names one partition of a cluster.
type Partition struct {
	Topic  string
	Number int32
}

func (p Partition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Number) }

// Codecs are the names of all compression codecs.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// LoadOptions describe what is produced. Only Topics must be given.
type LoadOptions struct {
	Topics []string // existing ones; all their partitions are written
	Seed   uint64   // the same seed and options give the same records in the same order

	Codecs     []string  // batches draw from these; none given: all of Codecs
	MinBatch   int       // records in a batch; 0 is 1
	MaxBatch   int       // 0 is 1000
	ValueBytes int       // values have 0 to so many bytes; 0 is 200
	LimitBytes int       // the topics' max.message.bytes; 0 is Kafka's default, 1 MiB + 12
	LargeEvery int       // on average one batch in so many is a single record of the limit; 0 is none
	Keyed      bool      // no null keys, as compacted topics need it
	From, To   time.Time // bounds of timestamps; both zero: from 1970 to 24 h after the start

	RecordsPerSecond int   // 0 is as fast as it goes
	Total            int64 // records after which it ends, give or take a batch; 0 is until Stop
	Idempotent       bool  // with producer ids and sequences
}

func (o LoadOptions) withDefaults() (LoadOptions, error) {
	if len(o.Topics) == 0 {
		return o, errors.New("load: no topics")
	}
	if len(o.Codecs) == 0 {
		o.Codecs = Codecs
	}
	o.MinBatch = cmp.Or(o.MinBatch, 1)
	o.MaxBatch = max(cmp.Or(o.MaxBatch, 1000), o.MinBatch)
	o.ValueBytes = cmp.Or(o.ValueBytes, 200)
	o.LimitBytes = cmp.Or(o.LimitBytes, 1<<20+12)
	if o.From.IsZero() && o.To.IsZero() {
		o.From, o.To = time.UnixMilli(0), time.Now().Add(24*time.Hour)
	}
	if o.MinBatch < 1 || o.ValueBytes < 0 || o.LimitBytes < 1024 || o.To.Before(o.From) {
		return o, fmt.Errorf("load: batches from %d records, values to %d bytes, limit %d bytes (at least 1024), time from %s to %s",
			o.MinBatch, o.ValueBytes, o.LimitBytes, o.From, o.To)
	}
	return o, nil
}

// LoadReport is what a load has done so far.
type LoadReport struct {
	Acked      int64               // records that the cluster has acknowledged
	AckedBytes int64               // keys, values and headers of those
	Failed     int64               // records given up; they may have been written all the same
	Err        error               // why the first of those failed
	Ends       map[Partition]int64 // offset after the last acknowledged record
	Elapsed    time.Duration
}

// Load is a running load.
type Load struct {
	opts       LoadOptions
	partitions []Partition
	clients    []*kgo.Client // one per codec
	stopping   chan struct{} // closed by Stop: no further round
	stopOnce   sync.Once
	cancel     context.CancelFunc // gives up the round that runs
	done       chan struct{}
	started    time.Time

	mu     sync.Mutex // guards report
	report LoadReport
}

// roundBytes bounds what is produced between two flushes, and so the memory of
// a load.
const roundBytes = 16 << 20

// StartLoad begins to produce. ctx is for the start only; the load ends by Stop,
// or by itself at Total.
func StartLoad(ctx context.Context, c Cluster, opts LoadOptions) (*Load, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Load{opts: opts, stopping: make(chan struct{}), done: make(chan struct{}), started: time.Now(), report: LoadReport{Ends: map[Partition]int64{}}}
	for _, codec := range opts.Codecs {
		client, err := newLoadClient(c, opts, codec)
		if err != nil {
			l.closeClients()
			return nil, err
		}
		l.clients = append(l.clients, client)
	}
	if l.partitions, err = partitionsOf(ctx, l.clients[0], opts.Topics); err != nil {
		l.closeClients()
		return nil, fmt.Errorf("load: %w", err)
	}
	running, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.done)
		defer l.closeClients()
		l.run(running)
	}()
	return l, nil
}

func newLoadClient(c Cluster, o LoadOptions, codec string) (*kgo.Client, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	chosen, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("load: unknown codec %q, there are %v", codec, Codecs)
	}
	opts := append(slices.Clone(c.AdminOpts()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(chosen),
		// Batches go out as they were drawn: one flush, one batch per partition.
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1<<20),
		kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.MetadataMinAge(metadataAge),
		// The client counts the four bytes before the batch too.
		kgo.ProducerBatchMaxBytes(int32(o.LimitBytes+4)),
	)
	if !o.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return kgo.NewClient(opts...)
}

func partitionsOf(ctx context.Context, client *kgo.Client, topics []string) ([]Partition, error) {
	metadata, err := kadm.NewClient(client).Metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var partitions []Partition
	for _, topic := range metadata.Topics.Sorted() {
		if topic.Err != nil {
			return nil, fmt.Errorf("topic %s: %w", topic.Topic, topic.Err)
		}
		for _, p := range topic.Partitions.Sorted() {
			partitions = append(partitions, Partition{p.Topic, p.Partition})
		}
	}
	return partitions, nil
}

func (l *Load) closeClients() {
	for _, c := range l.clients {
		c.Close()
	}
}

// run produces round by round. A round's batches are of one codec.
func (l *Load) run(ctx context.Context) {
	g := newGenerator(l.opts)
	var produced int64
	for !l.isStopping() && (l.opts.Total == 0 || produced < l.opts.Total) {
		client := l.clients[g.rng.IntN(len(l.clients))]
		produced += l.round(ctx, g, client, produced)
		if client.Flush(ctx) != nil {
			return // given up, and so is what is buffered when the clients close
		}
		l.pace(produced)
	}
}

func (l *Load) isStopping() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// round hands one batch for each of some partitions to the client.
func (l *Load) round(ctx context.Context, g *generator, client *kgo.Client, before int64) int64 {
	var count, size int64
	for _, i := range g.rng.Perm(len(l.partitions)) {
		for _, r := range g.batch(l.partitions[i]) {
			bytes := int64(recordBytes(r))
			client.Produce(ctx, r, func(r *kgo.Record, err error) { l.settle(r, bytes, err) })
			count++
			size += bytes
		}
		full := size >= roundBytes || l.opts.Total > 0 && before+count >= l.opts.Total
		if full || l.opts.RecordsPerSecond > 0 && count >= int64(l.opts.RecordsPerSecond)/20 {
			break
		}
	}
	return count
}

// pace waits until so many records are due.
func (l *Load) pace(produced int64) {
	if l.opts.RecordsPerSecond <= 0 {
		return
	}
	due := l.started.Add(time.Duration(float64(produced) / float64(l.opts.RecordsPerSecond) * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.stopping:
	}
}

func (l *Load) settle(r *kgo.Record, bytes int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.report.Failed++
		if l.report.Err == nil {
			l.report.Err = fmt.Errorf("produce to %s[%d]: %w", r.Topic, r.Partition, err)
		}
		return
	}
	l.report.Acked++
	l.report.AckedBytes += bytes
	p := Partition{r.Topic, r.Partition}
	l.report.Ends[p] = max(l.report.Ends[p], r.Offset+1)
}

// Report is what has been done until now.
func (l *Load) Report() LoadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := l.report
	report.Ends = make(map[Partition]int64, len(l.report.Ends))
	for p, end := range l.report.Ends {
		report.Ends[p] = end
	}
	report.Elapsed = time.Since(l.started)
	return report
}

// Done is closed when the load has ended.
func (l *Load) Done() <-chan struct{} { return l.done }

// Wait returns when the load has ended by itself at Total, or when ctx ends.
func (l *Load) Wait(ctx context.Context) (LoadReport, error) {
	select {
	case <-l.done:
		return l.Report(), nil
	case <-ctx.Done():
		return l.Report(), fmt.Errorf("wait for the load: %w", ctx.Err())
	}
}

// stopTime is how long Stop waits for answers of a cluster that may be down.
const stopTime = 10 * time.Second

// Stop ends the load: no new batches, then the answers to those that are out.
// What is not answered after 10 s is given up and counts as failed, though it may
// have been written.
func (l *Load) Stop() LoadReport {
	l.stopOnce.Do(func() { close(l.stopping) })
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
		l.cancel()
		<-l.done
	}
	return l.Report()
}

// Crash ends the load at once: what is not answered is given up and counts as
// failed, though it may have been written. Its cluster may be down.
func (l *Load) Crash() LoadReport {
	l.stopOnce.Do(func() { close(l.stopping) })
	l.cancel()
	<-l.done
	return l.Report()
}
