package shapes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// Place is where a shape is written: a topic that the generator makes.
type Place struct {
	Topic      string
	Partitions int32             // 0 is 1
	Replicas   int16             // 0 is 1
	Configs    map[string]string // over the generator's own
	Seed       uint64
}

// BrokerProps let the cleaner and retention look for work all the time, instead
// of every 15 s and 5 minutes, and log starts be written down at once instead of
// every minute.
func BrokerProps() map[string]string {
	return map[string]string{
		"log.cleaner.backoff.ms":                        "100",
		"log.initial.task.delay.ms":                     "100",
		"log.retention.check.interval.ms":               "200",
		"log.flush.start.offset.checkpoint.interval.ms": "500",
	}
}

func (p Place) create(ctx context.Context, c lab.Cluster, configs map[string]string) error {
	all := lab.KeepEverything()
	maps.Copy(all, configs)
	maps.Copy(all, p.Configs)
	return lab.CreateTopics(ctx, c, lab.TopicSpec{Name: p.Topic, Partitions: p.Partitions, Replicas: p.Replicas, Configs: all})
}

func (p Place) partitions() []lab.Partition {
	var all []lab.Partition
	for n := range max(1, p.Partitions) {
		all = append(all, lab.Partition{Topic: p.Topic, Number: n})
	}
	return all
}

func (p Place) rng() *rand.Rand { return rand.New(rand.NewPCG(p.Seed, 0x736861706573)) }

// await scans every partition until what it holds is as wanted.
func (p Place) await(ctx context.Context, c lab.Cluster, what string, wanted func(Census) bool) error {
	return p.awaitFed(ctx, c, what, wanted, func(context.Context, lab.Partition) error { return nil })
}

// awaitFed is await that feeds a partition after each look in vain. A scan may
// meet a log that is being cleaned: it is made again.
func (p Place) awaitFed(ctx context.Context, c lab.Cluster, what string, wanted func(Census) bool, feed func(context.Context, lab.Partition) error) error {
	tick := time.NewTicker(scanPoll)
	defer tick.Stop()
	for _, partition := range p.partitions() {
		var last Census
		for {
			census, err := Take(ctx, c, partition)
			if err == nil {
				if last = census; wanted(census) {
					break
				}
			}
			select {
			case <-tick.C:
				err = errors.Join(err, feed(ctx, partition))
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return fmt.Errorf("wait until %s has %s: %w; last: %+v", partition, what, errors.Join(ctx.Err(), err), last)
			}
		}
	}
	return nil
}

// scanPoll is how often a log is read to see whether the broker has changed it.
const scanPoll = 100 * time.Millisecond

// writer is a producer whose batches are what was handed over between two
// flushes, one per partition.
func writer(c lab.Cluster, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append(slices.Clone(c.AdminOpts()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1<<20),
		kgo.MetadataMinAge(metadataAge),
	), more...)...)
}

// metadataAge keeps clients from living for seconds with metadata that name no
// leader yet.
const metadataAge = 100 * time.Millisecond

// send hands records over and returns when all are acknowledged.
func send(ctx context.Context, client *kgo.Client, records ...*kgo.Record) error {
	failed := make(chan error, len(records)) // one answer each
	for _, r := range records {
		client.Produce(ctx, r, func(_ *kgo.Record, err error) { failed <- err })
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	for range records {
		if err := <-failed; err != nil {
			return fmt.Errorf("produce to %s: %w", records[0].Topic, err)
		}
	}
	return nil
}

// record draws one with a key, since a topic may be compacted later.
func record(rng *rand.Rand, p lab.Partition, key string) *kgo.Record {
	r := &kgo.Record{Topic: p.Topic, Partition: p.Number, Key: []byte(key), Timestamp: baseTime.Add(time.Duration(rng.IntN(3_600_000)) * time.Millisecond)}
	if n := rng.IntN(60); n > 0 {
		r.Value = fmt.Appendf(nil, "%0*d", n, rng.Uint32())
	} else {
		r.Value = []byte{}
	}
	if rng.IntN(4) == 0 {
		r.Headers = []kgo.RecordHeader{{Key: "n", Value: nil}, {Key: "", Value: []byte{}}, {Key: "n", Value: []byte{byte(rng.Uint32())}}}
	}
	return r
}

// baseTime is when most records say that they were made: recently, and the same
// for all runs of a day, so that nothing expires.
var baseTime = time.Now().UTC().Truncate(24 * time.Hour).Add(-24 * time.Hour)

// some draws a batch for one partition, with keys from a small set.
func some(rng *rand.Rand, p lab.Partition, most int) []*kgo.Record {
	var records []*kgo.Record
	for range 1 + rng.IntN(most) {
		records = append(records, record(rng, p, fmt.Sprintf("key-%d", rng.IntN(1000))))
	}
	return records
}

// inTurn takes steps until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
