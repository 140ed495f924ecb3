package commits

import (
	"errors"
	"fmt"
	"time"

	"klink/fetcher/batch"
)

// gatherBytes bounds the events of one partition that wait until it is read to
// its end: some 1,500.
const gatherBytes = 256 << 10

// maxBatchBytes bounds what one batch may decompress to. The coordinator writes
// batches of at most the topic's max.message.bytes, 1 MiB by default.
const maxBatchBytes = 16 << 20

// errBytes: what was read does not hold together.
var errBytes = errors.New("the log cannot be read")

// wanted filters by name; nil functions want all.
type wanted struct{ group, topic func(string) bool }

func (w wanted) key(k key) bool {
	return (w.group == nil || w.group(k.group)) && (w.topic == nil || w.topic(k.topic))
}

// ends are where a partition's log ended when it was asked.
type ends struct {
	// stable is the last stable offset: below it no transaction is open.
	stable int64
	// end is the high watermark, asked for after stable.
	end int64
}

// lookBack bounds how far before its end a partition is read for the sake of
// transactions that are open (some 15 MiB). One that hangs keeps the last stable
// offset where it began, for weeks.
const lookBack = 100_000

// partitionLog is one partition's log, read from a position on. It does no I/O.
type partitionLog struct {
	number int32
	want   wanted
	// next is the offset to be read next.
	next int64
	// told is the noted end: what counted before it is not told (O6).
	told int64
	// epoch is the leader epoch of the last batch read, -1 before one.
	epoch int32

	tracker *tracker
	// sightFrom: once the last stable offset is there, no transaction is open of
	// which the beginning was not read; sightAt is then where its end was read
	// at the latest, -1 before.
	sightFrom, sightAt int64

	// events wait to be taken, in order.
	events      []Event
	eventsBytes int
	thinAt      int // eventsBytes at which superseded events are let go of
	unknown     int64
}

// newPartitionLog begins where the first open transaction does, so that its
// commits are known when it ends, but at most lookBack before the end.
func newPartitionLog(number int32, at ends, want wanted) *partitionLog {
	from := min(at.stable, at.end)
	blind := from < at.end-lookBack
	if blind {
		from = at.end - lookBack
	}
	return &partitionLog{number: number, want: want, next: from, told: at.end, epoch: -1,
		tracker: newTracker(blind), sightFrom: from, sightAt: -1, thinAt: gatherBytes}
}

// read takes the records field of an answer with the high watermark and last
// stable offset in it. gap says that commits may have been missed (O3); an error
// is errBytes, up to which everything was taken.
func (l *partitionLog) read(records []byte, stable, end int64) (gap bool, err error) {
	entries, _, splitErr := batch.Split(records)
	for _, entry := range entries {
		missed, err := l.entry(entry)
		gap = gap || missed
		if err != nil {
			return gap, err
		}
	}
	if splitErr != nil {
		return gap, fmt.Errorf("%w at offset %d: %w", errBytes, l.next, splitErr)
	}
	l.look(stable, end)
	return gap, nil
}

// look notes when the tracker is blind no more. The transactions that were open
// before sightFrom have ended when the last stable offset is there, so their
// markers lie below the high watermark of that moment.
func (l *partitionLog) look(stable, end int64) {
	if !l.tracker.blind {
		return
	}
	if l.sightAt < 0 && stable >= l.sightFrom {
		l.sightAt = end
	}
	if l.sightAt >= 0 && l.next >= l.sightAt {
		l.tracker.becomeSighted()
		l.sightAt = -1
	}
}

func (l *partitionLog) entry(b []byte) (gap bool, err error) {
	h, err := batch.ParseHeader(b)
	switch {
	case errors.Is(err, batch.ErrOldFormat):
		return false, l.oldEntry(b)
	case err != nil:
		return false, fmt.Errorf("%w at offset %d: %w", errBytes, l.next, err)
	case h.NextOffset() <= l.next:
		return false, nil // a broker answers with whole batches
	case h.IsControl():
		gap, err = l.control(b, h)
	default:
		err = l.data(b, h)
	}
	if err != nil {
		return gap, err
	}
	l.next, l.epoch = h.NextOffset(), h.LeaderEpoch
	return gap, nil
}

