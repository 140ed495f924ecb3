package comparator

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Stream gives one side's blocks of a range in order of offsets, and then
// io.EOF. What a block holds is valid until the next call.
type Stream interface {
	Next(ctx context.Context) (Block, error)
}

// MergeOptions say how two streams are compared.
type MergeOptions struct {
	// Range is what the streams were made for; nothing outside is compared.
	Range Range
	// Compacted applies the rule of G1 for compacted topics.
	Compacted bool
	// Keys collects the keys of changed records of a compacted topic.
	Keys bool
	// MaxKeys bounds the keys kept in mind (DefaultMaxKeys if not above zero), and
	// FromBucket is the first of the 256 groups of keys this pass answers for;
	// a pass that ends early says so in its outcome.
	MaxKeys, FromBucket int
	// Decode makes prints of a block that was given raw. It may be nil if there
	// are none.
	Decode func(Block) ([]Print, error)
	// Settled, if not nil, is told offsets at which another merge could go on, so many
	// from each other at least, and multiples of that but for raw blocks: nothing
	// below is undecided, and nothing at or above is counted. There are none while
	// records are shifted, nor on compacted topics.
	Settled func(next int64, sofar *Outcome)
	// SettleEvery must be above 0 where there is Settled.
	SettleEvery int64
	// Done, if not nil, is told the offset below which all is compared, once per
	// block.
	Done func(next int64)
}

// Outcome is what a merge found.
type Outcome struct {
	Tally
	// Compared are the offsets at which both sides have a record, equal or changed.
	Compared int64
	// Compacted and Expired are records that one side lacks by right.
	Compacted, Expired int64
	keys               *keyRule
}

// NextBucket is where another pass has to begin, 256 where none has to.
func (o *Outcome) NextBucket() int {
	if o.keys == nil {
		return buckets
	}
	return o.keys.high
}

// merger walks two streams side by side.
type merger struct {
	opt   MergeOptions
	sides [2]cursor
	out   Outcome
	// by is the distance at which records are compared now: the target's offset
	// less the source's. at is the finding that counts them, while it is not 0.
	by int64
	at int
	// calm is the source offset below which no shift begins.
	calm int64
	// seen is the highest offset that was taken off a side, told the last place that
	// was settled, or could not be.
	seen, told int64
}

// cursor is the place in one stream.
type cursor struct {
	stream Stream
	queue  []Print // not compared yet; a part of buf
	buf    []Print
	block  *Block // raw, follows the queue; nil if there is none
	floor  int64
	done   bool
}

