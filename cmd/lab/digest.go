package lab

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ReadOptions choose what of a partition is digested.
type ReadOptions struct {
	Isolation Isolation
	From      int64 // 0 is the log's start, if that lies later
	To        int64 // exclusive; 0 is the end
}

// Digest is the canonical digest of what a consumer reads in a range of offsets.
type Digest struct {
	From, To int64 // the range that was read; To is exclusive
	Records  int64
	Hex      string // 64 digits; all zero without records
}

// DigestPartition reads a partition and digests it.
func DigestPartition(ctx context.Context, c Cluster, p Partition, o ReadOptions) (Digest, error) {
	var sum chain
	d, err := readRange(ctx, c, p, o, sum.add)
	d.Records, d.Hex = sum.count, sum.hex()
	return d, err
}

// EachRecord reads the range of a partition that o names, and calls fn with every
// record of it, in order.
func EachRecord(ctx context.Context, c Cluster, p Partition, o ReadOptions, fn func(*kgo.Record)) error {
	_, err := readRange(ctx, c, p, o, fn)
	return err
}

// readRange calls fn with every record that o names, and gives the range.
func readRange(ctx context.Context, c Cluster, p Partition, o ReadOptions, fn func(*kgo.Record)) (Digest, error) {
	bounds, err := ReadBounds(ctx, c, o.Isolation, p.Topic)
	if err != nil {
		return Digest{}, err
	}
	b, ok := bounds[p]
	if !ok {
		return Digest{}, fmt.Errorf("%s: no such partition", p)
	}
	d := Digest{From: max(o.From, b.Start), To: b.End}
	if o.To > 0 {
		d.To = min(d.To, o.To)
	}
	r, err := newReader(c, p, o.Isolation, d.From, d.To)
	if err != nil {
		return d, err
	}
	defer r.close()
	for {
		rec, err := r.read(ctx)
		if rec == nil || err != nil {
			return d, err
		}
		fn(rec)
	}
}
