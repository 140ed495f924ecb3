package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/feed"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err   error
		act   act
		kind  feed.Kind
		quiet bool
	}{
		{nil, actRead, 0, false},
		{kerr.NotLeaderForPartition, actMove, feed.NoLeader, true},
		{kerr.FencedLeaderEpoch, actMove, feed.NoLeader, true},
		{kerr.UnknownLeaderEpoch, actMove, feed.NoLeader, true},
		{kerr.OffsetNotAvailable, actWait, feed.NoLeader, true},
		{kerr.KafkaStorageError, actMove, feed.Storage, false},
		{kerr.UnknownServerError, actWait, feed.Storage, false},
		{kerr.TopicAuthorizationFailed, actWait, feed.Unauthorized, false},
		{fmt.Errorf("login: %w", kerr.SaslAuthenticationFailed), actWait, feed.Authentication, false},
		{kerr.UnknownTopicOrPartition, actLook, feed.Gone, false},
		{kerr.UnknownTopicID, actLook, feed.Gone, false},
		{kerr.OffsetOutOfRange, actLook, feed.Overrun, false},
		{kerr.CorruptMessage, actRetry, feed.Corrupt, false},
		{fmt.Errorf("%w: x", errDisorder), actRetry, feed.Corrupt, false},
		{kerr.UnsupportedCompressionType, actFinal, feed.Unexpected, false},
		{kerr.TransactionCoordinatorFenced, actFinal, feed.Unexpected, false}, // never seen on a Fetch
		{io.ErrUnexpectedEOF, actMove, feed.Unreachable, true},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), actWait, feed.Unreachable, true},
		{errors.New("anything"), actMove, feed.Unreachable, true},
		{feed.NewFault(feed.Gone, feed.Partition{}, 0, nil), actFinal, feed.Gone, false},
		{feed.NewFault(feed.Unauthorized, feed.Partition{}, 0, nil), actWait, feed.Unauthorized, false},
	} {
		if got := classify(c.err); got != (verdict{c.act, c.kind, c.quiet}) {
			t.Errorf("%v: got %+v", c.err, got)
		}
	}
}

// Kinds that end a stream are never told as temporary, and the other way round.
func TestVerdictsAgreeWithKinds(t *testing.T) {
	for err, v := range verdicts {
		final := v.act == actFinal || v.act == actRetry || v.act == actLook
		if v.kind.Temporary() == final {
			t.Errorf("%v: act %d with kind %v", err, v.act, v.kind)
		}
	}
}
