package translate

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/translate/mm2"
)

// Checkpoint is a checkpoint with its record's time: when the group's offset was
// looked at on the source.
type Checkpoint struct {
	mm2.Checkpoint
	At time.Time
}

// Checkpoints are the current ones of a checkpoints topic: the last of each group,
// topic and partition.
type Checkpoints struct {
	Read
	last map[mm2.Key]Checkpoint
}

// ReadCheckpoints reads a checkpoints topic (mm2.Policy.CheckpointsTopic). The
// error is ErrNoTopic where it is not there; a deadline of the context is none
// (T1). Describe and Read on the topic are all it needs.
func ReadCheckpoints(ctx context.Context, cl *kgo.Client, topic string) (*Checkpoints, error) {
	c := &Checkpoints{}
	r, err := readAll(ctx, cl, topic, c.apply)
	c.Read = r
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Checkpoints) apply(r *kgo.Record) error {
	got, err := mm2.DecodeCheckpoint(r.Key, r.Value)
	if err != nil {
		return err
	}
	if c.last == nil {
		c.last = make(map[mm2.Key]Checkpoint)
	}
	c.last[got.Key] = Checkpoint{got, r.Timestamp}
	return nil
}

// Groups are those with a checkpoint, sorted.
func (c *Checkpoints) Groups() []string {
	names := make(map[string]struct{})
	for k := range c.last {
		names[k.Group] = struct{}{}
	}
	return slices.Sorted(maps.Keys(names))
}

// Of gives a group's checkpoints by the target's partitions: what MirrorMaker 2's
// own client gives (RemoteClusterUtils.translateOffsets).
func (c *Checkpoints) Of(group string) map[Partition]Checkpoint {
	out := make(map[Partition]Checkpoint)
	for k, cp := range c.last {
		if k.Group == group {
			out[Partition{k.Topic, k.Partition}] = cp
		}
	}
	return out
}
