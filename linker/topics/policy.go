package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/leaders"
	"klink/linker/remote"
	"klink/linker/state"
)

const (
	// policyWait bounds how long brokers are asked whether a policy is in force.
	// They follow the controller within milliseconds when all is well.
	policyWait = 15 * time.Second
	// policyPause lies between two rounds of asking.
	policyPause = 50 * time.Millisecond
)

var errNotInForce = errors.New("not in force yet")

// CleanupPolicy asks the target for a topic's cleanup.policy: its effective
// value, wherever it comes from. The error is a *remote.Fault.
func (t *Target) CleanupPolicy(ctx context.Context, topic string) (string, error) {
	return cleanupPolicy(ctx, t.cl, topic)
}

func cleanupPolicy(ctx context.Context, cl kmsg.Requestor, topic string) (string, error) {
	answer, err := describeConfigs(ctx, cl, []string{topic})
	if err != nil {
		return "", err
	}
	d := answer[topic]
	if d.err != nil {
		return "", d.err
	}
	c, ok := d.settings[keyCleanup]
	if !ok {
		return "", remote.Classify("describe configs", "", errNoAnswer)
	}
	return c.Value, nil
}

// SetCleanupPolicy sets a topic's cleanup.policy with IncrementalAlterConfigs
// (API 44, KIP-339). The controller has it when this returns, the brokers may
// not: see AwaitCleanupPolicy. The error is a *remote.Fault; then the policy may
// be set all the same, and setting it again is safe.
func (t *Target) SetCleanupPolicy(ctx context.Context, topic, policy string) error {
	op, right := fmt.Sprintf("set %s=%s on topic %s", keyCleanup, policy, topic), remote.Right("AlterConfigs", "topic", topic)
	w := &work{plan: Plan{Target: topic}, out: &Outcome{Changed: []Correction{{Key: keyCleanup, Want: policy}}}}
	answers, err := t.alterConfigs(ctx, []*work{w})
	if err == nil {
		err = answers[topic]
	}
	return remote.Classify(op, right, err)
}

// AwaitCleanupPolicy returns when every leader of the topic tells that policy,
// in any order of its words, and with a *remote.Fault when they do not within 15
// seconds, or when ctx ends. A broker tells of a policy an instant before its
// log acts upon it (BrokerMetadataPublisher): a trim that is refused right after
// is to be tried again.
func (t *Target) AwaitCleanupPolicy(ctx context.Context, topic, policy string) error {
	ctx, cancel := context.WithTimeout(ctx, policyWait)
	defer cancel()
	op := fmt.Sprintf("wait for %s=%s on topic %s", keyCleanup, policy, topic)
	for {
		err := t.inForce(ctx, topic, policy)
		var f *remote.Fault
		switch {
		case err == nil, errors.Is(err, context.Canceled):
			return err
		case errors.As(err, &f) && (f.Reason == state.NoPermission || f.Reason == state.Authentication):
			return err
		}
		timer := time.NewTimer(policyPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return &remote.Fault{Op: op, Reason: remote.ReasonOf(err), Err: err}
		}
	}
}

// inForce asks each leader of the topic once.
func (t *Target) inForce(ctx context.Context, topic, policy string) error {
	answer, err := metadata(ctx, t.cl, []string{topic})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(answer.topics, func(l listedTopic) bool { return l.Name == topic })
	if i < 0 || answer.topics[i].Reason != "" {
		return kerr.UnknownTopicOrPartition
	}
	asked := make(map[int32]bool)
	for _, l := range answer.topics[i].Leaders {
		if asked[l.Broker] {
			continue
		}
		asked[l.Broker] = true
		if err := t.tells(ctx, l, topic, policy); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) tells(ctx context.Context, l leaders.Leader, topic, policy string) error {
	if l.Broker < 0 {
		return kerr.LeaderNotAvailable
	}
	have, err := cleanupPolicy(ctx, t.cl.Broker(int(l.Broker)), topic)
	if err == nil && !samePolicy(have, policy) {
		err = fmt.Errorf("%w: broker %d tells of %q", errNotInForce, l.Broker, have)
	}
	return err
}
