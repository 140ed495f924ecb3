package switchover

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
)

// promStep is what a promotion wants done next.
type promStep int8

const (
	// promLook reads the record; the answer goes to looked.
	promLook promStep = iota
	// promRest waits until rest and then looks.
	promRest
	// promWait looks at both clusters; measured takes what is missing.
	promWait
	// promPut writes command; wrote takes the outcome.
	promPut
	// promAcks waits for the workers' words until ackUntil; acked takes what is
	// missing.
	promAcks
	// promCheck looks at both clusters once more; checked takes what is missing.
	promCheck
	// promCuts records the cut; cut takes the outcome.
	promCuts
	// promSettings brings the source's settings into force and records that, promLast
	// looks at the source for the last time; went says that it is done.
	promSettings
	promLast
	promOver
)

// promGoal is where the promotion is headed.
type promGoal int8

const (
	// toHold: a Pend on record.
	toHold promGoal = iota
	// toStop: Promote on record.
	toStop
	// toMirror: the Pend is taken back and the promotion refused, or, with anew,
	// begun again.
	toMirror
)

// promote decides the course of a promotion. It does nothing by itself and knows
// no clock. What is on record decides where it stands, whatever answers said.
type promote struct {
	times Times
	id    string // the switch
	by    string
	until time.Time // end of the wait
	quiet time.Duration
	// still is since when the source is seen not to move, zero before the first look;
	// mover is the partition that moved last, "" for none.
	still time.Time
	mover string

	step promStep
	goal promGoal
	sc   *scope
	// open are the mirrors that are promoted together now.
	open    []*mirror
	command intent.Command
	rest    time.Time
	// held is when the Pend was seen to be on record, by the own clock.
	held     time.Time
	ackUntil time.Time
	// tried: a Pend of this run was written, whatever became of it.
	tried bool
	// anew: what is taken back is somebody else's that was left behind, or a hold
	// under which the source moved; then it begins again, not before again.
	anew  bool
	again time.Time
	// retaken counts the holds of this run that were taken back to try again, and
	// lack is what was missing under the last one.
	retaken int
	lack    string
	// trying is since when the control topic fails.
	trying time.Time

	notes []string
	// err is the end: nil for a promotion that is on record.
	err error
}

// retryPause lies between tries to write to the control topic.
const retryPause = 200 * time.Millisecond

const (
	// holdPauseMin and holdPauseMax bound the pauses between a hold that was taken back
	// and the next one. Each costs the mirrors a standstill and the record two commands,
	// so with the default timeout there are some 30 at most.
	holdPauseMin = 500 * time.Millisecond
	holdPauseMax = 10 * time.Second
)

// holdPause is how long the mirrors go on after the hold with that number, from 1,
// was taken back: twice as long each time.
func holdPause(retaken int) time.Duration {
	return min(holdPauseMin<<min(retaken-1, 10), holdPauseMax)
}

func newPromote(t Times, r Request, now time.Time) *promote {
	wait := r.Timeout
	if wait <= 0 {
		wait = t.Timeout
	}
	return &promote{times: t, id: newID(), by: r.By, until: now.Add(wait), quiet: min(t.Quiet, wait/2)}
}

// looked takes what the record says.
func (m *promote) looked(now time.Time, sc *scope, err error) {
	if err != nil {
		m.hindered(now, err)
		return
	}
	m.sc, m.open = sc, nil
	var pending, free []*mirror
	for _, mi := range sc.mirrors {
		switch {
		case mi.stoppedBy(intent.Promote) != "":
		case mi.intent.Want == intent.PendingStop:
			pending = append(pending, mi)
		default:
			free = append(free, mi)
		}
	}
	switch {
	case len(pending) == 0 && len(free) == 0:
		m.promoted()
	case len(pending) == 0:
		m.isFree(now, free)
	default:
		m.isPending(now, pending, free)
	}
}

