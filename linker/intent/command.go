package intent

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Verb is what a command orders.
type Verb string

// The verbs.
const (
	Pause  Verb = "pause"
	Resume Verb = "resume"
	// Pend stops for a promotion, for as long as it takes to look at the source
	// once more; Promote makes that final, Resume takes it back.
	Pend    Verb = "pend"
	Promote Verb = "promote"
	// Failover stops for good at once, whatever the source may still have.
	Failover Verb = "failover"
	// Reverse says that another link mirrors the other way from now on.
	Reverse Verb = "reverse"
	// Retry and Accept are for halted partitions: try again, and go on from here.
	Retry  Verb = "retry"
	Accept Verb = "accept"
	// Recreate mirrors again from the start, into a target topic made anew.
	Recreate Verb = "recreate"
	// Remove takes topics out of the link.
	Remove Verb = "remove"
	// Adopt goes on with a target topic that the records alone would not let be
	// written to.
	Adopt Verb = "adopt"
)

// verbs are all verbs, in the order in which they are shown.
var verbs = []Verb{Pause, Resume, Pend, Promote, Failover, Reverse, Retry, Accept, Recreate, Remove, Adopt}

// Known reports whether v is a verb of this klink.
func (v Verb) Known() bool { return slices.Contains(verbs, v) }

// again tells the verbs that ask for a new attempt: they raise Intent.Again.
func (v Verb) again() bool { return slices.Contains([]Verb{Retry, Accept, Recreate, Adopt}, v) }

// stops tells the verbs after which nothing is mirrored: they carry a fence.
func (v Verb) stops() bool { return v == Promote || v == Failover }

// Command is one order about a link, as written to the control topic.
type Command struct {
	Link string
	// Number is the running number of the link, from 1; of one number the first
	// in the log wins.
	Number int32
	// ID is random, in hexadecimal: it tells two commands of one number apart.
	ID   string
	Verb Verb
	// Topics are source topics, sorted. Empty is the link itself, for Pause and
	// Resume, and for an Accept of a group all topics that the group has offsets of.
	Topics []string
	// Fence, for Promote and Failover, is the producer epoch below which
	// everything of these mirrors is refused.
	Fence int16
	// Switch ties a Pend, a Promote or a Failover together with the cut records
	// that were made for it.
	Switch string
	// Next, for Reverse, is the link that goes the other way.
	Next string
	// Group, for Accept, is the consumer group whose offsets on the target klink
	// may write from now on, whoever wrote them last.
	Group string
	// Partitions, for Retry and Accept, are those it is about; empty is all.
	Partitions []int32
	// Wait, for Pend, is how long it holds: whoever mirrors takes it back then.
	Wait time.Duration
	At   time.Time
	// By is who gave it, as user@host.
	By string
}

// Check reports what a command lacks to be one. It does not look at what is
// wanted so far; see Intents.Admits.
func (c Command) Check() error {
	if err := c.check(); err != nil {
		return fmt.Errorf("command %d (%s) of link %q: %w", c.Number, c.Verb, c.Link, err)
	}
	return nil
}

func (c Command) check() error {
	switch {
	case !c.Verb.Known():
		return errors.New("unknown verb")
	case c.Link == "" || c.ID == "":
		return errors.New("no link or no id")
	case c.Number < 1:
		return errors.New("numbers begin at 1")
	case len(c.Topics) == 0 && !c.forLink() && c.Group == "":
		return errors.New("no topics")
	case slices.Contains(c.Topics, ""):
		return errors.New("a topic without a name")
	case !slices.IsSorted(c.Topics) || len(slices.Compact(slices.Clone(c.Topics))) != len(c.Topics):
		return errors.New("topics are not sorted, or named twice")
	case c.Group != "" && c.Verb != Accept:
		return errors.New("a group is accepted, nothing else")
	case c.Verb.stops() && c.Fence < 1:
		return errors.New("no fence")
	case (c.Verb.stops() || c.Verb == Pend) && c.Switch == "":
		return errors.New("no switch")
	case c.Verb == Reverse && c.Next == "":
		return errors.New("no next link")
	case c.Verb == Pend && c.Wait <= 0:
		return errors.New("no end of its wait")
	}
	return nil
}

// forLink reports whether the command is about the link itself.
func (c Command) forLink() bool {
	return len(c.Topics) == 0 && (c.Verb == Pause || c.Verb == Resume)
}
