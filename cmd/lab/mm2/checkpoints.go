package mm2

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab"
)

// ErrCheckpoint says that a record is no checkpoint.
var ErrCheckpoint = errors.New("no checkpoint")

// CheckpointsTopic is the topic, on the target, of the checkpoints of a source
// with this alias (DefaultReplicationPolicy, and so also Identity-).
func CheckpointsTopic(alias string) string { return alias + ".checkpoints.internal" }

// Checkpoint says where a group is to go on at the target.
type Checkpoint struct {
	Group      string
	At         lab.Partition // by the target's topic name
	Upstream   int64         // the offset that the group had committed at the source
	Downstream int64         // the one at the target that stands for it
}

// ParseCheckpoint reads one record: the key holds group, topic and partition, the
// value a version, both offsets and metadata (Checkpoint.java, v0).
func ParseCheckpoint(key, value []byte) (Checkpoint, error) {
	k := cursor{left: key}
	c := Checkpoint{Group: k.text(), At: lab.Partition{Topic: k.text()}}
	c.At.Number = int32(k.number(4))
	v := cursor{left: value}
	version := v.number(2)
	c.Upstream, c.Downstream = int64(v.number(8)), int64(v.number(8))
	if k.short || v.short || version != 0 {
		return Checkpoint{}, fmt.Errorf("%w: version %d, key of %d bytes, value of %d", ErrCheckpoint, version, len(key), len(value))
	}
	return c, nil
}

// cursor reads Kafka's older protocol types from the front of some bytes.
type cursor struct {
	left  []byte
	short bool // there was less than was asked for
}

func (c *cursor) take(n int) []byte {
	if n > len(c.left) {
		c.short, c.left = true, nil
		return nil
	}
	out := c.left[:n]
	c.left = c.left[n:]
	return out
}

func (c *cursor) number(bytes int) uint64 {
	var wide [8]byte
	copy(wide[8-bytes:], c.take(bytes))
	return binary.BigEndian.Uint64(wide[:])
}

func (c *cursor) text() string {
	n := int(int16(c.number(2)))
	if n < 0 {
		c.short = true
		return ""
	}
	return string(c.take(n))
}

// ReadCheckpoints reads the checkpoints of an alias to their end, and gives the
// last one of each partition of a group. A topic that is not there has none.
func ReadCheckpoints(ctx context.Context, target lab.Cluster, alias, group string) (map[lab.Partition]Checkpoint, error) {
	at := lab.Partition{Topic: CheckpointsTopic(alias)}
	all := map[lab.Partition]Checkpoint{}
	var bad error
	err := lab.EachRecord(ctx, target, at, lab.ReadOptions{Isolation: lab.ReadUncommitted}, func(r *kgo.Record) {
		c, err := ParseCheckpoint(r.Key, r.Value)
		if err == nil && c.Group == group {
			all[c.At] = c
		}
		bad = cmp.Or(bad, err)
	})
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return all, nil
	}
	return all, cmp.Or(err, bad)
}
