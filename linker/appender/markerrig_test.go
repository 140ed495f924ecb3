package appender

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"klink/fetcher/batch"
	"klink/linker/state"
)

// rising makes count markers of the partition's own producer, from first on.
func rising(t Target, first int32, count int) Markers {
	m := Markers{Identity: batch.Identity{ProducerID: testPID + int64(t.Partition)}, LeaderEpoch: AnyLeader}
	for i := range int32(count) {
		m.CoordinatorEpochs = append(m.CoordinatorEpochs, first+i)
	}
	return m
}

func (r *rig) mark(t Target, first int32, count int) MarkerResult {
	return r.a.WriteMarkers(r.t.Context(), t, rising(t, first, count))
}

func wantMarkers(t testing.TB, r MarkerResult, outcome MarkerOutcome, reason state.Reason) {
	t.Helper()
	if r.Outcome != outcome || r.Reason != reason {
		t.Errorf("got %v, reason %q, err %v; want %v, %q", r.Outcome, r.Reason, r.Err, outcome, reason)
	}
	var f *Fault
	if (r.Err == nil) != (r.Outcome == MarkersDone) || r.Err != nil && (!errors.As(r.Err, &f) || f.Op != opMarkers) {
		t.Errorf("%v comes with error %v", r.Outcome, r.Err)
	}
	if unsent := r.Outcome == MarkersNotSent; r.Sent == unsent {
		t.Errorf("%v and sent %v", r.Outcome, r.Sent)
	}
}

// controlMarkers watches marker requests until the cluster closes, as control
// does for produce.
func (r *rig) controlMarkers(fn func(*kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool)) {
	r.cluster.ControlKey(int16(kmsg.WriteTxnMarkers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return fn(req.(*kmsg.WriteTxnMarkersRequest))
	})
}

// answerMarkers replies to every marker with what code says of its partition.
func answerMarkers(req *kmsg.WriteTxnMarkersRequest, code func(partition int32) *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, m := range req.Markers {
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = m.ProducerID
		for _, t := range m.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				rp.Partition = p
				if err := code(p); err != nil {
					rp.ErrorCode = err.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return resp
}

// partitionsMarked lists the partitions of a request in their order, each once.
func partitionsMarked(req *kmsg.WriteTxnMarkersRequest) []int32 {
	var ps []int32
	for _, m := range req.Markers {
		if p := m.Topics[0].Partitions[0]; len(ps) == 0 || ps[len(ps)-1] != p {
			ps = append(ps, p)
		}
	}
	return ps
}

// holdMarkers makes the broker sit on matching marker requests.
func (r *rig) holdMarkers(match func(*kmsg.WriteTxnMarkersRequest) bool) *holder {
	h := &holder{arrived: make(chan struct{}, 1000), gate: make(chan struct{})}
	var open atomic.Bool
	h.release = func() {
		if !open.Swap(true) {
			close(h.gate)
			synctest.Wait() // kfake must not be closed while it resumes a request
		}
	}
	r.controlMarkers(func(req *kmsg.WriteTxnMarkersRequest) (kmsg.Response, error, bool) {
		if match(req) && !open.Load() {
			h.arrived <- struct{}{}
			r.cluster.SleepControl(func() { <-h.gate })
		}
		return nil, nil, false
	})
	return h
}

// begin writes markers in the background; the result comes on the channel.
func (r *rig) begin(ctx context.Context, t Target, first int32, count int) <-chan MarkerResult {
	done := make(chan MarkerResult, 1)
	go func() { done <- r.a.WriteMarkers(ctx, t, rising(t, first, count)) }()
	return done
}
