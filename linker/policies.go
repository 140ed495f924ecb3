package linker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/linker/control"
	"klink/linker/topics"
)

// NewPolicies returns the Policies of a target cluster.
func NewPolicies(dst *kgo.Client) Policies {
	return clusterPolicies{topics.NewTarget(dst, control.TopicName)}
}

type clusterPolicies struct{ target *topics.Target }

func (c clusterPolicies) CleanupPolicy(ctx context.Context, topic string) (string, error) {
	return c.target.CleanupPolicy(ctx, topic)
}

func (c clusterPolicies) Room(ctx context.Context, topic string, partition int32) (topics.Room, error) {
	return c.target.Room(ctx, topic, partition)
}

// SetCleanupPolicy returns once all leaders act on it.
func (c clusterPolicies) SetCleanupPolicy(ctx context.Context, topic, policy string) error {
	if err := c.target.SetCleanupPolicy(ctx, topic, policy); err != nil {
		return err
	}
	return c.target.AwaitCleanupPolicy(ctx, topic, policy)
}
