package shapes

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// AppendTimes writes, per partition, a batch of so many records in every codec
// to a topic whose broker writes its own time over theirs, then to the same topic
// switched to the producers' times, then switched back.
func AppendTimes(ctx context.Context, c lab.Cluster, p Place, records int) error {
	const key = "message.timestamp.type"
	if err := p.create(ctx, c, map[string]string{key: "LogAppendTime"}); err != nil {
		return err
	}
	for _, kind := range []string{"LogAppendTime", "CreateTime", "LogAppendTime"} {
		if err := alter(ctx, c, p.Topic, key, kind); err != nil {
			return err
		}
		if err := p.writeUntil(ctx, c, func(c Census) bool { return c.Newest.AppendTime == (kind == "LogAppendTime") }); err != nil {
			return err
		}
		for i, codec := range codecs() {
			if err := p.spread(ctx, c, records, time.Duration(i)*time.Hour, kgo.ProducerBatchCompression(codec)); err != nil {
				return err
			}
		}
	}
	return p.await(ctx, c, "times of both kinds", func(c Census) bool {
		return c.AppendTime > 2*len(lab.Codecs) && c.Batches-c.AppendTime > len(lab.Codecs)
	})
}

// writeUntil writes until a changed config is in force everywhere: the
// controller answers before the brokers know.
func (p Place) writeUntil(ctx context.Context, c lab.Cluster, inForce func(Census) bool) error {
	for {
		if err := p.spread(ctx, c, 1, 0); err != nil {
			return err
		}
		all := true
		for _, partition := range p.partitions() {
			census, err := Take(ctx, c, partition)
			if err != nil {
				return err
			}
			all = all && inForce(census)
		}
		if all {
			return nil
		}
	}
}

// codecs are in the order of lab.Codecs.
func codecs() []kgo.CompressionCodec {
	return []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
}

// spread writes a batch of so many records into every partition, whose times
// step back from baseTime.
func (p Place) spread(ctx context.Context, c lab.Cluster, records int, step time.Duration, opts ...kgo.Opt) error {
	client, err := writer(c, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	rng := p.rng()
	var batch []*kgo.Record
	for _, partition := range p.partitions() {
		for i := range records {
			r := record(rng, partition, fmt.Sprint(i))
			r.Timestamp = baseTime.Add(-time.Duration(i) * step)
			batch = append(batch, r)
		}
	}
	return send(ctx, client, batch...)
}

// FarTimes writes records of times that nobody expects, alone and beside each
// other in one batch: none at all (-1), the beginning of time, a century back and
// ahead, the last millisecond that is.
func FarTimes(ctx context.Context, c lab.Cluster, p Place) error {
	configs := map[string]string{
		"message.timestamp.before.max.ms": "9223372036854775807",
		"message.timestamp.after.max.ms":  "9223372036854775807",
		"segment.ms":                      "9223372036854775807",
	}
	if err := p.create(ctx, c, configs); err != nil {
		return err
	}
	client, err := writer(c)
	if err != nil {
		return err
	}
	defer client.Close()
	const century = 100 * 365 * 24 * time.Hour
	times := []time.Time{time.UnixMilli(-1), time.UnixMilli(0), baseTime.Add(-century), baseTime, baseTime.Add(century), time.UnixMilli(farthest), time.UnixMilli(1)}
	rng := p.rng()
	for _, partition := range p.partitions() {
		var together []*kgo.Record
		for i, at := range times {
			for _, alone := range []bool{true, false} {
				r := record(rng, partition, fmt.Sprint(i))
				r.Timestamp = at
				if !alone {
					together = append(together, r)
				} else if err := send(ctx, client, r); err != nil {
					return err
				}
			}
		}
		if err := send(ctx, client, together...); err != nil {
			return err
		}
	}
	return p.await(ctx, c, "all times", func(c Census) bool { return c.Records == int64(2*len(times)) })
}

// farthest is the year 9999, beyond which few programs can show a time.
const farthest = 253402300799999

// Wide writes a batch of so many records without compression and one with zstd
// into every partition.
func Wide(ctx context.Context, c lab.Cluster, p Place, records int) error {
	const limit = 32 << 20
	if err := p.create(ctx, c, map[string]string{"max.message.bytes": fmt.Sprint(limit)}); err != nil {
		return err
	}
	w, err := newRaw(ctx, c, p.Topic)
	if err != nil {
		return err
	}
	defer w.close()
	batch := make([]*kgo.Record, records)
	for i := range batch {
		batch[i] = &kgo.Record{Key: fmt.Append(nil, i), Timestamp: baseTime.Add(time.Duration(i%7) * time.Millisecond)}
	}
	for _, partition := range p.partitions() {
		for _, codec := range []byte{noneBits, zstdBits} {
			if _, err := w.write(ctx, partition.Number, codec, batch...); err != nil {
				return err
			}
		}
	}
	return p.await(ctx, c, "two wide batches", func(c Census) bool {
		return int(c.Widest) == records && c.Batches == 2 && c.Records == int64(2*records)
	})
}
