package appender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/linker/state"
)

// Outcome is what happened to a batch.
type Outcome int8

// The outcomes; the package comment says what follows from each.
const (
	// NotSent: nothing left this process.
	NotSent Outcome = iota
	// Appended: written and acknowledged by all in-sync replicas at the
	// expected base offset.
	Appended
	// Misplaced: written above the expected base offset.
	Misplaced
	// Duplicate: not written now; a batch of the same sequences was before.
	Duplicate
	// Refused: the broker answered, and nothing was written.
	Refused
	// OutOfOrder: not written; the sequence does not follow the last one.
	OutOfOrder
	// Fenced: not written; the producer's epoch is outdated.
	Fenced
	// Unknown: perhaps written.
	Unknown
)

var outcomeNames = [...]string{"not_sent", "appended", "misplaced", "duplicate", "refused", "out_of_order", "fenced", "unknown"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && o >= 0 {
		return outcomeNames[o]
	}
	return "invalid"
}

// verdict is what one error means for a batch and for its partition.
type verdict struct {
	outcome Outcome
	reason  state.Reason
	// class is the metric label: bounded, lower case or a protocol error name.
	class string
	// slow: answers for this partition may keep others waiting, so its next
	// batch goes to the slow lane.
	slow bool
	// cut: the connection ended before its time, perhaps for this very batch.
	cut bool
	// moved: the leader may be another one; ask before the next request.
	moved bool
	// right is the missing right, as in Fault.
	right string
}

const (
	rightWrite           = "Write"
	rightIdempotentWrite = "IdempotentWrite"
	rightDescribe        = "Describe"
	rightRead            = "Read"
)

// appendVerdicts has a line for each error that is understood. Which errors
// come before an append and which after it is from ReplicaManager.appendRecords
// and KafkaApis.handleProduceRequest.
var appendVerdicts = map[*kerr.Error]verdict{
	// The answer of a broker that stepped down while it waited for followers is
	// the same as that of one that never led: about half of those seen at
	// planned leader moves had been appended.
	kerr.NotLeaderForPartition: {outcome: Unknown, reason: state.NoLeader, moved: true},
	// Appended, and the followers did not confirm within the timeout.
	kerr.RequestTimedOut: {outcome: Unknown, reason: state.NotEnoughReplicas, slow: true},
	// Appended, and the in-sync set shrank below the minimum meanwhile.
	kerr.NotEnoughReplicasAfterAppend: {outcome: Unknown, reason: state.NotEnoughReplicas, slow: true},
	// Raised before the append (KAFKA-1555): the in-sync set is too small.
	kerr.NotEnoughReplicas: {outcome: Refused, reason: state.NotEnoughReplicas},
	// A disk error in the middle of an append leaves its bytes in doubt.
	kerr.KafkaStorageError: {outcome: Unknown, reason: state.StorageError, moved: true},
	// Not used by brokers for Produce; proxies may. Nothing says it is early.
	kerr.LeaderNotAvailable:  {outcome: Unknown, reason: state.NoLeader, moved: true},
	kerr.BrokerNotAvailable:  {outcome: Unknown, reason: state.Unreachable, moved: true},
	kerr.ReplicaNotAvailable: {outcome: Unknown, reason: state.NoLeader, moved: true},
	kerr.FencedLeaderEpoch:   {outcome: Unknown, reason: state.NoLeader, moved: true},
	kerr.UnknownLeaderEpoch:  {outcome: Unknown, reason: state.NoLeader, moved: true},
	kerr.NetworkException:    {outcome: Unknown, reason: state.Unreachable, slow: true, moved: true},

	// The broker does not host the partition, or not yet: metadata names
	// leaders of a new topic before they serve it.
	kerr.UnknownTopicOrPartition: {outcome: Refused, reason: state.TopicMissing, moved: true},
	// Produce v13+ by id (KIP-516). A suspicion only, see the package comment.
	kerr.UnknownTopicID:      {outcome: Refused, reason: state.TargetRecreated, moved: true},
	kerr.InconsistentTopicID: {outcome: Refused, reason: state.TargetRecreated, moved: true},

	// Sequences and epochs (ProducerAppendInfo): all checked under the log's
	// lock before anything is written.
	kerr.OutOfOrderSequenceNumber: {outcome: OutOfOrder},
	// Brokers before 2.5 (KIP-360): no entry, and the sequence is not 0.
	kerr.UnknownProducerID:    {outcome: OutOfOrder},
	kerr.InvalidProducerEpoch: {outcome: Fenced, reason: state.Fenced},
	kerr.ProducerFenced:       {outcome: Fenced, reason: state.Fenced},
	// Brokers answer a duplicate with success and its base offset; Raft based
	// compatibles may name it.
	kerr.DuplicateSequenceNumber: {outcome: Duplicate},

	// Sizes (UnifiedLog.analyzeAndValidateRecords): max.message.bytes, and
	// segment.bytes.
	kerr.MessageTooLarge:    {outcome: Refused, reason: state.TooLarge},
	kerr.RecordListTooLarge: {outcome: Refused, reason: state.TooLarge},
	// The CRC is an end-to-end check of the payload: source, klink or network.
	kerr.CorruptMessage: {outcome: Refused, reason: state.Corrupt},
	// A batch no broker takes as it is: holes, a null key on a compacted topic.
	// Sending it again would loop, so it is about data.
	kerr.InvalidRecord:              {outcome: Refused, reason: state.Unfillable},
	kerr.UnsupportedCompressionType: {outcome: Refused, reason: state.Unfillable},
	// The transactional bit must have been cleared, and the appender checks it;
	// so these come from a broker that sees it otherwise. Validation all.
	kerr.InvalidTxnState:                    {outcome: Refused, reason: state.Unfillable},
	kerr.InvalidProducerIDMapping:           {outcome: Refused, reason: state.Unfillable},
	kerr.TransactionalIDAuthorizationFailed: {outcome: Refused, reason: state.Unfillable},

	// Settings of the target topic or broker: message.timestamp.*, the message
	// format, a name that is the brokers' own, a policy.
	kerr.InvalidTimestamp:            {outcome: Refused, reason: state.TopicRefused},
	kerr.UnsupportedForMessageFormat: {outcome: Refused, reason: state.TopicRefused},
	kerr.InvalidTopicException:       {outcome: Refused, reason: state.TopicRefused},
	kerr.PolicyViolation:             {outcome: Refused, reason: state.TopicRefused},
	kerr.InvalidRequiredAcks:         {outcome: Refused, reason: state.TopicRefused},
	// The request was not understood, hence not carried out.
	kerr.UnsupportedVersion: {outcome: Refused, reason: state.TopicRefused},
	kerr.InvalidRequest:     {outcome: Refused, reason: state.TopicRefused},

	kerr.TopicAuthorizationFailed: {outcome: Refused, reason: state.NoPermission, right: rightWrite},
	// Brokers before 2.8 ask for IdempotentWrite (KIP-679).
	kerr.ClusterAuthorizationFailed: {outcome: Refused, reason: state.NoPermission, right: rightIdempotentWrite},
	kerr.SaslAuthenticationFailed:   {outcome: Refused, reason: state.Authentication},
}