// oldEntry takes a message set of before 0.11, which knows no transactions.
func (l *partitionLog) oldEntry(b []byte) error {
	_, last, err := batch.OldFormatRange(b)
	if err != nil {
		return fmt.Errorf("%w at offset %d: %w", errBytes, l.next, err)
	}
	if err := l.data(b, batch.Header{ProducerID: -1}); err != nil {
		return err
	}
	l.next = max(l.next, last+1)
	return nil
}

// control takes a transaction marker.
func (l *partitionLog) control(b []byte, h batch.Header) (gap bool, err error) {
	m, err := batch.ParseMarker(b)
	switch {
	case errors.Is(err, batch.ErrNotMarker):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w at offset %d: %w", errBytes, h.BaseOffset, err)
	case m.HeaderOnly:
		return l.tracker.drop(m.ProducerID) && m.Base >= l.told, nil
	}
	counted, whole := l.tracker.end(m.ProducerID, m.Commit)
	for _, c := range counted {
		l.tell(c, m.Base, m.Timestamp)
	}
	return !whole && m.Base >= l.told, nil
}

// data takes a batch of records.
func (l *partitionLog) data(b []byte, h batch.Header) error {
	inTransaction := h.IsTransactional() && h.ProducerID >= 0
	if inTransaction && !l.tracker.begin(h.ProducerID) {
		l.sightFrom, l.sightAt = h.NextOffset(), -1
	}
	for r, err := range batch.Records(b, batch.Limits{MaxUncompressedBytes: maxBatchBytes}) {
		if err != nil {
			return fmt.Errorf("%w at offset %d: %w", errBytes, l.next, err)
		}
		if r.Offset < l.next {
			continue
		}
		c, ok := l.commit(r)
		switch {
		case !ok:
		case inTransaction && c.offset != Deleted:
			l.tracker.hold(h.ProducerID, c)
		default:
			l.tracker.count(c)
			l.tell(c, r.Offset, r.Timestamp)
		}
	}
	return nil
}

// commit reads a record; ok is false for what is not about a wanted offset.
func (l *partitionLog) commit(r batch.Record) (c commit, ok bool) {
	k, what := parseKey(r.Key)
	switch {
	case what == unknownRecord:
		l.unknown++
		return commit{}, false
	case what != offsetRecord || !l.want.key(k):
		return commit{}, false
	case r.Value == nil:
		return commit{key: k, offset: Deleted, at: r.Offset}, true
	}
	offset, metadata, ok := parseValue(r.Value)
	if !ok {
		l.unknown++
	}
	return commit{key: k, offset: offset, metadata: metadata, at: r.Offset}, ok
}

// tell queues an event, unless it counted before the noted end.
func (l *partitionLog) tell(c commit, at, millis int64) {
	if at < l.told {
		return
	}
	e := Event{Group: c.group, Topic: c.topic, Partition: c.partition, Offset: c.offset, Metadata: c.metadata,
		At: time.UnixMilli(millis), Source: Place{Partition: l.number, Offset: at}}
	l.events = append(l.events, e)
	if l.eventsBytes += e.bytes(); l.eventsBytes > l.thinAt {
		l.thin()
	}
}

// thin lets go of superseded events. The next time is when as many again have
// come, so that the work stays in proportion to what is read.
func (l *partitionLog) thin() {
	l.events, l.eventsBytes = latest(l.events), 0
	for _, e := range l.events {
		l.eventsBytes += e.bytes()
	}
	l.thinAt = max(gatherBytes, 2*l.eventsBytes)
}

// take returns the events once the log is read to its end (exclusive) as of the
// answer, or where too many wait: a reader that was held up jumps to the newest
// commit of each key instead of leading groups through their past.
func (l *partitionLog) take(end int64) []Event {
	if l.next < end && l.eventsBytes < gatherBytes {
		return nil
	}
	taken := latest(l.events)
	l.events, l.eventsBytes, l.thinAt = nil, 0, gatherBytes
	return taken
}
