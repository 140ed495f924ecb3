package appender

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ProducerState is what a partition's leader remembers of a producer.
type ProducerState struct {
	// Known is false where the leader has no entry: never seen, or forgotten
	// (producer.id.expiration.ms after the newest record's timestamp). The next
	// append is then not checked against a sequence.
	Known bool
	Epoch int16
	// LastSequence is that of the last record, -1 for an entry that only a
	// marker made.
	LastSequence int32
	// LastTimestamp is the newest record's or marker's, in ms.
	LastTimestamp int64
	// CoordinatorEpoch is that of the last marker, -1 without one.
	CoordinatorEpoch int32
}

// Next returns the only sequence the leader accepts next at the same epoch.
func (s ProducerState) Next() int32 {
	if s.LastSequence < 0 {
		return 0
	}
	return NextSequence(s.LastSequence, 1)
}

// ProducerState asks the leader for its entry of producer pid
// (DescribeProducers v0, KIP-664, brokers from 2.8 on; needs Read on the
// topic). "No entry" is a state without Known; everything that leaves it open
// whether there is one is a *Fault: ErrUnsupported inside where the broker does
// not know the request, Reason NoPermission where the right is missing.
func (a *Appender) ProducerState(ctx context.Context, t Target, pid int64) (ProducerState, error) {
	var found ProducerState
	faults := a.askLeaders(ctx, []Target{t}, question{op: "describe producers", right: rightRead,
		put: func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error {
			p, err := askProducers(ctx, to, t)
			if err != nil {
				return err
			}
			err = kerr.ErrorForCode(p.ErrorCode)
			if err == nil {
				found = pickProducer(p, pid)
			}
			reply(t, err)
			return nil
		}})
	if f := faults[t]; f != nil {
		return ProducerState{}, f
	}
	return found, nil
}

func pickProducer(p *kmsg.DescribeProducersResponseTopicPartition, pid int64) ProducerState {
	for _, e := range p.ActiveProducers {
		if e.ProducerID == pid {
			return ProducerState{Known: true, Epoch: int16(e.ProducerEpoch), LastSequence: e.LastSequence,
				LastTimestamp: e.LastTimestamp, CoordinatorEpoch: e.CoordinatorEpoch}
		}
	}
	return ProducerState{}
}

func askProducers(ctx context.Context, to *kgo.Broker, t Target) (*kmsg.DescribeProducersResponseTopicPartition, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = t.Topic, []int32{t.Partition}
	req.Topics = append(req.Topics, rt)
	kresp, err := to.Request(ctx, req)
	if err != nil {
		if known, kErr := knowsRequest(ctx, to, req.Key()); kErr == nil && !known {
			return nil, ErrUnsupported
		}
		return nil, err
	}
	resp, ok := kresp.(*kmsg.DescribeProducersResponse)
	if !ok {
		return nil, fmt.Errorf("producers answered by %T", kresp)
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if resp.Topics[i].Topic == t.Topic && p.Partition == t.Partition {
				return p, nil
			}
		}
	}
	return nil, ErrNoAnswer
}

// knowsRequest asks a broker for its API keys. kgo refuses a request that the
// broker does not list with an error that cannot be told from others.
func knowsRequest(ctx context.Context, to *kgo.Broker, key int16) (bool, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "klink", "probe" // v3+ refuses none (KIP-511)
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return false, err
	}
	resp, ok := kresp.(*kmsg.ApiVersionsResponse)
	if !ok {
		return false, fmt.Errorf("api versions answered by %T", kresp)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return false, fmt.Errorf("ask for api versions: %w", err)
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == key {
			return true, nil
		}
	}
	return false, nil
}
