package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TopicSpec describes a topic to make.
type TopicSpec struct {
	Name       string
	Partitions int32             // 0 is 1
	Replicas   int16             // 0 is 1
	Configs    map[string]string // as Kafka names them
}

// KeepEverything are topic configs under which records of any age stay, and
// timestamps of any time are taken: brokers from 4.0 on refuse those more than
// an hour ahead by default, and delete what is older than a week.
func KeepEverything() map[string]string {
	return map[string]string{
		"retention.ms":                   "-1",
		"retention.bytes":                "-1",
		"message.timestamp.after.max.ms": "9223372036854775807",
	}
}

// servePoll is how often a new topic is asked whether its leaders serve.
const servePoll = 20 * time.Millisecond

// CreateTopics makes topics and returns when every partition's leader serves it:
// brokers name leaders in their metadata before those answer for the partition.
func CreateTopics(ctx context.Context, c Cluster, specs ...TopicSpec) error {
	client, err := adminClient(c)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, spec := range specs {
		configs := map[string]*string{}
		for key, value := range spec.Configs {
			configs[key] = &value
		}
		if err := createTopic(ctx, admin, spec, configs); err != nil {
			return fmt.Errorf("create topic %s: %w", spec.Name, err)
		}
	}
	for _, spec := range specs {
		if err := awaitServed(ctx, admin, spec); err != nil {
			return fmt.Errorf("create topic %s: %w", spec.Name, err)
		}
	}
	return nil
}

// createTopic makes one topic. A broker that a busy machine kept from its heartbeats
// does not count for a while, and then there are too few of them for any replica.
func createTopic(ctx context.Context, admin *kadm.Client, spec TopicSpec, configs map[string]*string) error {
	tick := time.NewTicker(servePoll)
	defer tick.Stop()
	for {
		resp, err := admin.CreateTopic(ctx, max(1, spec.Partitions), max(1, spec.Replicas), configs, spec.Name)
		if err == nil {
			err = resp.Err
		}
		if !errors.Is(err, kerr.InvalidReplicationFactor) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-tick.C:
		}
	}
}

func awaitServed(ctx context.Context, admin *kadm.Client, spec TopicSpec) error {
	tick := time.NewTicker(servePoll)
	defer tick.Stop()
	for {
		ends, err := admin.ListEndOffsets(ctx, spec.Name)
		if err == nil {
			err = ends.Error()
		}
		if err == nil && len(ends[spec.Name]) == int(max(1, spec.Partitions)) {
			return nil
		}
		if err != nil && !kerr.IsRetriable(err) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for its leaders: %w (last: %w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
