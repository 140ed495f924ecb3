package intent

import "fmt"

// Want is what is to become of a topic, or of a link.
type Want string

// The wants. A link is Mirror or Paused; the others are a topic's.
const (
	Mirror Want = "mirror"
	Paused Want = "paused"
	// PendingStop: stopped for a promotion that is not decided yet.
	PendingStop Want = "pending_stop"
	// Stopped: promoted or failed over.
	Stopped Want = "stopped"
	Removed Want = "removed"
)

// wants are all wants, in the order in which they are shown.
var wants = []Want{Mirror, Paused, PendingStop, Stopped, Removed}

// Intent is what is wanted of one topic, or of a link.
type Intent struct {
	Want Want
	// Cause is the command that made it so, or the last one that said it again;
	// zero for Mirror from the start.
	Cause Command
	// Fence is the producer epoch in force: 0, or that of the last Promote or
	// Failover.
	Fence int16
	// Again is the number of the newest Retry, Accept, Recreate or Adopt that
	// names the topic, 0 for none. An Accept of a group is none.
	Again int32
}

// moves is the whole table: what a verb makes of a topic, by what is wanted of it
// so far. What stands nowhere is refused.
var moves = map[Want]map[Verb]Want{
	Mirror: {Pause: Paused, Resume: Mirror, Pend: PendingStop, Failover: Stopped,
		Retry: Mirror, Accept: Mirror, Recreate: Mirror, Remove: Removed, Adopt: Mirror},
	Paused: {Pause: Paused, Resume: Mirror, Failover: Stopped,
		Retry: Paused, Accept: Paused, Recreate: Paused, Remove: Removed, Adopt: Paused},
	PendingStop: {Resume: Mirror, Promote: Stopped, Failover: Stopped},
	Stopped:     {Reverse: Stopped, Recreate: Mirror, Remove: Removed},
	reversed:    {Reverse: Stopped, Recreate: Mirror, Remove: Removed, Adopt: Mirror},
	Removed:     {Recreate: Mirror, Remove: Removed, Adopt: Mirror},
}

// reversed is a row of the table that is no want of its own; see Intent.Reversed.
const reversed Want = "stopped, reversed"

// row is the intent's row in the table.
func (i Intent) row() Want {
	switch {
	case i.Reversed():
		return reversed
	case i.Want == "":
		return Mirror
	default:
		return i.Want
	}
}

// PausedByLink reports whether the link's own pause holds a topic, or a link.
func (i Intent) PausedByLink() bool { return i.Want == Paused && len(i.Cause.Topics) == 0 }

// Reversed reports whether a stopped topic is mirrored the other way by the link
// that Cause.Next names.
func (i Intent) Reversed() bool { return i.Want == Stopped && i.Cause.Verb == Reverse }

// Allows tells whether a command may be given to the topic now: nil, or a
// *RefusedError. Intents.Admits says more, since it sees the whole command.
func (i Intent) Allows(v Verb) error {
	row := i.row()
	if _, ok := moves[row][v]; ok {
		return nil
	}
	return &RefusedError{Verb: v, Want: i.Want, Why: why(row, v)}
}

// why says what stands in the way, and what leads on.
func why(row Want, v Verb) string {
	switch {
	case !v.Known():
		return "it is no verb of this klink"
	case row == Paused && v == Pend:
		return "it is paused and cannot catch up; resume it first"
	case row == PendingStop:
		return "a promotion is under way; it ends by itself, or is taken back with resume"
	case row == Stopped || row == reversed:
		return "it was promoted or failed over; from there only reverse, repair --recreate and remove go on"
	case row == Removed:
		return "it was removed from the link; repair --recreate mirrors it anew, adopt goes on with what is there"
	case v == Promote:
		return "it was not stopped for this promotion"
	default:
		return "it was neither promoted nor failed over"
	}
}

// RefusedError says why a command may not be given. Both are for operators.
type RefusedError struct {
	// Topic is empty where the intent is not known to be a certain topic's.
	Topic string
	Verb  Verb
	// Want is what is wanted of it so far.
	Want Want
	Why  string
}

// Error names the topic where it is known.
func (e *RefusedError) Error() string {
	verb := e.Verb
	if verb == Pend { // the first half of a promote, which is what was asked for
		verb = Promote
	}
	if e.Topic == "" {
		return fmt.Sprintf("%s is refused: %s", verb, e.Why)
	}
	return fmt.Sprintf("%s of topic %q is refused: %s", verb, e.Topic, e.Why)
}
