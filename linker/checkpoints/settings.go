package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/ownlog"
	"klink/linker/remote"
	"klink/linker/state"
)

const (
	// wantedReplicas is the replication factor where the cluster has as many brokers:
	// MirrorMaker 2's default (checkpoints.topic.replication.factor and the like).
	wantedReplicas = 3
	// settleWait is the pause between looks at a topic that is being made.
	settleWait    = 100 * time.Millisecond
	cleanupPolicy = "cleanup.policy"
	compact       = "compact"
)

// ErrSettings: a topic is there and its settings would break readers (P6).
var ErrSettings = errors.New("settings that readers of MirrorMaker 2's topics cannot do with")

// ensure makes a topic as MirrorMaker 2 does (MirrorUtils.createSinglePartitionCompactedTopic),
// or looks at one that is there. It returns once the brokers know it.
func ensure(ctx context.Context, cl *kgo.Client, topic string) error {
	there, brokers, err := look(ctx, cl, topic)
	if err == nil && !there {
		if err = create(ctx, cl, topic, brokers); err != nil {
			return err
		}
		for !there && err == nil {
			if !ownlog.Pause(ctx, settleWait) {
				return remote.Classify("wait for topic "+topic+" to be known", "", context.DeadlineExceeded)
			}
			there, _, err = look(ctx, cl, topic)
		}
	}
	if err != nil {
		return err
	}
	return checkPolicy(ctx, kadm.NewClient(cl), topic)
}

// look tells whether a topic is there with a leader, and how many brokers there are.
// One that is there and cannot be used is an error. kadm would answer from what the
// client saw some seconds ago.
func look(ctx context.Context, cl *kgo.Client, topic string) (there bool, brokers int, err error) {
	op, right := "look up topic "+topic, remote.Right("Describe", "topic", topic)
	req := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Topics) != 1 {
		err = errors.New("the answer does not hold the topic")
	}
	if err != nil {
		return false, 0, remote.Classify(op, right, err)
	}
	t := resp.Topics[0]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.LeaderNotAvailable):
		return false, len(resp.Brokers), nil
	case err != nil:
		return false, 0, remote.Classify(op, right, err)
	case len(t.Partitions) != 1:
		return true, 0, misfit(topic, "%d partitions, and all but the first would not be read", len(t.Partitions))
	}
	return t.Partitions[0].Leader >= 0, len(resp.Brokers), nil
}

func checkPolicy(ctx context.Context, adm *kadm.Client, topic string) error {
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err == nil && len(configs) == 1 {
		err = configs[0].Err
	}
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return nil // not ours to see: who prepares the topic by hand sets the policy
	case err != nil:
		return remote.Classify("read the settings of topic "+topic, "", err)
	}
	for _, r := range configs {
		for _, c := range r.Configs {
			if c.Key == cleanupPolicy && strings.TrimSpace(c.MaybeValue()) != compact {
				return misfit(topic, "%s=%s, and records would be lost with age", cleanupPolicy, c.MaybeValue())
			}
		}
	}
	return nil
}

func misfit(topic, format string, args ...any) error {
	return &remote.Fault{Op: "use topic " + topic, Reason: state.TopicRefused,
		Err: fmt.Errorf("%w: %s", ErrSettings, fmt.Sprintf(format, args...))}
}

func create(ctx context.Context, cl *kgo.Client, topic string, brokers int) error {
	op, right := "make topic "+topic, remote.Right("Create", "topic", topic)
	replicas := int16(max(1, min(wantedReplicas, brokers)))
	r, err := kadm.NewClient(cl).CreateTopic(ctx, 1, replicas, map[string]*string{cleanupPolicy: kmsg.StringPtr(compact)}, topic)
	err = remote.WithMessage(err, &r.ErrMessage)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil // made by another one just now, or not known yet to the broker that was asked
	}
	return remote.Classify(op, right, err)
}
