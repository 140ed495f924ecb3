package survey

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/appender"
	"klink/linker/remote"
	"klink/linker/state"
)

// ScratchPrefix begins the names of scratch topics. It begins as klink's control
// topics do, so that no link ever mirrors one.
const ScratchPrefix = "__klink-probe-"

const (
	// removeTimeout bounds the removal of the scratch topic, so that a probe that
	// was stopped ends soon.
	removeTimeout = 8 * time.Second
	// readyTimeout bounds the wait until the new topic has a leader that serves it.
	readyTimeout   = 10 * time.Second
	readyInterval  = 50 * time.Millisecond
	adminTimeoutMs = 8000
)

// scratch is the topic that a probe plays with.
type scratch struct {
	admin  *kgo.Client
	target appender.Target
}

// scratchConfigs are those of a mirror topic, but that what is left behind is
// deleted by the broker within the hour.
var scratchConfigs = map[string]string{"cleanup.policy": "delete", "compression.type": "producer", "message.timestamp.type": "CreateTime", "retention.ms": "3600000"}

func scratchRight(operation string) string {
	return remote.Right(operation, "topic", ScratchPrefix+"*")
}

// createScratch makes the topic with one partition; replicas -1 leaves their
// number to the cluster. The error is a *remote.Fault.
func createScratch(ctx context.Context, admin *kgo.Client, replicas int16) (*scratch, error) {
	name := fmt.Sprintf("%s%08x", ScratchPrefix, rand.Uint32())
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = adminTimeoutMs
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, replicas
	for k, v := range scratchConfigs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	s := &scratch{admin: admin, target: appender.Target{Topic: name}}
	resp, err := req.RequestWith(ctx, admin)
	if err == nil && len(resp.Topics) == 1 {
		err = remote.WithMessage(kerr.ErrorForCode(resp.Topics[0].ErrorCode), resp.Topics[0].ErrorMessage)
	}
	// A topic whose creation was not answered may be there.
	return s, remote.Classify("make scratch topic "+name, scratchRight("Create"), err)
}

// remove deletes the topic, whatever has happened to ctx (S1). It returns nil
// where there is none.
func (s *scratch) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = adminTimeoutMs
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(s.target.Topic)
	req.Topics, req.TopicNames = append(req.Topics, t), append(req.TopicNames, s.target.Topic) // v6+ by Topics
	resp, err := req.RequestWith(ctx, s.admin)
	if err == nil && len(resp.Topics) == 1 {
		err = remote.WithMessage(kerr.ErrorForCode(resp.Topics[0].ErrorCode), resp.Topics[0].ErrorMessage)
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	}
	return remote.Classify("remove scratch topic "+s.target.Topic, scratchRight("Delete"), err)
}

// surroundings is what a cluster tells of itself and of the scratch topic.
type surroundings struct {
	clusterID string
	brokers   int
	id        [16]byte
	leader    int32
	replicas  int
}

// look asks for the scratch topic. Its leader is -1 until a broker has heard of
// it.
func (s *scratch) look(ctx context.Context) (surroundings, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(s.target.Topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return surroundings{leader: -1}, remote.Classify("look for scratch topic", "", err)
	}
	out := surroundings{brokers: len(resp.Brokers), leader: -1}
	if resp.ClusterID != nil {
		out.clusterID = *resp.ClusterID
	}
	for _, t := range resp.Topics {
		if errors.Is(kerr.ErrorForCode(t.ErrorCode), kerr.TopicAuthorizationFailed) {
			return out, remote.Classify("look for scratch topic", scratchRight("Describe"), kerr.TopicAuthorizationFailed)
		}
		if len(t.Partitions) > 0 {
			out.id, out.leader, out.replicas = t.TopicID, t.Partitions[0].Leader, len(t.Partitions[0].Replicas)
		}
	}
	return out, nil
}

// leftovers names the scratch topics of other probes, sorted.
func leftovers(ctx context.Context, admin *kgo.Client, own string) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest() // all topics
	req.AllowAutoTopicCreation = false
	resp, err := req.RequestWith(ctx, admin)
	if err != nil {
		return nil, remote.Classify("list topics", "", err)
	}
	left := []string{}
	for _, t := range resp.Topics {
		if t.Topic != nil && strings.HasPrefix(*t.Topic, ScratchPrefix) && *t.Topic != own {
			left = append(left, *t.Topic)
		}
	}
	slices.Sort(left)
	return left, nil
}

// awaitReady waits until the topic's leader answers for it: metadata names
// leaders before they serve.
func (s *scratch) awaitReady(ctx context.Context, t Target) (surroundings, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		around, err := s.look(ctx)
		if err == nil && around.leader >= 0 {
			s.target.ID = around.id
			if err = t.LogEnds(ctx, []appender.Target{s.target})[s.target].Err; err == nil {
				return around, nil
			}
		}
		if err = needsRight(err); remote.ReasonOf(err) == state.NoPermission {
			return around, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err == nil {
				err = kerr.LeaderNotAvailable
			}
			return around, remote.Classify("await scratch topic "+s.target.Topic, "", err)
		}
	}
}

// needsRight names the right on scratch topics that an appender's fault is about.
func needsRight(err error) error {
	var f *appender.Fault
	if errors.As(err, &f) && f.Right != "" {
		return &remote.Fault{Op: f.Op, Reason: f.Reason, Right: scratchRight(f.Right), Err: f.Err}
	}
	return err
}
