package state

import "fmt"

// Event is what happened to a partition.
type Event string

// The events.
const (
	// Started: the target's end is known and reading has begun.
	Started Event = "started"
	// CaughtUp: the target's end reached the source's last stable offset.
	CaughtUp Event = "caught-up"
	// FellBehind: the source has more than the target.
	FellBehind Event = "fell-behind"
	// SourceLost and TargetLost: a remote reason stands in the way.
	SourceLost Event = "source-lost"
	TargetLost Event = "target-lost"
	// HaltFound: a reason for HALTED was found.
	HaltFound Event = "halt-found"
	// PadBegun: the target is being padded.
	PadBegun Event = "pad-begun"
	// Retried: a halt with a remote reason is tried again.
	Retried Event = "retried"

	// The orders of people, as the link's control records hold them: to mirror (also
	// to try a halt again), to pause, to stop until a promotion is decided, to stop
	// for good, and to forget.
	ToMirror Event = "to-mirror"
	ToPause  Event = "to-pause"
	ToPend   Event = "to-pend"
	ToStop   Event = "to-stop"
	ToRemove Event = "to-remove"
)

// moves is the whole table. A partition that is unavailable goes back through
// Started, since only a fresh look at the target tells where it stands, or
// through CaughtUp and FellBehind where the source alone was away. Whatever was
// stopped by an order begins again at PENDING.
var moves = map[State]map[Event]State{
	Pending: ordered(map[Event]State{
		PadBegun: Padding,
		Started:  CatchingUp, SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, HaltFound: Halted,
	}),
	CatchingUp: ordered(map[Event]State{
		PadBegun: Padding,
		Started:  CatchingUp, FellBehind: CatchingUp, CaughtUp: Active,
		SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, HaltFound: Halted,
	}),
	Active: ordered(map[Event]State{
		PadBegun: Padding,
		Started:  CatchingUp, FellBehind: CatchingUp, CaughtUp: Active,
		SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, HaltFound: Halted,
	}),
	SourceUnavailable: ordered(map[Event]State{
		PadBegun: Padding,
		Started:  CatchingUp, FellBehind: CatchingUp, CaughtUp: Active,
		SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, HaltFound: Halted,
	}),
	TargetUnavailable: ordered(map[Event]State{
		PadBegun: Padding,
		Started:  CatchingUp, SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, HaltFound: Halted,
	}),
	Padding: ordered(map[Event]State{
		PadBegun: Padding, Started: CatchingUp, SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, HaltFound: Halted,
	}),
	Halted: ordered(map[Event]State{
		Retried: Pending, HaltFound: Halted,
	}),
	Paused:         ordered(nil),
	PendingStopped: ordered(nil),
	// Nothing leaves STOPPED to be paused: only an order to mirror anew, or to
	// forget.
	Stopped: {ToMirror: Pending, ToStop: Stopped, ToRemove: Removed},
	Removed: {ToMirror: Pending, ToRemove: Removed},
}

// ordered adds the moves that people may order from everywhere but the end.
func ordered(m map[Event]State) map[Event]State {
	all := map[Event]State{ToMirror: Pending, ToPause: Paused, ToPend: PendingStopped, ToStop: Stopped, ToRemove: Removed}
	for e, s := range m {
		all[e] = s
	}
	return all
}

// Position is where a partition stands: its state and why.
type Position struct {
	State  State
	Reason Reason
	// Detail holds the numbers of the case; it plays no part in moves.
	Detail string
}

// Next returns the position after an event. A reason goes with SourceLost,
// TargetLost and HaltFound, and may go with ToStop, where the target was found
// fenced; the others drop it. The detail goes with those and with every order
// that stops. An event the table does not name, or Retried on a reason about data
// (S2), is an error and moves nothing (S1).
func (p Position) Next(e Event, r Reason, detail string) (Position, error) {
	to, ok := moves[p.State][e]
	if !ok {
		return p, fmt.Errorf("no move from %s on %s", p.State, e)
	}
	if e == Retried && !p.Reason.Remote() {
		return p, fmt.Errorf("%s does not end by itself", p.Reason)
	}
	n := Position{State: to}
	switch e {
	case SourceLost, TargetLost, HaltFound:
		if r == "" {
			return p, fmt.Errorf("%s needs a reason", e)
		}
		n.Reason, n.Detail = r, detail
	case ToStop:
		n.Reason, n.Detail = r, detail
	case ToPause, ToPend, ToRemove:
		n.Detail = detail
	}
	return n, nil
}
