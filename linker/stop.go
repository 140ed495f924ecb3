package linker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/remote"
	"klink/linker/state"
)

// stop is why a partition's cycle ended: an event for its state, or (event
// empty) a mere wish to look at the target again.
type stop struct {
	event  state.Event
	reason state.Reason
	detail string
	// offsets: the partition's offsets cannot be kept for it (haltOffsets).
	offsets bool
	// foreign: it is about data that klink did not write, on a target that nothing is on
	// record of (otherData).
	foreign bool
}

// Error makes a stop usable where an error is.
func (s *stop) Error() string { return fmt.Sprintf("%s %s: %s", s.event, s.reason, s.detail) }

func halt(r state.Reason, format string, args ...any) *stop {
	return &stop{event: state.HaltFound, reason: r, detail: fmt.Sprintf(format, args...)}
}

func targetLost(r state.Reason, format string, args ...any) *stop {
	return &stop{event: state.TargetLost, reason: r, detail: fmt.Sprintf(format, args...)}
}

// reprobe is the answer to every doubt (K2).
func reprobe(format string, args ...any) *stop {
	return &stop{detail: fmt.Sprintf(format, args...)}
}

// sourceReasons maps the kinds of faults on the source. Kinds that are not
// temporary halt.
var sourceReasons = map[feed.Kind]state.Reason{
	feed.Unreachable: state.Unreachable, feed.Authentication: state.Authentication,
	feed.Unauthorized: state.NoPermission, feed.Storage: state.StorageError, feed.NoLeader: state.NoLeader,
	feed.Gone: state.SourceDeleted, feed.Recreated: state.SourceRecreated, feed.Overrun: state.RetentionOverrun,
	feed.Diverged: state.Diverged, feed.Corrupt: state.Corrupt, feed.Unexpected: state.Corrupt,
}

// targetReasons maps the same kinds met while reading the target.
var targetReasons = map[feed.Kind]state.Reason{
	feed.Unreachable: state.Unreachable, feed.Authentication: state.Authentication,
	feed.Unauthorized: state.NoPermission, feed.Storage: state.StorageError, feed.NoLeader: state.NoLeader,
	feed.Gone: state.TargetRecreated, feed.Recreated: state.TargetRecreated, feed.Overrun: state.TargetRecreated,
	feed.Diverged: state.TargetRecreated, feed.Corrupt: state.Corrupt, feed.Unexpected: state.Unreachable,
}

// goneDetails say what became of a source topic, in the same words for all of its
// partitions, until the next look at the topics says more.
var goneDetails = map[feed.Kind]string{
	feed.Gone:      "the source does not have the partition any more",
	feed.Recreated: "the source has another topic of this name",
}

// onSource turns a fault of the source into a stop.
func onSource(f *feed.Fault) *stop {
	r, ok := sourceReasons[f.Kind]
	if !ok {
		r = state.Corrupt
	}
	s := &stop{event: state.HaltFound, reason: r, detail: cmp.Or(goneDetails[f.Kind], missingRight(srcSide, f)+f.Error())}
	if f.Kind.Temporary() {
		s.event = state.SourceLost
	}
	return s
}

// onTarget turns a fault met while reading the target into a stop.
func onTarget(f *feed.Fault) *stop {
	r, ok := targetReasons[f.Kind]
	if !ok {
		r = state.Unreachable
	}
	s := &stop{event: state.HaltFound, reason: r, detail: missingRight(dstSide, f) + "target " + f.Error()}
	if f.Kind.Temporary() || f.Kind == feed.Unexpected {
		s.event = state.TargetLost
	}
	return s
}

// missingRight names the right that a refused reader of one side needs. Some questions ask
// for Describe alone; Read implies it, and is needed as well.
func missingRight(side string, f *feed.Fault) string {
	if f.Kind != feed.Unauthorized {
		return ""
	}
	return side + ": missing right: " + remote.Right("Read", "topic", f.Partition.Topic) + ": "
}

// onAppend turns every outcome but Appended into a stop. count is the number
// of records of the batch that was to stand at expect.
func onAppend(r appender.Result, expect, count int64) *stop {
	switch r.Outcome {
	case appender.Misplaced:
		return halt(state.ForeignWrite, "offsets %d to %d were written by someone else; klink's records of offset %d to %d stand behind them, at %d to %d",
			expect, r.Base-1, expect, expect+count-1, r.Base, r.Base+count-1)
	case appender.Fenced:
		return halt(state.Fenced, "the target refused offset %d: %v", expect, r.Err)
	case appender.Refused:
		s := onRefusal(r, expect)
		s.offsets = s.reason == state.TooLarge && count == 1 // several can be split once the limit is known
		return s
	case appender.Duplicate:
		return reprobe("the target answered offset %d for the batch of offset %d: it had been written before", r.Base, expect)
	case appender.NotSent:
		return targetLost(r.Reason, "append at offset %d not sent: %v", expect, r.Err)
	case appender.Unknown:
		if hung(r.Err) { // seconds have passed: worth showing before the next look has an answer
			return targetLost(r.Reason, "append at offset %d: %v", expect, r.Err)
		}
	}
	return reprobe("append at offset %d: %s: %v", expect, r.Outcome, r.Err)
}

// hung tells a wait that ran to its end from a connection that ended.
func hung(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, kerr.RequestTimedOut)
}

// onRefusal handles what was certainly not written. TARGET_RECREATED is only a
// suspicion until a probe has read the topic's id again.
func onRefusal(r appender.Result, expect int64) *stop {
	switch {
	case r.Reason == "" || r.Reason == state.TargetRecreated:
		return reprobe("append at offset %d refused: %v", expect, r.Err)
	case r.Reason == state.NoPermission || r.Reason == state.TooLarge || !r.Reason.Remote():
		return halt(r.Reason, "append at offset %d refused: %v", expect, r.Err)
	default:
		return targetLost(r.Reason, "append at offset %d refused: %v", expect, r.Err)
	}
}

// Waits between attempts. A doubt is settled at once the first time, since most
// end with one look; remote trouble is looked at again soon and then less often.
const (
	retryMin  = 50 * time.Millisecond
	retryMax  = 5 * time.Second
	haltRetry = 5 * time.Second
)

// troubleReason is the reason that an error of the target side comes with.
func troubleReason(err error) state.Reason {
	var (
		asked  *appender.Fault
		remote *remote.Fault
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &asked) && asked.Reason != "":
		return asked.Reason
	case errors.As(err, &remote) && remote.Reason != "":
		return remote.Reason
	}
	return state.Unreachable
}
