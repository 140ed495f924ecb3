package comparator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/fetcher/batch"
)

const (
	// stillFor is how long a target's end must not move to be taken for where the
	// mirror ends; a mirror that works adds to it many times in that time.
	stillFor = 5 * time.Second
	// lagFor is how long the target may take to reach where the source ended at
	// first. One that moves still is compared up to where it has come.
	lagFor = 30 * time.Second
	// trimFor is how long a target may take to follow the source's start.
	trimFor = 10 * time.Second
	// lookEvery is between looks at ends that are awaited.
	lookEvery = 250 * time.Millisecond
)

// keysListed is how many differing keys of a partition are listed.
const keysListed = 1000

// PartitionResult is what was found in one partition. Numbers are null where
// nothing is known.
type PartitionResult struct {
	Partition int32 `json:"partition"`
	Mode      Mode  `json:"mode"`
	// From and To bound the source's offsets that were compared; To is exclusive.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// RecordsCompared are the offsets at which both sides have a record, equal or
	// changed.
	RecordsCompared int64 `json:"records_compared"`
	// Digest is that of the source's visible records of the range, TargetDigest
	// that of the target's; null without digests. In checkpoint mode it is that of the
	// copies, at the offsets of their records.
	Digest       *string `json:"digest"`
	TargetDigest *string `json:"target_digest"`
	// Compacted are records that one side's cleaner removed by right, Expired those
	// past one side's log start.
	Compacted int64 `json:"compacted"`
	Expired   int64 `json:"expired"`
	// Foreign are records of others that lie among the copies, Duplicates those that
	// are copies too, of records that were copied again; null in mirror mode.
	Foreign    *int64 `json:"foreign"`
	Duplicates *int64 `json:"duplicates"`
	Tally
	// Keys are the first keys whose latest value differs. KeysDiffering counts all,
	// and is null where they were not asked for.
	Keys          []KeyDifference `json:"keys"`
	KeysDiffering *int64          `json:"keys_differing"`
	SourceStart   *int64          `json:"source_start"`
	SourceEnd     *int64          `json:"source_end"`
	TargetStart   *int64          `json:"target_start"`
	TargetEnd     *int64          `json:"target_end"`
	// LagRecords are offsets that a mirror at work had still to bring at the end of
	// the wait for it.
	LagRecords int64   `json:"lag_records"`
	Seconds    float64 `json:"seconds"`
	// Error is why the partition could not be compared, or not to the end.
	Error string `json:"error"`
}

// pair is one partition on both sides.
type pair struct {
	src, dst  *log
	opt       *Options
	compacted bool
	// copies tell where the target's copies lie, nil where they have the offsets of
	// their records.
	copies   *Copied
	rules    [2]tombstoneRule // by lacking side
	printer  *Printer
	progress *progress
	strays   *strays // nil in mirror mode
	// saver is told how far it is, nil for nobody; part is what was compared before.
	saver *saver
	part  *SavedPartition
	// topic is its topic's place in the result, guess the offsets it was thought to
	// hold.
	topic int
	guess int64
	res   PartitionResult
}

// compare fills in the result.
func (p *pair) compare(ctx context.Context) error {
	began := time.Now()
	defer func() { p.res.Seconds = time.Since(began).Seconds() }()
	if err := p.learnCopies(ctx); err != nil {
		return err
	}
	if p.part != nil && p.part.Result.Mode != p.res.Mode {
		p.part = nil // it is mirrored in another way since
	}
	settle := p.settleBounds
	if p.copies != nil {
		settle = p.settleCopies
	}
	span, err := settle(ctx)
	if err != nil {
		return err
	}
	return p.compareRange(ctx, span)
}

// compareRange fills in what the result says of a range, and what the keys of a
// compacted topic have to do with the rest of the logs.
func (p *pair) compareRange(ctx context.Context, span Range) error {
	p.res.From, p.res.To = span.From, span.To
	if p.part != nil {
		p.res.From = p.part.Result.From
	}
	p.progress.expect(p, span)
	out, chains, err := p.merge(ctx, span, 0)
	if err != nil {
		return err
	}
	p.take(out, chains)
	if err := p.settleKeys(ctx, out, span); err != nil {
		return err
	}
	p.checkDigests(chains)
	for i := range p.res.Findings {
		p.explain(ctx, &p.res.Findings[i])
	}
	return ctx.Err()
}

// settleBounds decides what is compared, and finds out whether the logs start
// and end alike.
func (p *pair) settleBounds(ctx context.Context) (Range, error) {
	src, err := p.src.bounds(ctx)
	if err != nil {
		return Range{}, fmt.Errorf("source: %w", err)
	}
	dst, moving, err := p.awaitEnd(ctx, src.LastStable)
	if err != nil {
		return Range{}, fmt.Errorf("target: %w", err)
	}
	later, dst, err := p.awaitStart(ctx, dst)
	if err != nil {
		return Range{}, err
	}
	p.res.SourceStart, p.res.SourceEnd, p.res.TargetStart, p.res.TargetEnd = &later.Start, &later.LastStable, &dst.Start, &dst.LastStable
	if f, found := judgeStart(later, dst, p.opt.starts()); found {
		p.res.Add(f)
	}
	if moving {
		p.res.LagRecords = max(0, src.LastStable-dst.LastStable)
	} else if f, found := judgeEnd(src.LastStable, dst.LastStable, later.LastStable); found {
		p.res.Add(f)
	}
	return p.choose(ctx, later, Bounds{Start: dst.Start, LastStable: min(src.LastStable, dst.LastStable)})
}

