package linker

import "klink/translate/exact"

// Mode tells what a link promises of offsets.
type Mode int

// The modes of the configuration key mode.
const (
	// Mirror: a record keeps its offset.
	Mirror Mode = iota
	// Checkpoint: records keep their order and are copied exactly once; where each
	// lies is on record. The target may hold other records too.
	Checkpoint
)

// String returns the mode's name as in the configuration and in reports.
func (m Mode) String() string { return [...]string{"mirror", "checkpoint"}[m] }

// Translate tells where the copy of a source record lies, for a partition that this
// process copies in checkpoint mode. Of others it knows nothing (exact.None).
func (l *Link) Translate(topic string, partition int32, srcOffset int64) exact.Answer {
	if c := l.copiesOf(topic, partition); c != nil {
		return c.toTarget(srcOffset)
	}
	return exact.Answer{}
}

// LastRun is the last row of copies of a partition that this process copies in
// checkpoint mode; not ok where nothing was copied, and for others.
func (l *Link) LastRun(topic string, partition int32) (exact.Run, bool) {
	if c := l.copiesOf(topic, partition); c != nil {
		return c.last()
	}
	return exact.Run{}, false
}

// copiesOf is what is known of the copies of a partition, nil where it is not this
// process that makes them.
func (l *Link) copiesOf(topic string, partition int32) *copies {
	l.mu.Lock()
	t := l.topics[topic]
	l.mu.Unlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if partition < 0 || int(partition) >= len(t.partitions) {
		return nil
	}
	p := t.partitions[partition]
	if !p.here || p.drift == nil {
		return nil
	}
	return &p.drift.copies
}
