package linker

import (
	"errors"
	"time"

	"klink/linker/appender"
	"klink/linker/state"
)

const (
	// barredFor is how long a topic is left alone whose records klink may not
	// delete.
	barredFor = time.Minute
	// trimPatience is how long trims may fail for other reasons before that is
	// told: brokers restart, and followers lag.
	trimPatience = 30 * time.Second
)

// trimBar is an episode of trims of one topic that fail.
type trimBar struct {
	reason state.Reason
	since  time.Time
	told   bool
	// again is when the next trim may be tried.
	again time.Time
	// compactOnly: the topic's policy deletes nothing by itself, so nothing is
	// deleted on request either. Another policy than this one ends it, or again
	// where the policy is not known.
	compactOnly bool
	policy      string
}

// bar begins or continues an episode. It reports whether it is to be told now.
func (b *trimBar) bar(err error, policy string, now time.Time) (tell bool) {
	var f *appender.Fault
	var reason state.Reason
	if errors.As(err, &f) {
		reason = f.Reason
	}
	if b.since.IsZero() || b.reason != reason {
		*b = trimBar{reason: reason, since: now}
	}
	b.again, b.compactOnly, b.policy = now, errors.Is(err, appender.ErrCompactOnly), policy
	if lasts(err) {
		b.again = now.Add(barredFor)
	}
	tell = !b.told && !b.compactOnly && (lasts(err) || now.Sub(b.since) >= trimPatience)
	b.told = b.told || tell
	return tell
}

// holds reports whether the topic is to be left alone for now.
func (b *trimBar) holds(policy string, now time.Time) bool {
	if b.compactOnly && policy != "" {
		return policy == b.policy
	}
	return now.Before(b.again)
}

func (t *trims) barred(f follower, now time.Time) bool {
	b, ok := t.bars[f.dst.Topic]
	return ok && b.holds(f.policy, now)
}

// note keeps the episodes of a topic whose trims ended with err, the worst of
// them, or well.
func (t *trims) note(f follower, err error, now time.Time) {
	b := t.bars[f.dst.Topic]
	log := t.o.log.With("topic", f.src.Topic)
	switch {
	case err == nil && b == nil:
	case err == nil:
		delete(t.bars, f.dst.Topic)
		if b.told {
			log.Info("the target's log start follows the source's again")
		}
	default:
		if b == nil {
			b = new(trimBar)
			t.bars[f.dst.Topic] = b
		}
		if b.bar(err, f.policy, now) {
			log.Warn("the target's log start does not follow the source's", "reason", b.reason, "detail", dstSide+": "+err.Error(), "hint", b.reason.About().Hint)
		} else {
			log.Debug("the target's log start is not moved", "error", err)
		}
	}
}

// why tells, of a trim that failed, what status shows; "" for what is usual.
func (t *trims) why(topic string, err error) string {
	if b := t.bars[topic]; b == nil || !b.told || errors.Is(err, appender.ErrCompactOnly) {
		return ""
	}
	return "the log start does not follow the source's: " + dstSide + ": " + err.Error()
}

// worse returns the error that says more: what lasts before what may pass.
func worse(a, b error) error {
	if a == nil || !lasts(a) && lasts(b) {
		return b
	}
	return a
}

// lasts reports whether only a person can end what stands in the way.
func lasts(err error) bool {
	var f *appender.Fault
	return errors.Is(err, appender.ErrCompactOnly) || errors.As(err, &f) && f.Reason == state.NoPermission
}
