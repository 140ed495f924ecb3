package comparator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"klink/fetcher/leaders"
)

// ErrReplaced: a topic is not the one that was to be compared.
var ErrReplaced = errors.New("the topic was deleted or made anew")

// AuditOptions are what an Auditor works with for good.
type AuditOptions struct {
	// Source and Target are used for reading alone, and stay the caller's.
	Source, Target *kgo.Client
	// BytesPerSecond bounds what is read of each side; 0 is no bound.
	BytesPerSecond int64
	// MemoryBytes is that of Options.
	MemoryBytes int64
	// FollowStart and BeginsLater are those of Options.
	FollowStart, BeginsLater bool
}

// auditKeys bounds the keys of a compacted partition that are kept in mind to some
// 3 MB: a daemon has other things to keep, and can read a log more than once.
const auditKeys = 1 << 15

// Auditor compares partitions of a mirror at work (C7), one at a time.
type Auditor struct {
	opt   Options
	sides [2]*cluster
}

// NewAuditor returns an Auditor that has asked nothing yet. Close must be called
// on it.
func NewAuditor(o AuditOptions) *Auditor {
	a := &Auditor{opt: Options{FollowStart: o.FollowStart, BeginsLater: o.BeginsLater, MemoryBytes: o.MemoryBytes, Parallel: 1, NoDigest: true, MaxKeys: auditKeys}}
	for side, cl := range []*kgo.Client{o.Source, o.Target} {
		a.sides[side] = &cluster{side: Side(side), cl: cl, leaders: leaders.New(cl), limit: newLimit(o.BytesPerSecond)}
	}
	return a
}

// newLimit allows for a fifth of a second at once.
func newLimit(bytesPerSecond int64) *rate.Limiter {
	const share = 5
	if bytesPerSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytesPerSecond), int(max(1, bytesPerSecond/share)))
}

// Close ends what NewAuditor began; no Audit may be under way.
func (a *Auditor) Close() {
	for _, c := range a.sides {
		c.leaders.Close()
	}
}

// AuditRequest names a partition and what of it is to be compared.
type AuditRequest struct {
	Topic     Topic
	Partition int32
	// SourceID and TargetID are the topics' ids; zero where a cluster has none.
	SourceID, TargetID [16]byte
	// End is up to where it is mirrored (exclusive), as an offset of the source.
	End int64
	// Copies tell where the copies lie, nil in mirror mode.
	Copies *Copied
}

// Audit compares a partition from its start to where it was mirrored. The logs'
// ends are no findings, and of their starts only a target that lost what its
// source has still. An error is about reading, and says nothing of the records.
func (a *Auditor) Audit(ctx context.Context, r AuditRequest) (PartitionResult, error) {
	p, err := a.pair(ctx, r)
	if err != nil {
		return PartitionResult{}, err
	}
	began := time.Now()
	bounds := p.auditBounds
	if p.copies != nil {
		bounds = p.auditCopies
	}
	span, err := bounds(ctx, r.End)
	if err == nil {
		err = p.compareRange(ctx, span)
	}
	if err == nil {
		err = a.pinned(ctx, r) // what was read by name was the topic in question
	}
	p.res.Seconds = time.Since(began).Seconds()
	return p.sorted(), err
}

func (a *Auditor) pair(ctx context.Context, r AuditRequest) (*pair, error) {
	if err := a.pinned(ctx, r); err != nil {
		return nil, err
	}
	if r.Copies != nil {
		if err := r.Copies.check(); err != nil {
			return nil, err
		}
	}
	var settings [2]Settings
	for side, c := range a.sides {
		name := r.Topic.on(Side(side))
		all, err := describe(ctx, c.cl, []string{name})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Side(side), err)
		}
		settings[side] = all[name]
	}
	src, dst, now := settings[Source], settings[Target], time.Now().UnixMilli()
	p := &pair{opt: &a.opt, printer: NewPrinter(), compacted: src.compacted() || dst.compacted(),
		src:      &log{cluster: a.sides[Source], topic: r.Topic.Source, partition: r.Partition},
		dst:      &log{cluster: a.sides[Target], topic: r.Topic.Target, partition: r.Partition},
		rules:    [2]tombstoneRule{{src.keepMillis(), now}, {dst.keepMillis(), now}},
		progress: newProgress(nil, 1, 0), res: PartitionResult{Partition: r.Partition, Mode: Mirror}}
	if r.Copies != nil {
		p.drift(r.Copies)
	}
	return p, nil
}

// pinned asks both clusters whether the topics are the ones in question.
func (a *Auditor) pinned(ctx context.Context, r AuditRequest) error {
	for side, id := range [][16]byte{r.SourceID, r.TargetID} {
		c, name := a.sides[side], r.Topic.on(Side(side))
		if err := c.leaders.Refresh(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", Side(side), err)
		}
		sight, _ := c.leaders.Look(name, r.Partition)
		switch {
		case sight.Err != nil:
			return fmt.Errorf("%s: topic %s: %w", Side(side), name, sight.Err)
		case !sight.Exists || id != [16]byte{} && sight.ID != id:
			return fmt.Errorf("%s: %s: %w", Side(side), name, ErrReplaced)
		}
	}
	return nil
}

// shownBounds reads both logs' bounds and notes them in the result. The target's start
// is read first: it follows the source's, and is beyond it only where something else
// moved it.
func (p *pair) shownBounds(ctx context.Context) (src, dst Bounds, err error) {
	if dst, err = p.dst.bounds(ctx); err != nil {
		return src, dst, fmt.Errorf("target: %w", err)
	}
	if src, err = p.src.bounds(ctx); err != nil {
		return src, dst, fmt.Errorf("source: %w", err)
	}
	p.res.SourceStart, p.res.SourceEnd, p.res.TargetStart, p.res.TargetEnd = &src.Start, &src.LastStable, &dst.Start, &dst.LastStable
	return src, dst, nil
}

// auditBounds decides what is compared.
func (p *pair) auditBounds(ctx context.Context, end int64) (Range, error) {
	src, dst, err := p.shownBounds(ctx)
	if err != nil {
		return Range{}, err
	}
	if f, found := judgeStart(src, dst, p.opt.starts()); found && dst.Start > src.Start {
		p.res.Add(f)
	}
	span := Range{From: max(src.Start, dst.Start), To: min(end, src.LastStable, dst.LastStable)}
	span.To = max(span.From, span.To)
	return span, nil
}

// auditCopies is auditBounds in checkpoint mode, where the target deletes by itself.
func (p *pair) auditCopies(ctx context.Context, end int64) (Range, error) {
	src, dst, err := p.shownBounds(ctx)
	if err != nil {
		return Range{}, err
	}
	span := Range{From: max(src.Start, p.copies.Begins, p.copies.floor(dst.Start)), To: min(end, src.LastStable, p.copies.readable(dst.LastStable))}
	span.To = max(span.From, span.To)
	return span, nil
}
