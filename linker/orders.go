package linker

import (
	"fmt"
	"time"

	"klink/linker/intent"
	"klink/linker/state"
)

// orderEvents is what an order does to the state of a partition.
var orderEvents = map[intent.Want]state.Event{
	intent.Mirror: state.ToMirror, intent.Paused: state.ToPause, intent.PendingStop: state.ToPend,
	intent.Stopped: state.ToStop, intent.Removed: state.ToRemove,
}

// orderStates is what an order that was carried out looks like.
var orderStates = map[intent.Want]state.State{
	intent.Paused: state.Paused, intent.PendingStop: state.PendingStopped,
	intent.Stopped: state.Stopped, intent.Removed: state.Removed,
}

// sameOrder reports whether two intents are one and the same order.
func sameOrder(a, b intent.Intent) bool {
	return a.Want == b.Want && a.Cause.Number == b.Cause.Number && a.Fence == b.Fence && a.Again == b.Again
}

// orderDetail tells who ordered a topic not to be mirrored, when, and by which
// command.
func orderDetail(i intent.Intent) string {
	c := i.Cause
	what := string(c.Verb)
	switch {
	case i.PausedByLink():
		what = "the link was paused"
	case i.Reversed():
		what = fmt.Sprintf("link %q mirrors the other way", c.Next)
	case c.Verb == intent.Pause:
		what = "paused"
	case c.Verb == intent.Pend:
		what = fmt.Sprintf("stopped for a promotion (%s at most)", c.Wait)
	case c.Verb == intent.Promote:
		what = "promoted"
	case c.Verb == intent.Failover:
		what = "failed over"
	case c.Verb == intent.Remove:
		what = "removed"
	}
	return fmt.Sprintf("%s by %s at %s (command %d)", what, c.By, c.At.UTC().Format(time.RFC3339), c.Number)
}

// orderHint tells what leads on from an order.
func orderHint(i intent.Intent) string {
	switch {
	case i.PausedByLink():
		return "klink resume of the link goes on"
	case i.Want == intent.Paused:
		return "klink resume goes on"
	case i.Want == intent.PendingStop:
		return "klink promote makes it final or takes it back; if that was killed, klink takes it back by itself"
	case i.Reversed():
		return fmt.Sprintf("run klink with the file of link %q", i.Cause.Next)
	case i.Want == intent.Stopped:
		return "the target topic may be written to; klink reverse mirrors the other way, klink repair --recreate begins anew"
	case i.Want == intent.Removed:
		return "take the topic out of topics.include; klink repair --recreate begins anew, klink adopt goes on with what is there"
	}
	return ""
}

// orderReason is the reason that stays with a partition that is stopped for good:
// its fence was found.
func orderReason(i intent.Intent, was state.Reason) state.Reason {
	if i.Want == intent.Stopped && was == state.Fenced {
		return was
	}
	return ""
}

// asOrdered is what was last known of a partition that is not mirrored because a
// person wants it so. Its ends are those last seen; how far it is behind is not
// known.
func asOrdered(i intent.Intent, p state.Partition) state.Partition {
	p.State, p.Reason = orderStates[i.Want], string(orderReason(i, state.Reason(p.Reason)))
	p.Detail, p.Hint = orderDetail(i), orderHint(i)
	p.LagRecords, p.LagSeconds = nil, nil
	return p
}

// renewed lists the commands newer than a number that ask for a new attempt at a
// topic, in their order.
func renewed(all []intent.Command, topic string, after int32) (out []intent.Command) {
	for _, c := range all {
		if c.Number > after && c.Group == "" && names(c, topic) {
			switch c.Verb {
			case intent.Retry, intent.Accept, intent.Recreate, intent.Adopt:
				out = append(out, c)
			}
		}
	}
	return out
}

func names(c intent.Command, topic string) bool {
	for _, t := range c.Topics {
		if t == topic {
			return true
		}
	}
	return false
}

// about reports whether a command is about a partition of its topics.
func about(c intent.Command, partition int32) bool {
	for _, n := range c.Partitions {
		if n == partition {
			return true
		}
	}
	return len(c.Partitions) == 0
}
