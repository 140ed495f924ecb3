package appender

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// markersVersion: v2 (KIP-1228) adds nothing that klink uses, and what it checks
// has changed from release to release; v1 means the same on all brokers.
const markersVersion = 1

// markerRequest is a WriteTxnMarkers request as kgo gets it. The wrapper type
// has three effects. It holds the version down. By having a timeout the request
// gets a connection apart from those of short questions, one that kgo closes when
// the request's context ends. And encoded tells afterwards whether kgo got as far
// as making the bytes: before that nothing can have been sent (A2).
type markerRequest struct {
	*kmsg.WriteTxnMarkersRequest
	timeout time.Duration
	until   time.Time // the first of the jobs' limits, zero for none
	encoded atomic.Bool
	late    atomic.Bool // until had passed: the request went without markers
}

// newMarkerRequest lists the jobs' markers, each job's in their order, which is
// the order in which a broker writes them.
func newMarkerRequest(jobs []*markerJob, timeout time.Duration) *markerRequest {
	r := &markerRequest{WriteTxnMarkersRequest: kmsg.NewPtrWriteTxnMarkersRequest(), timeout: timeout}
	count := 0
	for _, j := range jobs {
		count += len(j.markers.CoordinatorEpochs)
		if !j.until.IsZero() && (r.until.IsZero() || j.until.Before(r.until)) {
			r.until = j.until
		}
	}
	r.Markers = make([]kmsg.WriteTxnMarkersRequestMarker, 0, count)
	for _, j := range jobs {
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic, t.Partitions = j.target.Topic, []int32{j.target.Partition}
		topics := []kmsg.WriteTxnMarkersRequestMarkerTopic{t}
		for _, epoch := range j.markers.CoordinatorEpochs {
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.ProducerEpoch = j.markers.Identity.ProducerID, j.markers.Identity.ProducerEpoch
			m.Committed, m.CoordinatorEpoch, m.Topics = true, epoch, topics
			r.Markers = append(r.Markers, m)
		}
	}
	return r
}

// MaxVersion implements kmsg.Request.
func (r *markerRequest) MaxVersion() int16 { return markersVersion }

// Timeout implements kmsg.TimeoutRequest. kgo adds it to its read deadline.
func (r *markerRequest) Timeout() int32 { return int32(r.timeout.Milliseconds()) }

// AppendTo implements kmsg.Request. kgo calls it again after a first try of
// which no byte was written. The clock is read last, since a process may have
// been frozen anywhere before: too late, the request travels without markers,
// which brokers answer and do nothing about.
func (r *markerRequest) AppendTo(dst []byte) []byte {
	size := 64
	for i := range r.Markers {
		size += 32 + len(r.Markers[i].Topics[0].Topic)
	}
	full := r.WriteTxnMarkersRequest.AppendTo(slices.Grow(dst, size))
	late := !r.until.IsZero() && !time.Now().Before(r.until)
	r.late.Store(late)
	r.encoded.Store(!late)
	if late {
		return (&kmsg.WriteTxnMarkersRequest{Version: r.Version}).AppendTo(dst)
	}
	return full
}

// markerConn sends requests on the connection that markers take.
type markerConn struct{ *kgo.Broker }

// Request is kgo.Broker's.
func (c markerConn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.Broker.Request(ctx, besideMarkers{req})
}

// besideMarkers gives a request a timeout, and so the markers' connection.
type besideMarkers struct{ kmsg.Request }

// Timeout implements kmsg.TimeoutRequest.
func (besideMarkers) Timeout() int32 { return 0 }

// markerPlace is what an answer names. One producer's answers for a partition
// are one, however many markers there were.
type markerPlace struct {
	producer  int64
	topic     string
	partition int32
}

func markerPlaceOf(j *markerJob) markerPlace {
	return markerPlace{j.markers.Identity.ProducerID, j.target.Topic, j.target.Partition}
}

// indexMarkerAnswers returns the error codes by place, and an error rather than
// none where a place stands there more than once.
func indexMarkerAnswers(resp *kmsg.WriteTxnMarkersResponse) map[markerPlace]int16 {
	codes := make(map[markerPlace]int16)
	for _, m := range resp.Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				at := markerPlace{m.ProducerID, t.Topic, p.Partition}
				if codes[at] == 0 {
					codes[at] = p.ErrorCode
				}
			}
		}
	}
	return codes
}
