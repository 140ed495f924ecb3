package comparator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// copiesEvery is between looks at how far a mirror in checkpoint mode has come: each
// reads what the target got in the last seconds.
const copiesEvery = time.Second

// CopiedPartition names a partition whose copies are asked for.
type CopiedPartition struct {
	Topic     Topic
	Partition int32
	// SourceID and TargetID are the topics' ids; zero where a cluster has none.
	SourceID, TargetID [16]byte
}

// errUncopied: a partition that was mirrored in checkpoint mode is not any more.
var errUncopied = errors.New("it is not on record any more where the copies lie")

// learnCopies asks where the copies lie.
func (p *pair) learnCopies(ctx context.Context) (err error) {
	p.res.Mode = Mirror
	if p.opt.Copies == nil {
		return nil
	}
	c, err := p.askCopies(ctx)
	if err == nil && c != nil {
		p.drift(c)
	}
	return err
}

// drift has the copies looked for where they lie.
func (p *pair) drift(c *Copied) { p.copies, p.res.Mode, p.strays = c, Checkpoint, new(strays) }

// copiesOf asks again where copies lie; nil where all have the offsets of their
// records.
func copiesOf(pairs []*pair) func(context.Context, PartitionName) (*Copied, error) {
	named := make(map[PartitionName]*pair)
	for _, p := range pairs {
		if p.opt.Copies != nil {
			named[PartitionName{p.src.topic, p.src.partition}] = p
		}
	}
	if len(named) == 0 {
		return nil
	}
	return func(ctx context.Context, n PartitionName) (*Copied, error) {
		if p := named[n]; p != nil {
			return p.askCopies(ctx)
		}
		return nil, nil
	}
}

func (p *pair) askCopies(ctx context.Context) (*Copied, error) {
	c, err := p.opt.Copies(ctx, CopiedPartition{Topic: Topic{p.src.topic, p.dst.topic}, Partition: p.src.partition,
		SourceID: p.src.topicID(p.src.topic), TargetID: p.dst.topicID(p.dst.topic)})
	if err == nil && c != nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("find out where the copies lie: %w", err)
	}
	return c, nil
}

// settleCopies decides what is compared in checkpoint mode, and finds out whether all
// is copied.
func (p *pair) settleCopies(ctx context.Context) (Range, error) {
	src, err := p.src.bounds(ctx)
	if err != nil {
		return Range{}, fmt.Errorf("source: %w", err)
	}
	moving, err := p.awaitCopies(ctx, src.LastStable)
	if err != nil {
		return Range{}, err
	}
	later, dst, err := p.shownBounds(ctx)
	if err != nil {
		return Range{}, err
	}
	end := min(src.LastStable, p.copies.readable(dst.LastStable))
	switch {
	case end >= src.LastStable:
	case moving:
		p.res.LagRecords = src.LastStable - end
	default:
		if end, err = p.judgeCopied(ctx, Range{From: max(end, later.Start), To: src.LastStable}); err != nil {
			return Range{}, err
		}
	}
	later.Start = max(later.Start, p.copies.Begins)
	return p.choose(ctx, later, Bounds{Start: p.copies.floor(dst.Start), LastStable: end})
}

// readable is the source offset up to which consumers of the target see all copies,
// given where they stop: a transaction of somebody else may be open there.
func (c *Copied) readable(lastStable int64) int64 {
	if lastStable >= c.targetEnd() {
		return c.Next
	}
	source, _ := c.source(lastStable)
	return source
}

// judgeCopied finds out whether the source has a record in what is not copied. Where
// it has none, up to there everything is.
func (p *pair) judgeCopied(ctx context.Context, rest Range) (end int64, err error) {
	first, found, err := p.first(ctx, p.src, rest)
	switch {
	case err != nil:
		return rest.From, fmt.Errorf("source: %w", err)
	case !found:
		return rest.To, nil
	}
	p.res.Add(Finding{Kind: End, Offset: first, Records: 1,
		Detail: fmt.Sprintf("the source ends at %d, and the record at %d is not copied yet, nor those behind it", rest.To, first)})
	return rest.From, nil
}

// first is the offset of the first visible record of a range.
func (p *pair) first(ctx context.Context, l *log, span Range) (offset int64, found bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	r := newReader(l, span, leastRead, &decoder{printer: p.printer.Again()})
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	defer func() { cancel(); <-done }()
	for {
		b, err := r.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return 0, false, nil
		case err != nil:
			return 0, false, err
		case len(b.Prints) > 0:
			return b.Prints[0].Offset, true, nil
		}
	}
}

// awaitCopies waits for a mirror that is at work until all up to a source offset is
// copied; see awaitEnd.
func (p *pair) awaitCopies(ctx context.Context, end int64) (moving bool, err error) {
	began := time.Now()
	last, moved := p.copies.Next, began
	for p.copies.Next < end {
		now := time.Now()
		if p.copies.Next != last {
			last, moved = p.copies.Next, now
		}
		switch {
		case now.Sub(moved) >= stillFor:
			return false, nil
		case now.Sub(began) >= lagFor:
			return true, nil
		}
		if !sleep(ctx, copiesEvery) {
			return false, ctx.Err()
		}
		c, err := p.askCopies(ctx)
		if err == nil && c == nil {
			err = errUncopied
		}
		if err != nil {
			return false, err
		}
		p.copies = c
	}
	return false, nil
}

// locator finds the copies of a range of the source's; nil in mirror mode.
func (p *pair) locator(span Range) *locator {
	if p.copies == nil {
		return nil
	}
	return &locator{copies: p.copies, span: p.copies.span(span)}
}

func (p *pair) locatorOn(side Side, span Range) *locator {
	if side == Source {
		return nil
	}
	return p.locator(span)
}

// countStrays counts what lies among the copies of the records below an offset; nil
// in mirror mode.
func (p *pair) countStrays(next int64) (foreign, duplicates *int64) {
	if p.strays == nil {
		return nil, nil
	}
	f, d := p.strays.upTo(next)
	if p.part != nil {
		f, d = f+orZero(p.part.Result.Foreign), d+orZero(p.part.Result.Duplicates)
	}
	return &f, &d
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// onTarget is where the copy of a source record should be; ok is false where it is not
// known.
func (p *pair) onTarget(source int64) (target int64, ok bool) {
	if p.copies == nil {
		return source, true
	}
	return p.copies.target(source)
}

// missingCopy adds to what is said of a missing record where its copy should be.
func (p *pair) missingCopy(f Finding) string {
	if p.copies == nil || f.Records != 1 {
		return f.Detail
	}
	at, ok := p.copies.target(f.Offset)
	switch {
	case !ok:
		return "the map knows of no copy"
	case f.Detail == "":
		return fmt.Sprintf("by the map its copy lies at target offset %d", at)
	default:
		return f.Detail
	}
}
