package appender

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/gather"
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
//
// Questions that come at the same time go to a leader in one request.
func (a *Appender) ProducerState(ctx context.Context, t Target, pid int64) (ProducerState, error) {
	l, err := a.route(t)
	if err != nil { // ProducerStates asks for the leader
		got := a.ProducerStates(ctx, map[Target]int64{t: pid})[t]
		return got.ProducerState, got.Err
	}
	got, err := a.statesOf(l.Broker).Ask(ctx, stateOf{t, pid})
	if err != nil {
		reason, right, _ := readVerdict(err, rightRead)
		return ProducerState{}, &Fault{Op: opProducers, Target: t, Broker: l.Broker, Reason: reason, Right: right, Err: err}
	}
	return got.ProducerState, got.Err
}

const opProducers = "describe producers"

// statesPerRequest bounds one gathered request: each partition's entry may list
// many producers.
const statesPerRequest = 500

// stateOf is one question about a producer.
type stateOf struct {
	Target
	pid int64
}

// statesOf is where questions to one broker are gathered.
func (a *Appender) statesOf(broker int32) *gather.Desk[stateOf, AskedState] {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.states[broker]
	if d == nil {
		// Two rounds, each with a request and a comparison of ids.
		d = gather.New(gather.Options[stateOf, AskedState]{Most: statesPerRequest, Timeout: 2 * a.opts.RequestTimeout, Ask: a.askStates})
		a.states[broker] = d
	}
	return d
}

// askStates asks about each partition's producers once; those about two producers
// of one partition go one after the other.
func (a *Appender) askStates(ctx context.Context, all []stateOf) map[stateOf]AskedState {
	out := make(map[stateOf]AskedState, len(all))
	for len(all) > 0 {
		var later []stateOf
		now := make(map[Target]int64, len(all))
		for _, q := range all {
			if _, twice := now[q.Target]; twice {
				later = append(later, q)
				continue
			}
			now[q.Target] = q.pid
		}
		for t, got := range a.ProducerStates(ctx, now) {
			out[stateOf{t, now[t]}] = got
		}
		all = later
	}
	return out
}

// AskedState is the answer of ProducerStates about one partition.
type AskedState struct {
	ProducerState
	// Err is as that of ProducerState.
	Err error
}

// ProducerStates is ProducerState for many partitions, one request per leader.
// Every target is in the result.
func (a *Appender) ProducerStates(ctx context.Context, pids map[Target]int64) map[Target]AskedState {
	out := make(map[Target]AskedState, len(pids))
	targets := make([]Target, 0, len(pids))
	for t := range pids {
		targets = append(targets, t)
	}
	var mu sync.Mutex // guards out
	faults := a.askLeaders(ctx, targets, question{op: opProducers, right: rightRead,
		put: func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error {
			return askProducers(ctx, to, about, func(r routed, p *kmsg.DescribeProducersResponseTopicPartition) {
				err := kerr.ErrorForCode(p.ErrorCode)
				if err == nil {
					mu.Lock()
					out[r.Target] = AskedState{ProducerState: pickProducer(p, pids[r.Target])}
					mu.Unlock()
				}
				reply(r.Target, err)
			})
		}})
	for t, f := range faults {
		out[t] = AskedState{Err: f}
	}
	return out
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

func askProducers(ctx context.Context, to *kgo.Broker, about []routed, each func(routed, *kmsg.DescribeProducersResponseTopicPartition)) error {
	req := kmsg.NewPtrDescribeProducersRequest()
	known := byTopic(about)
	for name, rs := range known {
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic = name
		for _, r := range rs {
			rt.Partitions = append(rt.Partitions, r.Partition)
		}
		req.Topics = append(req.Topics, rt)
	}
	kresp, err := to.Request(ctx, req)
	if err != nil {
		if known, kErr := knowsRequest(ctx, to, req.Key()); kErr == nil && !known {
			return ErrUnsupported
		}
		return err
	}
	resp, ok := kresp.(*kmsg.DescribeProducersResponse)
	if !ok {
		return fmt.Errorf("producers answered by %T", kresp)
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if r, ok := known.find(resp.Topics[i].Topic, p.Partition); ok {
				each(r, p)
			}
		}
	}
	return nil
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
