package fetcher

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/feed"
)

// act is what a reader does about an error of one partition.
type act int

const (
	// actRead: no error.
	actRead act = iota
	// actMove: the leader or its epoch is another; learn it and go on there.
	actMove
	// actWait: try again at the same place after a pause.
	actWait
	// actLook: ask the cluster again before believing it (see look.go).
	actLook
	// actRetry: final, unless it goes away within a few tries.
	actRetry
	// actFinal: the stream ends.
	actFinal
)

// grace is how long a fault of the kinds that every election and every restart
// causes for a moment is kept quiet.
const grace = time.Second

// verdict is what an error means.
type verdict struct {
	act  act
	kind feed.Kind // what to tell if it lasts
	// quiet: told only once it has lasted for grace.
	quiet bool
}

var verdicts = map[*kerr.Error]verdict{
	// The broker asked does not lead the partition (any more).
	kerr.NotLeaderForPartition: {act: actMove, kind: feed.NoLeader, quiet: true},
	// Our epoch is old: there was an election we have not heard of.
	kerr.FencedLeaderEpoch: {act: actMove, kind: feed.NoLeader, quiet: true},
	// The broker has not heard of an election we know of.
	kerr.UnknownLeaderEpoch: {act: actMove, kind: feed.NoLeader, quiet: true},
	// An election is under way.
	kerr.LeaderNotAvailable: {act: actMove, kind: feed.NoLeader, quiet: true},
	// The replica is being moved away from this broker.
	kerr.ReplicaNotAvailable: {act: actMove, kind: feed.NoLeader, quiet: true},
	// The broker shuts down or is fenced.
	kerr.BrokerNotAvailable: {act: actMove, kind: feed.Unreachable, quiet: true},
	// A new leader that does not know its high watermark yet (KIP-207).
	kerr.OffsetNotAvailable: {act: actWait, kind: feed.NoLeader, quiet: true},
	// Answers that say "not now".
	kerr.RequestTimedOut:           {act: actWait, kind: feed.Unreachable, quiet: true},
	kerr.NetworkException:          {act: actWait, kind: feed.Unreachable, quiet: true},
	kerr.CoordinatorLoadInProgress: {act: actWait, kind: feed.Unreachable, quiet: true},
	kerr.ThrottlingQuotaExceeded:   {act: actWait, kind: feed.Unreachable, quiet: true},
	// The log directory is offline; another replica may take over.
	kerr.KafkaStorageError: {act: actMove, kind: feed.Storage},
	// Tiered reads answer this while remote storage fails (C073).
	kerr.UnknownServerError: {act: actWait, kind: feed.Storage},
	// Rights: they may be given while we wait.
	kerr.TopicAuthorizationFailed:   {act: actWait, kind: feed.Unauthorized},
	kerr.ClusterAuthorizationFailed: {act: actWait, kind: feed.Unauthorized},
	kerr.SaslAuthenticationFailed:   {act: actWait, kind: feed.Authentication},
	kerr.UnsupportedSaslMechanism:   {act: actWait, kind: feed.Authentication},
	kerr.IllegalSaslState:           {act: actWait, kind: feed.Authentication},
	// Deleted, re-created, or so new that not every broker knows it.
	kerr.UnknownTopicOrPartition: {act: actLook, kind: feed.Gone},
	kerr.UnknownTopicID:          {act: actLook, kind: feed.Gone},
	kerr.InconsistentTopicID:     {act: actLook, kind: feed.Recreated},
	// Retention, truncation, or a slip right after a leader move (C065).
	kerr.OffsetOutOfRange: {act: actLook, kind: feed.Overrun},
	// The broker found its own log damaged.
	kerr.CorruptMessage: {act: actRetry, kind: feed.Corrupt},
	// Never for us: zstd below Fetch v10, formats that are too new, follower
	// requests. No retry helps.
	kerr.UnsupportedCompressionType:  {act: actFinal, kind: feed.Unexpected},
	kerr.UnsupportedVersion:          {act: actFinal, kind: feed.Unexpected},
	kerr.UnsupportedForMessageFormat: {act: actFinal, kind: feed.Unexpected},
	kerr.OffsetMovedToTieredStorage:  {act: actFinal, kind: feed.Unexpected},
	kerr.InvalidTopicException:       {act: actFinal, kind: feed.Unexpected},
}

// classify is the one place where an error of the source gets its meaning.
// An error code it does not know ends the stream, loudly. An error that is no
// answer of a broker (dial, TLS, timeout, cut connection) is Unreachable.
func classify(err error) verdict {
	var (
		coded *kerr.Error
		fault *feed.Fault
	)
	switch {
	case err == nil:
		return verdict{}
	case errors.As(err, &fault):
		if fault.Kind.Temporary() {
			return verdict{act: actWait, kind: fault.Kind, quiet: fault.Kind == feed.NoLeader || fault.Kind == feed.Unreachable}
		}
		return verdict{act: actFinal, kind: fault.Kind}
	case errors.Is(err, errDisorder):
		return verdict{act: actRetry, kind: feed.Corrupt}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return verdict{act: actWait, kind: feed.Unreachable, quiet: true}
	case errors.As(err, &coded):
		if v, ok := verdicts[coded]; ok {
			return v
		}
		return verdict{act: actFinal, kind: feed.Unexpected}
	default:
		return verdict{act: actMove, kind: feed.Unreachable, quiet: true}
	}
}

// sessionLost reports whether a Fetch answer's own error asks for a new fetch
// session (KIP-227; FETCH_SESSION_TOPIC_ID_ERROR: KIP-516).
func sessionLost(err error) bool {
	return errors.Is(err, kerr.FetchSessionIDNotFound) || errors.Is(err, kerr.InvalidFetchSessionEpoch) ||
		errors.Is(err, kerr.FetchSessionTopicIDError)
}