// promoted: all that is asked for is on record.
func (m *promote) promoted() {
	m.step, m.err = promSettings, nil
	if m.goal == toHold || m.goal == toMirror {
		m.notes = append(m.notes, "promoted already")
	}
}

// isFree: nothing is held. Whoever was to be held is not yet, or not any more.
func (m *promote) isFree(now time.Time, free []*mirror) {
	switch {
	case m.goal == toMirror && m.anew:
		m.goal, m.anew, m.id, m.held, m.err = toHold, false, newID(), time.Time{}, nil
		if now.Before(m.again) {
			m.open, m.step, m.rest = free, promRest, m.again
			return
		}
	case m.goal == toMirror && free[0].intent.Want != intent.Stopped:
		m.open, m.step = free, promOver
		return
	case m.goal != toHold || !m.held.IsZero():
		m.open = free
		m.end(beaten(free))
		return
	}
	if err := allows(intent.Pend, free); err != nil {
		m.end(err)
		return
	}
	m.open, m.step = free, promWait
}

// beaten tells who took a promotion out of the hands.
func beaten(free []*mirror) error {
	c := free[0].intent.Cause
	if c.Verb == intent.Resume {
		return &RefusedError{Why: tell(c), TakenBack: true}
	}
	return &BeatenError{Verb: intent.Promote, Winner: c}
}

// isPending: some are held, by this run, by one that died, or by somebody else.
func (m *promote) isPending(now time.Time, pending, free []*mirror) {
	c := pending[0].intent.Cause
	whole := len(free) == 0 && slices.Equal(named(pending), c.Topics)
	switch {
	case !whole:
		m.end(&NotAllowedError{Verb: intent.Promote, Topic: pending[0].SourceTopic, Cause: c,
			Err: errors.New("it is held for a promotion of other topics; it ends by itself, or with resume")})
		return
	case c.Switch != m.id && now.After(c.At.Add(c.Wait+m.times.Session)):
		m.notes = append(m.notes, "taken back: an earlier promotion that came to no end, "+tell(c))
		m.id, m.anew = c.Switch, true
		m.back(nil)
	case c.Switch != m.id:
		m.notes = append(m.notes, "taken up: "+tell(c))
		m.id = c.Switch
	}
	m.open = pending
	if m.held.IsZero() {
		m.held = now
		m.ackUntil = now.Add(max(m.times.Acks, min(m.times.Hold/2, m.until.Sub(now))))
	}
	switch m.goal {
	case toHold:
		m.step = promAcks
	case toStop:
		m.order(now, intent.Promote)
	case toMirror:
		m.order(now, intent.Resume)
	}
}

// order makes the command that comes next. While its number is free the same one
// is given again, since it may be on its way.
func (m *promote) order(now time.Time, v intent.Verb) {
	m.step = promPut
	if m.command.Verb == v && m.command.Number == m.sc.intents.Next() {
		return
	}
	m.command = intent.Command{Link: m.sc.link.Link, Number: m.sc.intents.Next(), ID: newID(), Verb: v, Topics: named(m.open), At: now, By: m.by}
	switch v {
	case intent.Pend:
		m.command.Switch, m.command.Wait = m.id, m.times.Hold
	case intent.Promote:
		m.command.Switch, m.command.Fence = m.id, fenceAbove(m.open)
	}
}

// wrote takes what became of the command. The record says whether it counts.
func (m *promote) wrote(now time.Time, err error) {
	var lost *control.LostError
	m.tried = m.tried || m.command.Verb == intent.Pend
	switch {
	case err == nil:
		m.trying, m.step = time.Time{}, promLook
	case errors.As(err, &lost):
		m.notes = append(m.notes, (&BeatenError{Verb: m.command.Verb, Winner: lost.Winner}).Error())
		m.step = promLook
	case refused(err):
		m.step = promLook // the record moved on since it was read
	default:
		m.hindered(now, err)
	}
}

