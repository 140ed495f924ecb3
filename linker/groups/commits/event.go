package commits

import "time"

// Topic is the internal topic that is followed.
const Topic = "__consumer_offsets"

// Deleted stands for the offset of a commit that is no more: deleted by an
// administrator, expired, or gone with its topic or group.
const Deleted int64 = -1

// Event is one change of one committed offset.
type Event struct {
	Group     string
	Topic     string
	Partition int32
	// Offset is the committed offset as it is, from 0, or Deleted.
	Offset int64
	// Metadata is the consumer's own text; "" for Deleted.
	Metadata string
	// At is when the change counted, by the clock of the source's coordinator: the
	// time of the record, or of the marker that decided its transaction.
	At time.Time
	// Source is where that record or marker stands.
	Source Place
}

// Place is an offset of __consumer_offsets.
type Place struct {
	Partition int32
	Offset    int64
}

func (e Event) key() key { return key{e.Group, e.Topic, e.Partition} }

// bytes is roughly what an event takes in memory.
func (e Event) bytes() int { return commitBytes + len(e.Group) + len(e.Topic) + len(e.Metadata) }

// Batch is what one answer of a broker, or several in a row, changed.
type Batch struct {
	// Events of several partitions of __consumer_offsets; those of one of them in
	// the order of O1, and each key once, with its newest offset. It may be empty
	// where Gap is set.
	Events []Event
	// Gap: commits decided before this batch may be missing, so ask the
	// coordinators for all of them, beginning after the batch was received. Gaps
	// that come while that is not yet begun need one poll together.
	Gap bool
	// Received is when the answer came, by the own clock. Received - Event.At is
	// the way from the source's log to here, as far as the two clocks agree.
	Received time.Time
}

// latest keeps the last event of each key, in their order.
func latest(events []Event) []Event {
	last := make(map[key]int, len(events))
	for i, e := range events {
		last[e.key()] = i
	}
	kept := events[:0]
	for i, e := range events {
		if last[e.key()] == i {
			kept = append(kept, e)
		}
	}
	clear(events[len(kept):])
	return kept
}
