package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// CompareOptions choose what is compared. Only Topics must be given.
type CompareOptions struct {
	Topics []string          // on the source; all their partitions
	Rename map[string]string // target names that differ, by source name
	// The default is what the promise G2 says: the source as a read_committed
	// consumer sees it, the target as every consumer may see it.
	SrcUncommitted bool // the source as a read_uncommitted consumer sees it
	DstCommitted   bool // the target as a read_committed consumer sees it
	Parallel       int  // partitions read at a time; 0 is 4
}

// Comparison is the outcome for all partitions, in order of topic and number.
type Comparison struct {
	Partitions []PartitionComparison
}

// PartitionComparison is what both sides hold in the range that both retain.
type PartitionComparison struct {
	Src, Dst             Partition
	SrcBounds, DstBounds Bounds
	SrcDigest, DstDigest Digest
	First                *Difference // nil if the range is equal
}

// Difference is where two logs part: the records at that offset, nil where
// one side has none.
type Difference struct {
	Offset   int64
	Src, Dst *kgo.Record
}

func (d *Difference) String() string {
	return fmt.Sprintf("at offset %d\n  source: %s\n  target: %s", d.Offset, describe(d.Src), describe(d.Dst))
}

// Records is how many source records were compared.
func (c Comparison) Records() (n int64) {
	for _, p := range c.Partitions {
		n += p.SrcDigest.Records
	}
	return n
}

// Equal says whether no compared range differs. It says nothing about how much
// was compared, or whether both logs end alike.
func (c Comparison) Equal() bool {
	return !slices.ContainsFunc(c.Partitions, func(p PartitionComparison) bool { return p.First != nil })
}

// SameEnds says whether every partition ends at the same offset on both sides.
func (c Comparison) SameEnds() bool {
	return !slices.ContainsFunc(c.Partitions, func(p PartitionComparison) bool { return p.SrcBounds.End != p.DstBounds.End })
}

// String lists what differs, in full.
func (c Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d records in %d partitions compared", c.Records(), len(c.Partitions))
	for _, p := range c.Partitions {
		if p.SrcBounds.End != p.DstBounds.End {
			fmt.Fprintf(&b, "\n%s ends at %d, %s on the target at %d", p.Src, p.SrcBounds.End, p.Dst, p.DstBounds.End)
		}
		if p.First != nil {
			fmt.Fprintf(&b, "\n%s differs from %s on the target %s", p.Src, p.Dst, p.First)
		}
	}
	return b.String()
}

// CompareClusters reads every partition of the topics on both sides, over the
// range that both retain, and compares record by record. The error is that
// something could not be read; differences are in the Comparison.
func CompareClusters(ctx context.Context, src, dst Cluster, o CompareOptions) (Comparison, error) {
	pairs, err := pairUp(ctx, src, dst, o)
	if err != nil {
		return Comparison{}, err
	}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(cmp.Or(o.Parallel, 4))
	for i := range pairs {
		reads.Go(func() error { return comparePartition(ctx, src, dst, &pairs[i], o) })
	}
	if err := reads.Wait(); err != nil {
		return Comparison{}, fmt.Errorf("compare: %w", err)
	}
	return Comparison{Partitions: pairs}, nil
}

func (o CompareOptions) isolations() (src, dst Isolation) {
	src, dst = ReadCommitted, ReadUncommitted
	if o.SrcUncommitted {
		src = ReadUncommitted
	}
	if o.DstCommitted {
		dst = ReadCommitted
	}
	return src, dst
}

func (o CompareOptions) target(topic string) string { return cmp.Or(o.Rename[topic], topic) }

