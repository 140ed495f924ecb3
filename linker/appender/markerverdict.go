package appender

import (
	"context"
	"errors"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/state"
)

// MarkerOutcome is what happened to markers.
type MarkerOutcome int8

// The outcomes.
const (
	// MarkersNotSent: nothing left this process.
	MarkersNotSent MarkerOutcome = iota
	// MarkersDone: the broker answered without an error. A single marker is
	// written; of several, some may have been refused.
	MarkersDone
	// MarkersRefused: the broker answered, and nothing was written.
	MarkersRefused
	// MarkersCoordinatorFenced: the leader has seen a higher coordinator epoch of
	// this producer id. A single marker was not written; of several, others may
	// have been. Take higher ones.
	MarkersCoordinatorFenced
	// MarkersProducerFenced: the producer's epoch is outdated. A single marker was
	// not written; of several, others may have been.
	MarkersProducerFenced
	// MarkersUnknown: perhaps written, perhaps yet to be.
	MarkersUnknown
)

var markerOutcomeNames = [...]string{"not_sent", "done", "refused", "coordinator_fenced", "producer_fenced", "unknown"}

func (o MarkerOutcome) String() string {
	if int(o) < len(markerOutcomeNames) && o >= 0 {
		return markerOutcomeNames[o]
	}
	return "invalid"
}

// markerVerdict is what one error means for markers and for their partition.
type markerVerdict struct {
	outcome MarkerOutcome
	reason  state.Reason
	// class is the metric label: bounded, lower case or a protocol error name.
	class string
	// whole: the error is about the request, so no marker of it was written.
	whole bool
	// slow: answers for this partition may keep others waiting.
	slow bool
	// moved: the leader may be another one; ask before the next request.
	moved bool
	// right is the missing right, as in Fault.
	right string
}

const rightAlterCluster = "Alter (or ClusterAction)"

// markerVerdicts has a line for each error that is understood. What comes
// before an append and what after it is from KafkaApis.handleWriteTxnMarkersRequest,
// ReplicaManager.appendRecords and ProducerAppendInfo.appendEndTxnMarker.
var markerVerdicts = map[*kerr.Error]markerVerdict{
	// As for data: a broker that stepped down while it waited for followers answers
	// like one that never led.
	kerr.NotLeaderForPartition: {outcome: MarkersUnknown, reason: state.NoLeader, moved: true},
	// Appended, and the followers did not confirm within the broker's
	// request.timeout.ms.
	kerr.RequestTimedOut: {outcome: MarkersUnknown, reason: state.NotEnoughReplicas, slow: true},
	// Appended, and the in-sync set shrank below the minimum meanwhile.
	kerr.NotEnoughReplicasAfterAppend: {outcome: MarkersUnknown, reason: state.NotEnoughReplicas},
	// Raised before the append (KAFKA-1555): the in-sync set is too small.
	kerr.NotEnoughReplicas: {outcome: MarkersRefused, reason: state.NotEnoughReplicas},
	// A disk error in the middle of an append leaves its bytes in doubt.
	kerr.KafkaStorageError: {outcome: MarkersUnknown, reason: state.StorageError, moved: true},
	// Not used by brokers here; proxies may. Nothing says it is early.
	kerr.LeaderNotAvailable:  {outcome: MarkersUnknown, reason: state.NoLeader, moved: true},
	kerr.BrokerNotAvailable:  {outcome: MarkersUnknown, reason: state.Unreachable, moved: true},
	kerr.ReplicaNotAvailable: {outcome: MarkersUnknown, reason: state.NoLeader, moved: true},
	kerr.FencedLeaderEpoch:   {outcome: MarkersUnknown, reason: state.NoLeader, moved: true},
	kerr.UnknownLeaderEpoch:  {outcome: MarkersUnknown, reason: state.NoLeader, moved: true},
	kerr.NetworkException:    {outcome: MarkersUnknown, reason: state.Unreachable, slow: true, moved: true},

	// The broker does not host the partition, or not yet: metadata names leaders
	// of a new topic before they serve it. While it waits for followers it says
	// this only of a topic that was deleted, whose log is gone.
	kerr.UnknownTopicOrPartition: {outcome: MarkersRefused, reason: state.TopicMissing, moved: true},

	// Both checked under the log's lock before the marker is written.
	kerr.TransactionCoordinatorFenced: {outcome: MarkersCoordinatorFenced},
	kerr.InvalidProducerEpoch:         {outcome: MarkersProducerFenced, reason: state.Fenced},
	kerr.ProducerFenced:               {outcome: MarkersProducerFenced, reason: state.Fenced},

	// A log of format v0 or v1 has no markers (brokers below 4.0).
	kerr.UnsupportedForMessageFormat: {outcome: MarkersRefused, reason: state.TopicRefused},
	// A limit below the 78 bytes of a marker (UnifiedLog.analyzeAndValidateRecords).
	kerr.MessageTooLarge:    {outcome: MarkersRefused, reason: state.TopicRefused},
	kerr.RecordListTooLarge: {outcome: MarkersRefused, reason: state.TopicRefused},

	// Asked for first, and about the whole request: Alter or ClusterAction on the
	// cluster from 3.8 on, ClusterAction below.
	kerr.ClusterAuthorizationFailed: {outcome: MarkersRefused, reason: state.NoPermission, right: rightAlterCluster, whole: true},
	kerr.SaslAuthenticationFailed:   {outcome: MarkersRefused, reason: state.Authentication, whole: true},
	// The request was not understood, hence not carried out.
	kerr.UnsupportedVersion: {outcome: MarkersRefused, reason: state.Unfillable, whole: true},
	kerr.InvalidRequest:     {outcome: MarkersRefused, reason: state.Unfillable, whole: true},
}

// classifyMarkers judges an error about count markers of one producer and
// partition that may have been sent.
func classifyMarkers(err error, count int) markerVerdict {
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		v := markerVerdict{outcome: MarkersUnknown, reason: state.Unreachable, class: "cut", slow: true, moved: true}
		switch {
		case errors.Is(err, context.Canceled):
			v.class, v.slow = "given_up", false // nothing is wrong with the partition
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
			v.class = "deadline"
		}
		return v
	}
	v, ok := markerVerdicts[ke]
	if !ok {
		// Loud default. UNKNOWN_SERVER_ERROR is here on purpose: it wraps any
		// exception, also one in the middle of the request.
		return markerVerdict{outcome: MarkersUnknown, reason: state.TopicRefused, class: "unclassified_" + ke.Message}
	}
	if v.outcome == MarkersRefused && count > 1 && !v.whole {
		v.outcome = MarkersUnknown // it is about one of them
	}
	v.class = ke.Message
	return v
}

// unsentMarkers judges why a request never left.
func unsentMarkers(err error) markerVerdict {
	v := markerVerdict{outcome: MarkersNotSent, reason: dialReason(err), class: classNotSent, moved: true}
	if errors.Is(err, ErrUnsupported) {
		v.reason = state.Unfillable
	}
	return v
}
