package mm2

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ConnectOffset is how far MirrorMaker 2's source connector got with a partition,
// as Connect keeps it in its offsets topic.
type ConnectOffset struct {
	// Connector is MirrorSourceConnector in dedicated mode, and what the operator
	// called it otherwise.
	Connector string
	// Cluster is the alias of the source.
	Cluster string
	// Topic is the source's name of the topic.
	Topic     string
	Partition int32
	// Last is the source offset of the last record known to be copied. Up to one
	// flush interval of records behind it may have been copied too (Connect's
	// offset.flush.interval.ms, 60 s).
	Last int64
	// Deleted: the offset was taken away; Last means nothing.
	Deleted bool
}

// Next is the source offset at which MirrorMaker 2 would go on.
func (c ConnectOffset) Next() int64 { return c.Last + 1 }

// DecodeConnectOffset reads a record of Connect's offsets topic, whose value is
// missing where the offset was deleted. The error is ErrNull for a missing key,
// ErrForeign for what other connectors keep there, or ErrCorrupt.
func DecodeConnectOffset(key, value []byte) (ConnectOffset, error) {
	if key == nil {
		return ConnectOffset{}, ErrNull
	}
	c, err := connectKey(key)
	if err != nil {
		return ConnectOffset{}, err
	}
	if value == nil || bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
		c.Deleted = true
		return c, nil
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(value, &v); err != nil {
		return ConnectOffset{}, fmt.Errorf("%w: value: %w", ErrCorrupt, err)
	}
	var last *int64
	if err := json.Unmarshal(orNull(v["offset"]), &last); err != nil || last == nil || *last < 0 {
		return ConnectOffset{}, fmt.Errorf("%w: value holds no offset", ErrCorrupt)
	}
	c.Last = *last
	return c, nil
}

// connectKey reads ["connector", {"cluster": ..., "partition": ..., "topic": ...}].
// Names are compared exactly, as in Java.
func connectKey(key []byte) (ConnectOffset, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(key, &parts); err != nil {
		return ConnectOffset{}, fmt.Errorf("%w: key: %w", ErrCorrupt, err)
	}
	if len(parts) != 2 {
		return ConnectOffset{}, fmt.Errorf("%w: key of %d parts", ErrCorrupt, len(parts))
	}
	var name *string
	if err := json.Unmarshal(parts[0], &name); err != nil || name == nil {
		return ConnectOffset{}, fmt.Errorf("%w: key names no connector", ErrCorrupt)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(parts[1], &fields); err != nil {
		return ConnectOffset{}, fmt.Errorf("%w: partition of connector %s: %w", ErrForeign, *name, err)
	}
	var cluster, topic *string
	var partition *int32
	for field, into := range map[string]any{"cluster": &cluster, "topic": &topic, "partition": &partition} {
		if err := json.Unmarshal(orNull(fields[field]), into); err != nil {
			return ConnectOffset{}, fmt.Errorf("%w: %s of connector %s: %w", ErrForeign, field, *name, err)
		}
	}
	if len(fields) != 3 || cluster == nil || topic == nil || partition == nil {
		return ConnectOffset{}, fmt.Errorf("%w: %s", ErrForeign, *name)
	}
	if *partition < 0 {
		return ConnectOffset{}, fmt.Errorf("%w: partition %d", ErrCorrupt, *partition)
	}
	return ConnectOffset{Connector: *name, Cluster: *cluster, Topic: *topic, Partition: *partition}, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
