package topics

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/feed"
	"klink/linker/remote"
)

const (
	// createTries bounds how often a topic is asked for with fewer settings.
	createTries = 4
	// partitionsPerRequest stays well below the 10,000 at which a KRaft
	// controller refuses a whole request.
	partitionsPerRequest = 2000
	// adminTimeoutMillis bounds how long the controller may wait.
	adminTimeoutMillis = 15_000
)

var errNoAnswer = errors.New("the answer does not hold the topic")

// chunks cuts a list so that no request asks for too many partitions.
func chunks(all []*work) [][]*work {
	var out [][]*work
	begin, partitions := 0, 0
	for i, w := range all {
		n := int(w.plan.Partitions)
		if i > begin && (partitions+n > partitionsPerRequest || i-begin >= topicsPerRequest) {
			out = append(out, all[begin:i])
			begin, partitions = i, 0
		}
		partitions += n
	}
	if begin < len(all) {
		out = append(out, all[begin:])
	}
	return out
}

type creation struct {
	id  feed.TopicID
	err error
}

// createTopics sends one CreateTopics (API 19). Raw, since every topic has its
// own count, factor and settings.
func (t *Target) createTopics(ctx context.Context, ws []*work) (map[string]creation, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = adminTimeoutMillis
	out := make(map[string]creation, len(ws))
	for _, w := range ws {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = w.plan.Target, w.plan.Partitions, w.plan.Replicas
		for _, kv := range w.settings() {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = kv.Key, kmsg.StringPtr(kv.Value)
			rt.Configs = append(rt.Configs, c)
		}
		req.Topics = append(req.Topics, rt)
		out[w.plan.Target] = creation{err: errNoAnswer}
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return nil, remote.Classify("create topics", "", err)
	}
	for _, a := range resp.Topics {
		out[a.Topic] = creation{id: a.TopicID, err: answered(a.ErrorCode, a.ErrorMessage)}
	}
	return out, nil
}

// createPartitions sends one CreatePartitions (API 37).
func (t *Target) createPartitions(ctx context.Context, ws []*work) (map[string]error, error) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = adminTimeoutMillis
	out := make(map[string]error, len(ws))
	for _, w := range ws {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = w.plan.Target, w.plan.Partitions
		req.Topics = append(req.Topics, rt)
		out[w.plan.Target] = errNoAnswer
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return nil, remote.Classify("add partitions", "", err)
	}
	for _, a := range resp.Topics {
		out[a.Topic] = answered(a.ErrorCode, a.ErrorMessage)
	}
	return out, nil
}

// alterConfigs sends one IncrementalAlterConfigs (API 44, KIP-339): settings
// that are not named stay as they are.
func (t *Target) alterConfigs(ctx context.Context, ws []*work) (map[string]error, error) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	out := make(map[string]error, len(ws))
	for _, w := range ws {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, w.plan.Target
		for _, c := range w.out.Changed {
			rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			rc.Name, rc.Op, rc.Value = c.Key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(c.Want)
			r.Configs = append(r.Configs, rc)
		}
		req.Resources = append(req.Resources, r)
		out[w.plan.Target] = errNoAnswer
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return nil, remote.Classify("set topic configs", "", err)
	}
	for _, a := range resp.Resources {
		out[a.ResourceName] = answered(a.ErrorCode, a.ErrorMessage)
	}
	return out, nil
}

func answered(code int16, message *string) error {
	return remote.WithMessage(kerr.ErrorForCode(code), message)
}
