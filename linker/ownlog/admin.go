package ownlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/remote"
	"klink/linker/state"
)

const (
	// wantedReplicas is the replication factor where the cluster has as many
	// brokers: it survives one loss with min.insync.replicas at 2.
	wantedReplicas = 3
	// segmentBytes bounds what a start has to read beyond the live records:
	// the cleaner never touches the newest segment.
	segmentBytes = 16 << 20
	// createTimeoutMillis bounds how long the controller may wait for the
	// topic to be known; the caller's context bounds the whole.
	createTimeoutMillis = 15_000
	// SettleWait is the pause between looks at a topic that is being made, or whose
	// leader moves.
	SettleWait = 100 * time.Millisecond
)

// admin makes and checks a topic.
type admin struct {
	*Log
	replicas int16
}

// Ensure makes the topic where it is missing, with a replication factor, of which 0
// is 3 or the number of brokers where there are fewer, and checks one that is there.
// It leaves the Log with the topic's id and leader, and reports whether the topic
// was made now.
func (t *Log) Ensure(ctx context.Context, replicas int16) (created bool, err error) {
	a := &admin{t, replicas}
	err = t.Locate(ctx)
	if f := (*Fault)(nil); errors.As(err, &f) && f.Reason == state.TopicMissing {
		if err := a.create(ctx); err != nil {
			return false, err
		}
		created, err = true, a.settle(ctx)
	}
	if err != nil {
		return created, err
	}
	if created {
		return true, nil
	}
	return false, a.check(ctx)
}

// settle waits until the brokers know the topic and its leader.
func (a *admin) settle(ctx context.Context) error {
	for {
		err := a.Locate(ctx)
		if f := (*Fault)(nil); err == nil || !errors.As(err, &f) ||
			(f.Reason != state.TopicMissing && f.Reason != state.NoLeader) {
			return err
		}
		if !Pause(ctx, SettleWait) {
			return fmt.Errorf("wait for %s to be known: %w", a.topic, err)
		}
	}
}

func (a *admin) create(ctx context.Context) error {
	replicas := a.replicas
	if replicas == 0 {
		replicas = int16(max(1, min(wantedReplicas, len(a.leaders.Brokers()))))
	}
	insync := max(1, int(replicas)-1)
	configs := [][2]string{
		{"cleanup.policy", "compact"},
		{"segment.bytes", strconv.Itoa(segmentBytes)},
		{"min.cleanable.dirty.ratio", "0.1"},
		{"min.insync.replicas", strconv.Itoa(min(2, insync))},
	}
	err := a.createWith(ctx, replicas, configs)
	if errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.PolicyViolation) {
		// Compaction is needed, the rest is comfort that a policy may forbid.
		err = a.createWith(ctx, replicas, configs[:1])
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil // made by another klink just now, or not yet known to the broker that was asked
	}
	return Classify("create "+a.topic, "Create on topic "+a.topic, err)
}

func (a *admin) createWith(ctx context.Context, replicas int16, configs [][2]string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = a.topic, 1, replicas
	for _, kv := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], kmsg.StringPtr(kv[1])
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = createTimeoutMillis
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return remote.WithMessage(err, t.ErrorMessage)
		}
	}
	return nil
}

// check looks at a topic that was there: made by hand, perhaps, because klink
// may not create topics. Another cleanup policy would delete state with age.
func (a *admin) check(ctx context.Context) error {
	if n := a.partitions; n != 1 {
		return &Fault{Op: "check " + a.topic, Reason: state.ControlUnwritable,
			Err: fmt.Errorf("it has %d partitions and needs exactly 1", n)}
	}
	policy, err := a.policy(ctx)
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return nil // not ours to see: who prepares the topic by hand sets the policy
	}
	if err != nil {
		return Classify("describe configs of "+a.topic, "", err)
	}
	if strings.TrimSpace(policy) == "compact" {
		return nil
	}
	if err := a.setPolicy(ctx); err != nil {
		return &Fault{Op: "check " + a.topic, Reason: state.ControlUnwritable,
			Err: fmt.Errorf("its cleanup.policy is %q and needs to be compact; setting it: %w", policy, err)}
	}
	return nil
}

func (a *admin) policy(ctx context.Context) (string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, a.topic
	r.ConfigNames = []string{"cleanup.policy"}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return "", err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return "", remote.WithMessage(err, r.ErrorMessage)
		}
		for _, c := range r.Configs {
			if c.Name == "cleanup.policy" && c.Value != nil {
				return *c.Value, nil
			}
		}
	}
	return "", errors.New("the answer does not hold cleanup.policy")
}

func (a *admin) setPolicy(ctx context.Context) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, a.topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = "cleanup.policy", kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("compact")
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return remote.WithMessage(err, r.ErrorMessage)
		}
	}
	return nil
}

// Pause waits for d and reports whether ctx is still alive.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
