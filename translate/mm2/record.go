package mm2

import (
	"encoding/binary"
	"fmt"
)

// MaxMetadata is the most bytes of metadata that a group's offset can be synced
// with to a cluster of default settings (offset.metadata.max.bytes).
const MaxMetadata = 4096

// Sync is a record of the offset syncs topic: the record of Topic at source
// offset Up has its copy at target offset Down (OffsetSync).
type Sync struct {
	// Topic is the source's name of the topic.
	Topic     string
	Partition int32
	Up, Down  int64
}

// Encode returns the record's key and value.
func (s Sync) Encode() (key, value []byte, err error) {
	if s.Up < 0 || s.Down < 0 {
		return nil, nil, fmt.Errorf("%w: a sync of source offset %d, target offset %d", ErrValue, s.Up, s.Down)
	}
	if key, err = appendString(nil, s.Topic, "topic"); err != nil {
		return nil, nil, err
	}
	if key, err = appendPartition(key, s.Partition); err != nil {
		return nil, nil, err
	}
	value = binary.BigEndian.AppendUint64(nil, uint64(s.Up))
	return key, binary.BigEndian.AppendUint64(value, uint64(s.Down)), nil
}

// DecodeSync reads a record of the offset syncs topic. The error is ErrNull or
// ErrCorrupt.
func DecodeSync(key, value []byte) (Sync, error) {
	if err := present(key, value); err != nil {
		return Sync{}, err
	}
	k, v := reader{b: key}, reader{b: value}
	s := Sync{Topic: k.string("topic"), Partition: k.partition(), Up: v.offset("source offset"), Down: v.offset("target offset")}
	if err := first(k.err, v.err); err != nil {
		return Sync{}, err
	}
	return s, nil
}

// Key is what a checkpoint is about; the last record of each key counts.
type Key struct {
	Group string
	// Topic is the target's name of the topic.
	Topic     string
	Partition int32
}

// Checkpoint is a record of the checkpoints topic: the group's committed source
// offset Up is Down on the target (Checkpoint).
type Checkpoint struct {
	Key
	// Up is not looked at by readers, and may be -1.
	Up int64
	// Down is never negative.
	Down int64
	// Metadata is what the group committed with its offset, "" for nothing.
	Metadata string
}

// Encode returns the record's key and value.
func (c Checkpoint) Encode() (key, value []byte, err error) {
	if c.Down < 0 {
		return nil, nil, fmt.Errorf("%w: a checkpoint of target offset %d", ErrValue, c.Down)
	}
	if key, err = appendString(nil, c.Group, "group"); err != nil {
		return nil, nil, err
	}
	if key, err = appendString(key, c.Topic, "topic"); err != nil {
		return nil, nil, err
	}
	if key, err = appendPartition(key, c.Partition); err != nil {
		return nil, nil, err
	}
	value = binary.BigEndian.AppendUint16(nil, 0)
	value = binary.BigEndian.AppendUint64(value, uint64(c.Up))
	value = binary.BigEndian.AppendUint64(value, uint64(c.Down))
	if value, err = appendString(value, c.Metadata, "metadata"); err != nil {
		return nil, nil, err
	}
	return key, value, nil
}

// DecodeCheckpoint reads a record of the checkpoints topic. The error is ErrNull,
// ErrCorrupt or ErrVersion.
func DecodeCheckpoint(key, value []byte) (Checkpoint, error) {
	if err := present(key, value); err != nil {
		return Checkpoint{}, err
	}
	k, v := reader{b: key}, reader{b: value}
	c := Checkpoint{Key: Key{Group: k.string("group"), Topic: k.string("topic"), Partition: k.partition()}}
	v.version()
	c.Up, c.Down, c.Metadata = v.int64("source offset"), v.offset("target offset"), v.string("metadata")
	if err := first(k.err, v.err); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// Heartbeat is a record of the heartbeats topic (Heartbeat).
type Heartbeat struct {
	// Source and Target are the aliases of the clusters.
	Source, Target string
	// Timestamp is when it was sent, in milliseconds since 1970.
	Timestamp int64
}

// Encode returns the record's key and value.
func (h Heartbeat) Encode() (key, value []byte, err error) {
	if key, err = appendString(nil, h.Source, "source alias"); err != nil {
		return nil, nil, err
	}
	if key, err = appendString(key, h.Target, "target alias"); err != nil {
		return nil, nil, err
	}
	value = binary.BigEndian.AppendUint16(nil, 0)
	return key, binary.BigEndian.AppendUint64(value, uint64(h.Timestamp)), nil
}

// DecodeHeartbeat reads a record of the heartbeats topic. The error is ErrNull,
// ErrCorrupt or ErrVersion.
func DecodeHeartbeat(key, value []byte) (Heartbeat, error) {
	if err := present(key, value); err != nil {
		return Heartbeat{}, err
	}
	k, v := reader{b: key}, reader{b: value}
	h := Heartbeat{Source: k.string("source alias"), Target: k.string("target alias")}
	v.version()
	h.Timestamp = v.int64("timestamp")
	if err := first(k.err, v.err); err != nil {
		return Heartbeat{}, err
	}
	return h, nil
}

func first(key, value error) error {
	switch {
	case key != nil:
		return fmt.Errorf("key: %w", key)
	case value != nil:
		return fmt.Errorf("value: %w", value)
	}
	return nil
}