// classify judges an append that did not simply succeed. sent tells whether
// the request may have reached a connection; if not, err says why.
func classify(err error, sent bool) verdict {
	if !sent {
		return verdict{outcome: NotSent, reason: dialReason(err), class: classNotSent, moved: true}
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		// The connection ended, the deadline passed, or the answer could not be
		// read: the broker may have the request.
		v := verdict{outcome: Unknown, reason: state.Unreachable, class: "cut", cut: true, slow: true, moved: true}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			v.class, v.cut = "deadline", false // a broker that hangs, not one that hangs up
		}
		return v
	}
	v, ok := appendVerdicts[ke]
	if !ok {
		// Loud default. UNKNOWN_SERVER_ERROR is here on purpose: it wraps any
		// exception of the broker, before or after the append.
		return verdict{outcome: Unknown, reason: state.TopicRefused, class: "unclassified_" + ke.Message}
	}
	v.class = ke.Message
	return v
}

// judgeOffset compares the base offset of an error-free answer.
func judgeOffset(base, expect int64) verdict {
	switch {
	case base == expect:
		return verdict{outcome: Appended}
	case base > expect:
		return verdict{outcome: Misplaced, reason: state.ForeignWrite, class: "misplaced"}
	case base >= 0:
		return verdict{outcome: Duplicate, class: "duplicate"}
	default:
		return verdict{outcome: Unknown, reason: state.Unreachable, class: "no_offset"}
	}
}

// dialReason judges why a connection could not be had.
func dialReason(err error) state.Reason {
	var (
		certErr   *tls.CertificateVerificationError
		alertErr  tls.AlertError
		recordErr tls.RecordHeaderError
		unknownCA x509.UnknownAuthorityError
		hostErr   x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed),
		errors.Is(err, kerr.UnsupportedSaslMechanism),
		errors.Is(err, kerr.IllegalSaslState),
		errors.As(err, &certErr), errors.As(err, &alertErr), errors.As(err, &recordErr),
		errors.As(err, &unknownCA), errors.As(err, &hostErr), errors.As(err, &invalid):
		return state.Authentication
	}
	return state.Unreachable
}

// readVerdict judges an error of a question to a leader, where nothing can be
// written. again: worth asking once more after fresh metadata.
func readVerdict(err error, right string) (reason state.Reason, missing string, again bool) {
	switch {
	case errors.Is(err, kerr.KafkaStorageError): // first: it may be why there is no leader
		return state.StorageError, "", true
	case errors.Is(err, kerr.NotLeaderForPartition), errors.Is(err, kerr.LeaderNotAvailable),
		errors.Is(err, kerr.FencedLeaderEpoch), errors.Is(err, kerr.UnknownLeaderEpoch),
		errors.Is(err, kerr.ReplicaNotAvailable),
		// Right after an election, until the high watermark is known (KIP-207).
		errors.Is(err, kerr.OffsetNotAvailable), errors.Is(err, ErrNoLeader):
		return state.NoLeader, "", true
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return state.TopicMissing, "", true
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return state.NoPermission, right, false
	case errors.Is(err, ErrTopicID):
		return state.TargetRecreated, "", true // and the leader map learns of it
	case errors.Is(err, ErrNoAnswer):
		return state.NoLeader, "", true // the leader is not ready to answer yet
	case errors.Is(err, ErrUnsupported):
		return "", "", false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return state.Unreachable, "", false // a second try would take as long
	}
	return dialReason(err), "", true
}