// choose narrows the common range to what was asked for.
func (p *pair) choose(ctx context.Context, src, dst Bounds) (Range, error) {
	span := Range{From: max(src.Start, dst.Start), To: dst.LastStable}
	if p.part != nil && span.From <= p.part.Result.To {
		span.From, p.res.Expired = p.part.Result.To, p.part.Result.Expired
		span.To = max(span.From, span.To)
		return span, nil
	}
	p.part = nil // what follows on it has expired
	narrowed := false
	if r, ok := p.opt.Ranges[PartitionName{p.src.topic, p.src.partition}]; ok {
		narrowed = r.From > span.From
		span.From, span.To = max(span.From, r.From), min(span.To, r.To)
	}
	if !p.opt.Since.IsZero() {
		at, err := p.src.listOffset(ctx, p.opt.Since.UnixMilli())
		if err != nil {
			return span, fmt.Errorf("source: %w", err)
		}
		if at < 0 {
			at = span.To // no record is so young
		}
		narrowed = narrowed || at > span.From
		span.From = max(span.From, at)
	}
	span.To = max(span.From, span.To)
	if narrowed {
		return span, nil
	}
	return span, p.countExpired(ctx, src.Start, dst.Start)
}

// countExpired counts the records that one side keeps below the other's start.
func (p *pair) countExpired(ctx context.Context, src, dst int64) error {
	if src == dst || dst > src && p.opt.BeginsLater {
		return nil // what a mirror was not to have has not expired
	}
	older, span := scan{log: p.src}, Range{From: min(src, dst), To: max(src, dst)}
	if dst < src {
		older = scan{p.dst, p.locator(span)}
	}
	return p.each(ctx, older, span, func(Print) { p.res.Expired++ })
}

// scan is a log that is read by itself: by the offsets of the records that it holds
// copies of, where copies is not nil, and of these alone.
type scan struct {
	log    *log
	copies *locator
}

// each reads the visible records of one side's range.
func (p *pair) each(ctx context.Context, l scan, span Range, do func(Print)) error {
	ctx, cancel := context.WithCancel(ctx)
	r := newReader(l.log, span, p.opt.readBytes(), &decoder{printer: p.printer.Again(), copies: l.copies})
	g := new(errgroup.Group)
	g.Go(func() error { r.run(ctx); return nil })
	err := drain(ctx, r, do)
	cancel()
	_ = g.Wait() // it has no error of its own
	if err != nil {
		return fmt.Errorf("%s: %w", l.log.side, err)
	}
	return nil
}

// merge compares a range; chains are nil without digests.
func (p *pair) merge(ctx context.Context, span Range, bucket int) (*Outcome, [2]*batch.Chain, error) {
	ctx, cancel := context.WithCancel(ctx)
	var streams [2]*reader
	chains, err := p.chains(bucket)
	if err != nil {
		cancel()
		return nil, chains, err
	}
	var digested [2]*marks
	g := new(errgroup.Group)
	for side, l := range []*log{p.src, p.dst} {
		if chains[side] != nil && p.saver != nil {
			digested[side] = &marks{every: p.opt.markEvery()}
		}
		d := &decoder{printer: p.printer.Again(), chain: chains[side], marks: digested[side], marked: span.From}
		if d.copies = p.locatorOn(Side(side), span); d.copies != nil && bucket == 0 {
			d.copies.strays = p.strays
		}
		r := newReader(l, span, p.opt.readBytes(), d)
		r.raw, r.took = p.opt.NoDigest, p.progress.read
		streams[side] = r
		g.Go(func() error { r.run(ctx); return nil })
	}
	lazy := &decoder{printer: p.printer.Again(), span: span}
	out, err := Merge(ctx, streams[Source], streams[Target], MergeOptions{Range: span, Compacted: p.compacted, Keys: p.opt.Keys, MaxKeys: p.opt.MaxKeys, FromBucket: bucket,
		Decode: func(b Block) ([]Print, error) {
			lazy.shift = b.Shift
			return lazy.decode(nil, b.Raw)
		},
		SettleEvery: p.opt.markEvery(),
		Settled: func(next int64, sofar *Outcome) {
			if p.saver != nil {
				p.savePart(next, sofar, digested)
			}
		},
		Done: func(next int64) { p.progress.done(p, min(next, span.To)) }})
	cancel()
	_ = g.Wait() // readers have no error of their own
	return out, chains, err
}