// hindered: the control topic does not do its part. It is tried again for as long
// as waiting makes sense.
func (m *promote) hindered(now time.Time, err error) {
	if m.trying.IsZero() {
		m.trying = now
	}
	over := !now.Before(m.until)
	if m.goal != toHold {
		over = now.Sub(m.trying) >= m.times.Hold
	}
	switch {
	case !over:
		m.step, m.rest = promRest, now.Add(retryPause)
	case m.goal == toStop:
		// Whichever of the two comes first in the log counts, and not the other.
		m.trying = time.Time{}
		m.back(&RefusedError{Why: fmt.Sprintf("the promotion cannot be put on record: %v", err), TakenBack: true})
		m.step, m.rest = promRest, now.Add(retryPause)
	case m.goal == toMirror && m.err != nil:
		m.end(fmt.Errorf("%w, and could not be taken back: %w (%v)", ErrUndecided, err, m.err))
	default:
		why := fmt.Sprintf("the control topic cannot be used: %v", err)
		if m.tried {
			why += fmt.Sprintf("; should the hold get on record after all, it ends by itself after %s", m.times.Hold)
		}
		m.end(&RefusedError{Why: why})
	}
}

// rested ends a promRest.
func (m *promote) rested() { m.step = promLook }

// measured takes what is missing for a hold, "" for nothing, and which partition of
// the source moved since the look before, "" for none.
func (m *promote) measured(now time.Time, missing, mover string) {
	if mover != "" || m.still.IsZero() {
		m.still, m.mover = now, mover
	}
	if missing == "" && now.Sub(m.still) < m.quiet {
		missing = m.restless()
	}
	switch {
	case missing == "":
		m.order(now, intent.Pend)
	case !now.Before(m.until):
		m.end(&RefusedError{Why: "not mirrored before --timeout was over: " + missing, TakenBack: m.retaken > 0})
	default:
		m.step, m.rest = promRest, now.Add(m.times.Poll)
	}
}

// restless says that the source is not known to be at rest.
func (m *promote) restless() string {
	if m.mover == "" {
		return fmt.Sprintf("the source is not known yet to have been at rest for %s", m.quiet)
	}
	return fmt.Sprintf("the source has not been at rest for %s: %s went on; stop its producers", m.quiet, m.mover)
}

// acked takes whose word is missing, "" for nobody's.
func (m *promote) acked(missing string) {
	m.step = promCheck
	if missing != "" {
		m.refuse("workers did not confirm: " + missing)
	}
}

// checked takes what is missing for a stop, "" for nothing (X1). A source that moved
// as the mirrors were held may come to rest: they go on, and are held again after a
// pause, for the last time when the wait is over.
func (m *promote) checked(now time.Time, missing, mover string) {
	m.step = promCuts
	if mover != "" {
		m.still, m.mover = now, mover
		if missing == "" {
			missing = m.restless()
		}
	}
	if missing == "" {
		return
	}
	m.refuse(missing)
	if now.Before(m.until) {
		m.retaken, m.lack, m.anew = m.retaken+1, missing, true
		if m.again = now.Add(holdPause(m.retaken)); m.again.After(m.until) {
			m.again = m.until
		}
	}
}

// cut takes whether the cut is on record (X1).
func (m *promote) cut(now time.Time, err error) {
	if err != nil {
		m.refuse(fmt.Sprintf("the cut cannot be put on record: %v", err))
		return
	}
	m.goal = toStop
	m.order(now, intent.Promote)
}

// refuse takes the hold back.
func (m *promote) refuse(why string) { m.back(&RefusedError{Why: why, TakenBack: true}) }

func (m *promote) back(err error) {
	m.goal, m.err, m.step = toMirror, err, promLook
}

func (m *promote) end(err error) { m.err, m.step = err, promOver }

// went goes on behind the settings and the last look.
func (m *promote) went() {
	if m.step == promSettings && m.goal == toStop {
		m.step = promLast
		return
	}
	m.step = promOver
}
