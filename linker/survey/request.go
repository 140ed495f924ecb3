package survey

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/linker/appender"
)

// errOtherAnswer: the answer does not speak of what was asked.
var errOtherAnswer = errors.New("the answer does not hold the partition")

// markersV1 hides v2, whose meaning depends on the transaction version (KIP-1228).
type markersV1 struct{ *kmsg.WriteTxnMarkersRequest }

// MaxVersion is the only version that all brokers from 2.8 on understand alike.
func (markersV1) MaxVersion() int16 { return 1 }

// marks are COMMIT markers of one producer, one for each coordinator epoch.
type marks struct {
	pid               int64
	epoch             int16
	coordinatorEpochs []int32
}

// writeMarkers sends one WriteTxnMarkers to a broker. With several markers an
// error may be hidden by a later success: only the log end tells (S3).
func writeMarkers(ctx context.Context, to *kgo.Broker, t appender.Target, m marks) error {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, c := range m.coordinatorEpochs {
		x := kmsg.NewWriteTxnMarkersRequestMarker()
		x.ProducerID, x.ProducerEpoch, x.Committed, x.CoordinatorEpoch = m.pid, m.epoch, true, c
		topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		topic.Topic, topic.Partitions = t.Topic, []int32{t.Partition}
		x.Topics = append(x.Topics, topic)
		req.Markers = append(req.Markers, x)
	}
	kresp, err := to.Request(ctx, markersV1{req})
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.WriteTxnMarkersResponse)
	if !ok {
		return fmt.Errorf("markers answered by %T", kresp)
	}
	for _, x := range resp.Markers {
		for _, topic := range x.Topics {
			for _, p := range topic.Partitions {
				if topic.Topic == t.Topic && p.Partition == t.Partition {
					return kerr.ErrorForCode(p.ErrorCode)
				}
			}
		}
	}
	return errOtherAnswer
}

// deleteRecords sends one DeleteRecords (KIP-107) to a partition's leader.
func deleteRecords(ctx context.Context, to *kgo.Broker, t appender.Target, start int64) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = adminTimeoutMs
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = t.Topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = t.Partition, start
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := kresp.(*kmsg.DeleteRecordsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errOtherAnswer
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// changeSetting sets one config of a topic (IncrementalAlterConfigs, KIP-339).
func changeSetting(ctx context.Context, cl *kgo.Client, topic, key, value string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = key, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(value)
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Resources) != 1 {
		return errOtherAnswer
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

// served are the highest versions of requests that a broker takes, by key.
type served map[int16]int16

// serves asks a broker for its requests (ApiVersions, KIP-35). kgo refuses one
// that is not among them with an error that cannot be told from others.
func serves(ctx context.Context, to *kgo.Broker) (served, *kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "klink", "probe" // v3+ refuses empty ones
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	resp, ok := kresp.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil, nil, fmt.Errorf("api versions answered by %T", kresp)
	}
	out := make(served, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		out[k.ApiKey] = k.MaxVersion
	}
	return out, resp, kerr.ErrorForCode(resp.ErrorCode)
}