// chains are digests that have none of the range yet; nil where none are wanted.
func (p *pair) chains(bucket int) (chains [2]*batch.Chain, err error) {
	if p.opt.NoDigest || bucket > 0 {
		return chains, nil
	}
	if p.part == nil {
		return [2]*batch.Chain{new(batch.Chain), new(batch.Chain)}, nil
	}
	r := &p.part.Result
	for side, digest := range []*string{r.Digest, r.TargetDigest} {
		if chains[side], err = resumeChain(digest, p.part.Digested[side]); err != nil {
			return chains, fmt.Errorf("go on from before: %w", err)
		}
	}
	return chains, nil
}

func (p *pair) take(out *Outcome, chains [2]*batch.Chain) {
	p.res.RecordsCompared, p.res.Compacted = out.Compared, out.Compacted
	if p.part != nil {
		p.res.absorb(&p.part.Result.Tally)
		p.res.RecordsCompared += p.part.Result.RecordsCompared
	}
	p.res.absorb(&out.Tally)
	p.res.Expired += out.Expired
	p.res.Foreign, p.res.Duplicates = p.countStrays(p.res.To)
	if chains[Source] != nil {
		a, b := chains[Source].Hex(), chains[Target].Hex()
		p.res.Digest, p.res.TargetDigest = &a, &b
	}
}

// checkDigests is the last word where no record was found to differ: prints are
// 64 bits and digests are not.
func (p *pair) checkDigests(chains [2]*batch.Chain) {
	if chains[Source] == nil || *p.res.Digest == *p.res.TargetDigest {
		return
	}
	records := p.res.Counts[Missing] + p.res.Counts[Extra] + p.res.Counts[Changed] + p.res.Counts[Shifted] + p.res.Compacted + p.res.Expired
	if records == 0 {
		p.res.Add(Finding{Kind: Changed, Offset: p.res.From, Records: 1, Detail: "somewhere in the range: the digests differ, and no record was found that does"})
	}
}

// settleKeys settles what is left of a compacted partition: by what the whole
// logs hold of the keys in question, and by more passes where these were too
// many for one.
func (p *pair) settleKeys(ctx context.Context, out *Outcome, span Range) error {
	if !p.compacted {
		return nil
	}
	if p.opt.Keys {
		p.res.KeysDiffering = new(int64)
	}
	for {
		if err := p.settlePass(ctx, out.keys); err != nil {
			return err
		}
		next := out.NextBucket()
		if next >= buckets {
			return nil
		}
		var err error
		if out, _, err = p.merge(ctx, span, next); err != nil {
			return err
		}
		p.res.Compacted += out.Compacted
	}
}

func (p *pair) settlePass(ctx context.Context, k *keyRule) error {
	want := k.asked(p.opt.Keys)
	var latest [2]map[uint64]Latest
	for side, l := range []*log{p.src, p.dst} {
		var err error
		if latest[side], err = p.gather(ctx, l, want[side]); err != nil {
			return err
		}
	}
	v := k.settle(latest, p.rules)
	p.res.Compacted += v.compacted
	for _, f := range v.findings {
		p.res.Add(f)
	}
	if !p.opt.Keys {
		return nil
	}
	differing := k.differing(latest, want[Source])
	*p.res.KeysDiffering += int64(len(differing))
	for _, d := range differing[:min(len(differing), keysListed-len(p.res.Keys))] {
		p.res.Keys = append(p.res.Keys, p.named(ctx, d))
	}
	return nil
}

// gather returns the latest record of each wanted key in a whole log, as it is
// now.
func (p *pair) gather(ctx context.Context, l *log, want map[uint64]bool) (map[uint64]Latest, error) {
	latest := make(map[uint64]Latest)
	if len(want) == 0 {
		return latest, nil
	}
	b, err := l.bounds(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.side, err)
	}
	return latest, p.each(ctx, scan{log: l}, Range{From: b.Start, To: b.LastStable}, func(r Print) {
		if !want[r.Key] || r.Keyless {
			return
		}
		x := Latest{Offset: r.Offset, At: r.Offset, Sum: r.Sum, Tombstone: r.Tombstone}
		if l.side == Target && p.copies != nil {
			x.Offset, _ = p.copies.source(r.Offset)
		}
		latest[r.Key] = x
	})
}

// named reads the key of a difference again.
func (p *pair) named(ctx context.Context, d KeyDifference) KeyDifference {
	l := p.dst
	if d.SourceOffset != nil {
		l = p.src
	}
	if s, err := l.look(ctx, d.offset()); err == nil && s != nil && s.Key != nil {
		d.Key = *s.Key
	}
	return d
}

// sorted is the result with its findings in the order of the log, and empty
// lists where it has none.
func (p *pair) sorted() PartitionResult {
	if p.res.Findings == nil {
		p.res.Findings = []Finding{}
	}
	if p.res.Counts == nil {
		p.res.Counts = map[Kind]int64{}
	}
	if p.res.Keys == nil {
		p.res.Keys = []KeyDifference{}
	}
	slices.SortStableFunc(p.res.Findings, func(a, b Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	return p.res
}