// pairUp finds each source partition's counterpart and both bounds.
func pairUp(ctx context.Context, src, dst Cluster, o CompareOptions) ([]PartitionComparison, error) {
	if len(o.Topics) == 0 {
		return nil, errors.New("compare: no topics")
	}
	srcIsolation, dstIsolation := o.isolations()
	srcBounds, err := ReadBounds(ctx, src, srcIsolation, o.Topics...)
	if err != nil {
		return nil, fmt.Errorf("compare: source: %w", err)
	}
	var targets []string
	for _, topic := range o.Topics {
		targets = append(targets, o.target(topic))
	}
	dstBounds, err := ReadBounds(ctx, dst, dstIsolation, targets...)
	if err != nil {
		return nil, fmt.Errorf("compare: target: %w", err)
	}
	ordered := slices.SortedFunc(maps.Keys(srcBounds), comparePartitions)
	var pairs []PartitionComparison
	for _, p := range ordered {
		q := Partition{o.target(p.Topic), p.Number}
		b, ok := dstBounds[q]
		if !ok {
			return nil, fmt.Errorf("compare: the target has no %s", q)
		}
		pairs = append(pairs, PartitionComparison{Src: p, Dst: q, SrcBounds: srcBounds[p], DstBounds: b})
	}
	return pairs, nil
}

// comparePartition reads both sides in step, so that neither runs ahead by
// more than its client's buffer.
func comparePartition(ctx context.Context, src, dst Cluster, p *PartitionComparison, o CompareOptions) error {
	from := max(p.SrcBounds.Start, p.DstBounds.Start)
	to := max(from, min(p.SrcBounds.End, p.DstBounds.End))
	srcIsolation, dstIsolation := o.isolations()
	a, err := newReader(src, p.Src, srcIsolation, from, to)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := newReader(dst, p.Dst, dstIsolation, from, to)
	if err != nil {
		return err
	}
	defer b.close()
	var aSum, bSum chain
	for {
		aRec, err := a.read(ctx)
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		bRec, err := b.read(ctx)
		if err != nil {
			return fmt.Errorf("target: %w", err)
		}
		if aRec != nil {
			aSum.add(aRec)
		}
		if bRec != nil {
			bSum.add(bRec)
		}
		if aRec == nil && bRec == nil {
			p.SrcDigest = Digest{From: from, To: to, Records: aSum.count, Hex: aSum.hex()}
			p.DstDigest = Digest{From: from, To: to, Records: bSum.count, Hex: bSum.hex()}
			return nil
		}
		if p.First == nil {
			p.First = difference(aRec, bRec)
		}
	}
}

// difference compares two records that should be the same; nil if they are.
func difference(a, b *kgo.Record) *Difference {
	switch {
	case a == nil:
		return &Difference{Offset: b.Offset, Dst: b}
	case b == nil:
		return &Difference{Offset: a.Offset, Src: a}
	case a.Offset < b.Offset:
		return &Difference{Offset: a.Offset, Src: a}
	case b.Offset < a.Offset:
		return &Difference{Offset: b.Offset, Dst: b}
	case bytes.Equal(canonical(nil, a), canonical(nil, b)):
		return nil
	}
	return &Difference{Offset: a.Offset, Src: a, Dst: b}
}

// mirrorPoll is how often AwaitMirrored looks.
const mirrorPoll = 50 * time.Millisecond

// AwaitMirrored returns when no target partition ends before its source
// partition, with the bounds as CompareClusters takes them. The source should be
// at rest. It says nothing about content.
func AwaitMirrored(ctx context.Context, src, dst Cluster, o CompareOptions) error {
	tick := time.NewTicker(mirrorPoll)
	defer tick.Stop()
	for {
		behind, err := firstBehind(ctx, src, dst, o)
		if err == nil && behind == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if behind != nil {
				return fmt.Errorf("wait for the mirror: %s ends at %d, on the target at %d: %w", behind.Src, behind.SrcBounds.End, behind.DstBounds.End, ctx.Err())
			}
			return fmt.Errorf("wait for the mirror: %w", errors.Join(err, ctx.Err()))
		}
	}
}

func firstBehind(ctx context.Context, src, dst Cluster, o CompareOptions) (*PartitionComparison, error) {
	pairs, err := pairUp(ctx, src, dst, o)
	if err != nil {
		return nil, err
	}
	for i := range pairs {
		if pairs[i].DstBounds.End < pairs[i].SrcBounds.End {
			return &pairs[i], nil
		}
	}
	return nil, nil
}
