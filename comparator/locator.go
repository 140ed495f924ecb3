package comparator

import "klink/fetcher/batch"

// locator gives the copies in a target log the offsets of their records, while they are
// read in order. What lies among them it counts.
type locator struct {
	copies *Copied
	// span is what is read of the target's log.
	span   Range
	strays *strays // nil: nothing is counted
	run    int     // where the last look was answered
}

// source is that of Copied.
func (l *locator) source(target int64) (source int64, ok bool) {
	runs := l.copies.Runs
	if l.run >= len(runs) || target >= runs[l.run].Target+runs[l.run].Records || l.run > 0 && target < runs[l.run-1].Target+runs[l.run-1].Records {
		l.run = l.copies.byTarget(target)
	}
	return l.copies.sourceIn(l.run, target)
}

// whole reports whether all of a batch is in one run.
func (l *locator) whole(b Part) bool {
	source, first := l.source(b.Base)
	last, ok := l.source(b.Next - 1)
	return first && ok && last-source == b.Next-1-b.Base && l.copies.Runs[l.run].Target <= b.Base
}

// owns reports whether the mirror wrote a batch.
func (l *locator) owns(b []byte) bool {
	h, err := batch.ParseHeader(b)
	return err == nil && h.ProducerID == l.copies.Producer
}

// copied notes a copy.
func (l *locator) copied(source int64, sum uint64) {
	if l.strays != nil {
		l.strays.copied(source, sum)
	}
}

// stray notes a record that is no copy.
func (l *locator) stray(target, next int64, sum uint64, own bool) {
	if l.strays != nil && l.span.has(target) {
		l.strays.stray(next, sum, own)
	}
}

// place gives a block of the target's log the offsets of the source.
func (l *locator) place(b *Block) {
	b.Floor = l.copies.floor(b.Floor)
	base := b.Base
	b.Base, _ = l.source(base)
	b.Next, _ = l.source(b.Next)
	b.Shift = b.Base - base
}
