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
	// Stopped: a reason for HALTED was found.
	Stopped Event = "stopped"
	// PadBegun: the target is being padded.
	PadBegun Event = "pad-begun"
	// Retried: a halt with a remote reason is tried again.
	Retried Event = "retried"
)

// moves is the whole table. A partition that is unavailable goes back through
// Started, since only a fresh look at the target tells where it stands, or
// through CaughtUp and FellBehind where the source alone was away.
var moves = map[State]map[Event]State{
	Pending: {
		PadBegun: Padding,
		Started:  CatchingUp, SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, Stopped: Halted,
	},
	CatchingUp: {
		PadBegun: Padding,
		Started:  CatchingUp, FellBehind: CatchingUp, CaughtUp: Active,
		SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, Stopped: Halted,
	},
	Active: {
		PadBegun: Padding,
		Started:  CatchingUp, FellBehind: CatchingUp, CaughtUp: Active,
		SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, Stopped: Halted,
	},
	SourceUnavailable: {
		PadBegun: Padding,
		Started:  CatchingUp, FellBehind: CatchingUp, CaughtUp: Active,
		SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, Stopped: Halted,
	},
	TargetUnavailable: {
		PadBegun: Padding,
		Started:  CatchingUp, SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, Stopped: Halted,
	},
	Padding: {
		PadBegun: Padding, Started: CatchingUp, SourceLost: SourceUnavailable, TargetLost: TargetUnavailable, Stopped: Halted,
	},
	Halted: {
		Retried: Pending, Stopped: Halted,
	},
}

// Position is where a partition stands: its state and why.
type Position struct {
	State  State
	Reason Reason
	// Detail holds the numbers of the case; it plays no part in moves.
	Detail string
}

// Next returns the position after an event. The reason goes with SourceLost,
// TargetLost and Stopped and is dropped by the others. An event the table does
// not name, or Retried on a reason about data (S2), is an error and moves
// nothing (S1).
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
	case SourceLost, TargetLost, Stopped:
		if r == "" {
			return p, fmt.Errorf("%s needs a reason", e)
		}
		n.Reason, n.Detail = r, detail
	}
	return n, nil
}
