package shapes

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// deletedBatch is how many records a batch of Trimmed has.
const deletedBatch = 1000

// Trimmed writes some more than n records per partition and deletes those before
// n by DeleteRecords, as an operator does: in the middle of a batch, unless n is a
// multiple of a thousand. The log goes on with so many records.
func Trimmed(ctx context.Context, c lab.Cluster, p Place, n, records int64) error {
	if err := p.create(ctx, c, nil); err != nil {
		return err
	}
	client, err := writer(c, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	if err != nil {
		return err
	}
	defer client.Close()
	rng := p.rng()
	for _, partition := range p.partitions() {
		var batch []*kgo.Record
		for i := range n + records {
			batch = append(batch, record(rng, partition, fmt.Sprint(i%50)))
			if len(batch) < deletedBatch && i+1 < n+records {
				continue
			}
			if err := send(ctx, client, batch...); err != nil {
				return err
			}
			batch = nil
		}
	}
	offsets := kadm.Offsets{}
	for _, partition := range p.partitions() {
		offsets.Add(kadm.Offset{Topic: partition.Topic, Partition: partition.Number, At: n})
	}
	if err := deleteRecords(ctx, client, offsets); err != nil {
		return err
	}
	return p.await(ctx, c, fmt.Sprintf("its start at %d", n), func(c Census) bool {
		return c.Bounds == lab.Bounds{Start: n, End: n + records} && (records == 0 || c.Straddling == (n%deletedBatch != 0))
	})
}

func deleteRecords(ctx context.Context, client *kgo.Client, offsets kadm.Offsets) error {
	resp, err := kadm.NewClient(client).DeleteRecords(ctx, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("delete records: %w", err)
	}
	return nil
}

// Expired writes n records per partition that are older than the topic's
// retention, then so many that are not, and waits until retention (which needs
// BrokerProps) has dropped the old ones. With none that stay the log is empty and
// starts where it ends.
func Expired(ctx context.Context, c lab.Cluster, p Place, n, stay int) error {
	configs := map[string]string{
		"retention.ms": fmt.Sprint((7 * 24 * time.Hour).Milliseconds()),
		"segment.ms":   fmt.Sprint(time.Minute.Milliseconds()),
	}
	if err := p.create(ctx, c, configs); err != nil {
		return err
	}
	client, err := writer(c)
	if err != nil {
		return err
	}
	defer client.Close()
	rng := p.rng()
	for _, partition := range p.partitions() {
		for i, age := range []time.Duration{30 * 24 * time.Hour, 0} {
			var batch []*kgo.Record
			for j := range []int{n, stay}[i] {
				r := record(rng, partition, fmt.Sprint(j))
				r.Timestamp = baseTime.Add(-age)
				batch = append(batch, r)
			}
			if err := send(ctx, client, batch...); err != nil {
				return err
			}
		}
	}
	return p.await(ctx, c, "dropped what is old", func(c Census) bool {
		return c.Bounds == lab.Bounds{Start: int64(n), End: int64(n + stay)}
	})
}
