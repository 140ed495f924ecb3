package switchover

import (
	"errors"
	"fmt"
	"time"

	"klink/linker/control"
	"klink/linker/intent"
)

// failStep is what a failover wants done next.
type failStep int8

const (
	// failLook reads the record; the answer goes to looked.
	failLook failStep = iota
	// failCommand writes the command; its outcome goes to commanded.
	failCommand
	// failAcks waits for workers until ackUntil; acked says that it did.
	failAcks
	// failFence fences what nobody's word counts for, then waits until calm where a
	// fence is missing; fencedAll says that it did.
	failFence
	// failEnds reads the ends, failCuts records them, failSettings brings the
	// source's settings into force and records that; went says that it is done.
	failEnds
	failCuts
	failSettings
	failOver
)

// failover decides the course of a failover. It does nothing by itself and knows
// no clock.
type failover struct {
	times Times
	// id is the switch that a command of this run begins.
	id, by string

	step    failStep
	sc      *scope
	command intent.Command
	looks   int
	tried   bool // a command of this run may be on record
	// recorded: all mirrors of the scope are stopped on record. Else recordErr says
	// why not.
	recorded  bool
	recordErr error
	// began is when the workers could have read the command first.
	began    time.Time
	ackUntil time.Time
	notes    []string
	err      error // ends the failover with nothing done
}

// mostLooks bounds how often others may be quicker.
const mostLooks = 5

func newFailover(t Times, by string) *failover {
	return &failover{times: t, id: newID(), by: by}
}

// looked takes what the record says; err is why it may be old.
func (m *failover) looked(now time.Time, sc *scope, err error) {
	m.looks++
	m.sc = sc
	if err != nil {
		m.notes = append(m.notes, fmt.Sprintf("the control topic could not be read to its end: %v", err))
	}
	var open []*mirror
	for _, mi := range sc.mirrors {
		if mi.intent.Want != intent.Stopped || mi.intent.Reversed() {
			open = append(open, mi)
		}
	}
	switch {
	case len(open) == 0:
		m.onRecord(now)
	case m.tried, m.looks > mostLooks:
		m.offRecord(now)
	default:
		if m.err = allows(intent.Failover, open); m.err != nil {
			m.step = failOver
			return
		}
		m.command = intent.Command{Link: sc.link.Link, Number: sc.intents.Next(), ID: newID(), Verb: intent.Failover,
			Topics: named(open), Fence: fenceAbove(open), Switch: m.id, At: now, By: m.by}
		m.step = failCommand
	}
}

// onRecord goes on with the workers, for as long as the youngest command could
// still be news to one.
func (m *failover) onRecord(now time.Time) {
	m.recorded, m.recordErr = true, nil
	for _, mi := range m.sc.mirrors {
		if c := mi.intent.Cause; c.Verb == intent.Failover && c.At.After(m.began) {
			m.began = c.At
		}
	}
	if m.began.After(now) {
		m.began = now // another machine's clock
	}
	if m.tried && !m.mine() {
		m.notes = append(m.notes, "another failover was first and is completed")
	}
	m.ackUntil = m.began.Add(m.times.Acks)
	m.step = failAcks
}

// offRecord goes on although the command could not be written.
func (m *failover) offRecord(now time.Time) {
	m.began, m.step = now, failFence
	if m.recordErr == nil {
		m.recordErr = errors.New("others gave commands again and again")
	}
	m.notes = append(m.notes, fmt.Sprintf("the stop is not on record, so nothing but the fences keeps klink from mirroring: run the command again: %v", m.recordErr))
}

// mine reports whether the record holds this run's command.
func (m *failover) mine() bool {
	for _, mi := range m.sc.mirrors {
		if mi.intent.Cause.ID == m.command.ID && m.command.ID != "" {
			return true
		}
	}
	return false
}

// commanded takes what became of the command.
func (m *failover) commanded(now time.Time, err error) {
	m.step = failLook
	var lost *control.LostError
	switch {
	case err == nil:
		m.tried, m.began = true, now
	case errors.As(err, &lost):
		m.notes = append(m.notes, (&BeatenError{Verb: intent.Failover, Winner: lost.Winner}).Error())
	case refused(err):
		// The record moved on since it was read.
	default:
		m.tried, m.recordErr = true, err
	}
}

// refused tells that a command was not written because it would count for
// nothing.
func refused(err error) bool {
	var r *intent.RefusedError
	return errors.As(err, &r)
}

func (m *failover) acked() { m.step = failFence }

func (m *failover) fencedAll() { m.step = failEnds }

// went goes on behind ends, cuts and settings.
func (m *failover) went() {
	switch {
	case m.step == failEnds && m.recorded:
		m.step = failCuts
	case m.step == failEnds, m.step == failCuts:
		m.step = failSettings
	default:
		m.step = failOver
	}
}

// order is how a partition is to be fenced, by a certain time.
func (m *failover) order(p part, until time.Time) fenceOrder {
	o := fenceOrder{epoch: m.command.Fence, recorded: m.recorded, until: until}
	if m.recorded {
		o.epoch = p.m.intent.Fence
	}
	return o
}

// calm is when a worker that is cut off writes no more.
func (m *failover) calm() time.Time { return m.began.Add(m.times.Session) }

// word is a worker's word about one partition.
type word struct {
	worker string
	control.Acked
}

// words gathers what workers said about a command, by partition. Of several the
// one counts that wrote there.
func words(acks []control.AckRecord, number int32) map[int32]word {
	out := make(map[int32]word)
	for _, a := range acks {
		if a.Number != number {
			continue
		}
		for _, p := range a.Partitions {
			if have, ok := out[p.Partition]; !ok || p.Wrote && !have.Wrote {
				out[p.Partition] = word{worker: a.Worker, Acked: p}
			}
		}
	}
	return out
}
