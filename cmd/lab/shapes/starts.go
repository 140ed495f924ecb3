package shapes

import (
	"context"
	"fmt"
	"time"

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
	w, err := newRaw(ctx, c, p.Topic)
	if err != nil {
		return err
	}
	defer w.close()
	rng := p.rng()
	for _, partition := range p.partitions() {
		for written := int64(0); written < n+records; {
			var batch []*kgo.Record
			for range min(deletedBatch, n+records-written) {
				batch = append(batch, record(rng, partition, fmt.Sprint(written%50)))
				written++
			}
			if _, err := w.write(ctx, partition.Number, lz4Bits, batch...); err != nil {
				return err
			}
		}
		if err := w.deleteBefore(ctx, partition.Number, n); err != nil {
			return err
		}
	}
	return p.await(ctx, c, fmt.Sprintf("its start at %d", n), func(c Census) bool {
		return c.Bounds == lab.Bounds{Start: n, End: n + records} && (records == 0 || c.Straddling == (n%deletedBatch != 0))
	})
}

// fillerBatch is how many records a batch of FarStart has, and deletedEvery after
// how many of them the log is emptied, so that it never takes much disk.
const (
	fillerBatch  = 100_000
	deletedEvery = 500
)

// FarStart makes each partition begin at n, which may be a billion, and hold so
// many records from there on. What was before were empty records, deleted by
// DeleteRecords.
func FarStart(ctx context.Context, c lab.Cluster, p Place, n, records int64) error {
	if err := p.create(ctx, c, nil); err != nil {
		return err
	}
	w, err := newRaw(ctx, c, p.Topic)
	if err != nil {
		return err
	}
	defer w.close()
	rng := p.rng()
	for _, partition := range p.partitions() {
		if err := w.fillTo(ctx, partition.Number, n); err != nil {
			return fmt.Errorf("fill %s: %w", partition, err)
		}
		var batch []*kgo.Record
		for i := range records {
			batch = append(batch, record(rng, partition, fmt.Sprint(i)))
		}
		if _, err := w.write(ctx, partition.Number, noneBits, batch...); err != nil {
			return err
		}
	}
	return p.await(ctx, c, fmt.Sprintf("its start at %d", n), func(c Census) bool {
		return c.Bounds == lab.Bounds{Start: n, End: n + records}
	})
}

// fillTo appends empty records up to an offset and deletes them.
func (w *raw) fillTo(ctx context.Context, partition int32, n int64) error {
	fillers := make([]*kgo.Record, fillerBatch)
	for i := range fillers {
		fillers[i] = &kgo.Record{Timestamp: baseTime}
	}
	whole, err := encodeBatch(zstdBits, fillers)
	if err != nil {
		return err
	}
	for at, batches := int64(0), 1; at < n; batches++ {
		batch, count := whole, min(fillerBatch, n-at)
		if count < fillerBatch {
			if batch, err = encodeBatch(zstdBits, fillers[:count]); err != nil {
				return err
			}
		}
		base, err := w.produce(ctx, partition, batch)
		if err != nil {
			return err
		}
		if base != at {
			return fmt.Errorf("appended at %d, want %d", base, at)
		}
		at += count
		if at == n || batches%deletedEvery == 0 {
			if err := w.deleteBefore(ctx, partition, at); err != nil {
				return err
			}
		}
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
