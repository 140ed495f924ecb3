package linker

import (
	"errors"
	"fmt"
	"time"

	"klink/linker/state"
)

// Unmirrorable is what becomes of a topic with a partition whose offsets cannot
// be kept.
type Unmirrorable int

// The ways of the configuration key on_unmirrorable.
const (
	// UnmirrorableHalt: that partition halts, the others go on.
	UnmirrorableHalt Unmirrorable = iota
	// UnmirrorableCheckpoint: the whole topic is mirrored in checkpoint mode. That is
	// decided before anything is mirrored (outlook.go); later it is UnmirrorableHalt, as
	// no topic has two kinds of offsets.
	UnmirrorableCheckpoint
	// UnmirrorableSkip: the topic is left out as a whole until the next start. What
	// was mirrored stays on the target as it is.
	UnmirrorableSkip
)

// skipPatience is how long a topic that may be left out waits where the cause may
// pass: the target's size limit follows the source's within two rounds of
// discovery, and brokers take a moment to learn of a right.
const skipPatience = 3 * discoverEvery

const (
	checkpointHint = "some of the topic was mirrored before this was met, so it stays in mirror mode; " +
		"klink repair --recreate deletes the target topic and begins anew, in checkpoint mode where offsets cannot be kept; or: "
	leftOutHint = "remove the cause and start klink again, which tries the topic anew; or take the topic out of the link"
)

// unkept tells whether a stop means that offsets cannot be kept, as opposed to
// logs that are not what they were (DIVERGED and the like), where leaving the
// topic out would hide that something is wrong.
func (s *stop) unkept() bool {
	return s.event == state.HaltFound && (s.reason == state.Unfillable || s.offsets)
}

// haltOffsets is halt for TOO_LARGE and NO_PERMISSION where they stand between a
// partition and its offsets. It stays a plain halt where err is about the control
// topic: that is everybody's, and no reason to leave out a topic.
func haltOffsets(r state.Reason, err error, format string, args ...any) *stop {
	s := halt(r, format, args...)
	s.offsets = (r == state.TooLarge || r == state.NoPermission) && !errors.Is(err, errOnRecord)
	return s
}

// errOnRecord stands before errors of the control topic met while padding.
var errOnRecord = errors.New("control topic")

// hint is what to do about a stop where that is not its reason's own.
func (p *partition) hint(s *stop) string {
	switch {
	case s.foreign && p.unmirrorable == UnmirrorableCheckpoint: // that was decided, and stays (K12)
		return otherDataHint
	case s.foreign:
		return behindHint + otherDataHint
	case s.unkept() && p.unmirrorable == UnmirrorableCheckpoint && p.drift == nil:
		return checkpointHint + s.reason.About().Hint
	}
	return ""
}

// leaves decides whether a stop ends the mirroring of the topic. While it may
// pass it is shown, and not told.
func (p *partition) leaves(s *stop, now time.Time) (leave, wait bool) {
	switch {
	case s.event == "" || p.unmirrorable != UnmirrorableSkip || p.drift != nil:
		return false, false
	case !s.unkept():
		p.unkeptSince = time.Time{}
		return false, false
	case !s.reason.Remote():
		return true, false
	case p.unkeptSince.IsZero():
		p.unkeptSince = now
	}
	left := now.Sub(p.unkeptSince) >= skipPatience
	return left, !left
}

// leaveOut ends the loops of all partitions of the topic for what one of them
// met, until the next start of klink.
func (t *topic) leaveOut(n int32, s *stop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out != nil {
		return
	}
	t.out = &Trouble{Reason: s.reason, Hint: leftOutHint,
		Detail: fmt.Sprintf("left out (on_unmirrorable: skip): partition %d: %s", n, s.detail)}
	t.trouble = t.out
	for _, l := range t.lives {
		if l != nil {
			l.end()
		}
	}
	t.log.Warn("topic left out", "reason", t.out.Reason, "detail", t.out.Detail, "hint", t.out.Hint)
}

// leftOut is why the topic is left out, nil where it is not.
func (t *topic) leftOut() *Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out
}

// ended shows what becomes of a partition whose loop has ended: nothing, or it is
// left out with its topic. What else was wrong with its data is not hidden.
func (t *topic) ended(p *partition) {
	out, was := t.leftOut(), p.shown.position()
	if out == nil || was.State == state.Halted && !was.Reason.Remote() {
		return
	}
	if p.shown.moveHinted(state.HaltFound, out.Reason, out.Detail, out.Hint) {
		p.count.stopped(p.src, out.Reason)
	}
}