// Merge compares two streams (C1 to C5). On a compacted topic what is not
// settled yet is left to settle.
func Merge(ctx context.Context, src, dst Stream, opt MergeOptions) (*Outcome, error) {
	if opt.MaxKeys <= 0 {
		opt.MaxKeys = DefaultMaxKeys
	}
	m := &merger{opt: opt, calm: -1, seen: -1, told: max(0, opt.Range.From)}
	m.sides[Source].stream, m.sides[Target].stream = src, dst
	if opt.Compacted {
		m.out.keys = newKeyRule(opt.MaxKeys, opt.FromBucket, buckets)
		if opt.Keys {
			m.out.keys.suspects = make(map[uint64]int64)
		}
	}
	for {
		more, err := m.step(ctx)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if k := m.out.keys; k != nil {
		m.out.Compacted = k.settled()
	}
	return &m.out, nil
}

// step compares what stands first on both sides; more is false at the end.
func (m *merger) step(ctx context.Context) (more bool, err error) {
	for {
		skipped, err := m.skipAlike(ctx)
		if err != nil {
			return false, err
		}
		if !skipped {
			break
		}
	}
	s, okS, err := m.head(ctx, Source)
	if err != nil {
		return false, err
	}
	t, okT, err := m.head(ctx, Target)
	if err != nil || !okS && !okT {
		return false, err
	}
	if okS && okT && s.Sum == t.Sum && t.Offset-s.Offset == m.by {
		m.settle(s.Offset)
		m.pop(Source)
		m.pop(Target)
		m.match(s, t)
		return true, nil
	}
	if err := m.seekShift(ctx, s, okS && okT); err != nil {
		return false, err
	}
	return true, m.mismatch()
}

// settle is told that both sides come to an offset together, with nothing left
// before it.
func (m *merger) settle(offset int64) {
	if m.opt.Settled == nil || m.by != 0 || m.out.keys != nil {
		return
	}
	place := offset - offset%m.opt.SettleEvery
	if place <= m.told {
		return
	}
	if m.told = place; m.seen < place {
		m.opt.Settled(place, &m.out)
	}
}

// mismatch takes what stands first off one side, or off both.
func (m *merger) mismatch() error {
	a, b := m.sides[Source].queue, m.sides[Target].queue
	switch {
	case len(a) > 0 && len(b) > 0 && b[0].Offset-a[0].Offset == m.by:
		m.pop(Source)
		m.pop(Target)
		if a[0].Sum == b[0].Sum {
			m.match(a[0], b[0])
		} else {
			m.change(a[0], b[0])
		}
		return nil
	case len(b) == 0 || len(a) > 0 && a[0].Offset+m.by < b[0].Offset:
		m.pop(Source)
		return m.lone(Source, a[0])
	default:
		m.pop(Target)
		return m.lone(Target, b[0])
	}
}

func (m *merger) match(s, t Print) {
	if m.by == 0 {
		m.out.Compared++
	} else {
		m.out.more(Shifted, m.at, 1)
	}
	m.saw(s, t)
}

// saw tells the rule of keys about records that are on both sides.
func (m *merger) saw(s, t Print) {
	k := m.out.keys
	if k == nil || !k.busy() {
		return
	}
	k.saw(Source, s)
	k.saw(Target, t)
}

func (m *merger) change(s, t Print) {
	m.saw(s, t)
	if k := m.out.keys; k != nil && k.suspects != nil && len(k.suspects) < k.max {
		k.suspects[s.Key], k.suspects[t.Key] = s.Offset, t.Offset
	}
	if m.by == 0 {
		m.out.Compared++
	}
	m.out.Add(Finding{Kind: Changed, Offset: s.Offset, Records: 1, ShiftedBy: m.by})
}

// lone judges a record that one side lacks.
func (m *merger) lone(side Side, p Print) error {
	// Where the records run at a distance, the counterparts of the last ones lie
	// beyond the range, and those of the first ones before it.
	counterpart := p.Offset + m.by
	if side == Target {
		counterpart = p.Offset - m.by
	}
	switch {
	case m.by != 0 && !m.opt.Range.has(counterpart):
		return nil
	case p.Offset < m.sides[side.other()].floor:
		m.out.Expired++
		return nil
	case m.out.keys != nil:
		m.out.keys.saw(side, p)
		return m.out.keys.lone(side, p)
	}
	kind := Missing
	if side == Target {
		kind = Extra
	}
	m.out.Add(Finding{Kind: kind, Offset: p.Offset, Records: 1})
	return nil
}

// seekShift looks for a place near by from which on records stand at another
// distance. What lies before it is compared at the distance of until now.
func (m *merger) seekShift(ctx context.Context, s Print, both bool) error {
	if !both || s.Offset < m.calm {
		return nil
	}
	for side := range m.sides {
		if err := m.fill(ctx, Side(side), Lookahead); err != nil {
			return err
		}
	}
	src, dst := m.window(Source), m.window(Target)
	ended := m.exhausted(Source) && m.exhausted(Target)
	found, ok := findShift(src, dst, m.by, ended)
	if !ok {
		m.calm = src[max(1, len(src)/2)-1].Offset + 1
		if ended {
			m.calm = m.opt.Range.To
		}
		return nil
	}
	from, to := src[found.src], dst[found.dst]
	if err := m.until(from.Offset, to.Offset); err != nil {
		return err
	}
	m.turn(found.by, from.Offset)
	return nil
}

// until compares what lies before a record of each side.
func (m *merger) until(src, dst int64) error {
	for {
		a, b := m.sides[Source].queue, m.sides[Target].queue
		moreA, moreB := len(a) > 0 && a[0].Offset < src, len(b) > 0 && b[0].Offset < dst
		var err error
		switch {
		case !moreA && !moreB:
			return nil
		case moreA && moreB:
			err = m.mismatch()
		case moreA:
			m.pop(Source)
			err = m.lone(Source, a[0])
		default:
			m.pop(Target)
			err = m.lone(Target, b[0])
		}
		if err != nil {
			return err
		}
	}
}

// turn goes on at another distance. A run at a distance that was met before is
// counted where that was, so that what is broken up stays one finding.
func (m *merger) turn(by, offset int64) {
	m.by, m.at = by, -1
	if by == 0 {
		return
	}
	for i, f := range m.out.Findings {
		if f.Kind == Shifted && f.ShiftedBy == by {
			m.at = i
			return
		}
	}
	m.at = m.out.Add(Finding{Kind: Shifted, Offset: offset, ShiftedBy: by}) // its records are counted as they match
}

// window is what of a side's queue is searched for a shift.
func (m *merger) window(side Side) []Print {
	q := m.sides[side].queue
	return q[:min(len(q), Lookahead)]
}

func (m *merger) exhausted(side Side) bool {
	c := &m.sides[side]
	return c.done && c.block == nil && len(c.queue) <= Lookahead
}

func (m *merger) pop(side Side) {
	c := &m.sides[side]
	m.seen = max(m.seen, c.queue[0].Offset)
	c.queue = c.queue[1:]
}

// head returns the first record of a side that was not compared yet.
func (m *merger) head(ctx context.Context, side Side) (Print, bool, error) {
	c := &m.sides[side]
	if len(c.queue) == 0 {
		if err := m.fill(ctx, side, 1); err != nil || len(c.queue) == 0 {
			return Print{}, false, err
		}
	}
	return c.queue[0], true, nil
}

// fill reads on until a side's queue holds so many records, or its stream ends.
func (m *merger) fill(ctx context.Context, side Side, records int) error {
	c := &m.sides[side]
	for len(c.queue) < records {
		if c.block == nil {
			if err := m.pull(ctx, side); err != nil {
				return err
			}
			if c.done && c.block == nil {
				return nil
			}
		}
		b := c.block
		c.block = nil
		prints := b.Prints
		if b.Raw != nil {
			var err error
			if prints, err = m.opt.Decode(*b); err != nil {
				return fmt.Errorf("%s: batch at offset %d: %w", side, b.Base, err)
			}
		}
		kept := copy(c.buf[:len(c.queue)], c.queue) // what was compared makes room
		c.buf = append(c.buf[:kept], prints...)
		c.queue = c.buf
	}
	return nil
}

// pull takes the next block off a side's stream.
func (m *merger) pull(ctx context.Context, side Side) error {
	c := &m.sides[side]
	if c.done {
		return nil
	}
	b, err := c.stream.Next(ctx)
	if errors.Is(err, io.EOF) {
		c.done = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", side, err)
	}
	c.floor = max(c.floor, b.Floor)
	c.block = &b
	if m.opt.Done != nil && side == Source {
		m.opt.Done(b.Next)
	}
	return nil
}

// skipAlike passes over a batch that is the same on both sides without a look
// inside, and over raw batches without records. Keys that wait for a later
// record ask for that look.
func (m *merger) skipAlike(ctx context.Context) (bool, error) {
	a, b := &m.sides[Source], &m.sides[Target]
	if m.by != 0 || len(a.queue) > 0 || len(b.queue) > 0 || m.out.keys != nil && m.out.keys.busy() {
		return false, nil
	}
	for _, side := range []Side{Source, Target} {
		if err := m.pullRaw(ctx, side); err != nil {
			return false, err
		}
	}
	if a.block == nil || b.block == nil || a.block.Raw == nil || b.block.Raw == nil || !m.whole(a.block) || a.block.Base != b.block.Base || !alike(a.block.Raw, b.block.Raw) {
		return false, nil
	}
	m.out.Compared += int64(a.block.Records)
	next := a.block.Next
	a.block, b.block = nil, nil
	if m.seen = max(m.seen, next-1); m.opt.Settled != nil && m.out.keys == nil && next >= m.told+m.opt.SettleEvery {
		m.told = next
		m.opt.Settled(next, &m.out)
	}
	return true, nil
}

// pullRaw makes sure that a block with something in it stands first, if any is
// left.
func (m *merger) pullRaw(ctx context.Context, side Side) error {
	c := &m.sides[side]
	for !c.done && (c.block == nil || c.block.Raw == nil && len(c.block.Prints) == 0) {
		c.block = nil
		if err := m.pull(ctx, side); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) whole(b *Block) bool {
	return b.Base >= m.opt.Range.From && b.Next <= m.opt.Range.To
}
