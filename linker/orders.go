package linker

import (
	"klink/linker/intent"
	"klink/linker/state"
)

// orderEvents is what an order does to the state of a partition.
var orderEvents = map[intent.Want]state.Event{
	intent.Mirror: state.ToMirror, intent.Paused: state.ToPause, intent.PendingStop: state.ToPend,
	intent.Stopped: state.ToStop, intent.Removed: state.ToRemove,
}

// sameOrder reports whether two intents are one and the same order.
func sameOrder(a, b intent.Intent) bool {
	return a.Want == b.Want && a.Cause.Number == b.Cause.Number && a.Fence == b.Fence && a.Again == b.Again
}

// orderReason is the reason that stays with a partition that is stopped for good:
// its fence was found.
func orderReason(i intent.Intent, was state.Reason) state.Reason {
	if i.Want == intent.Stopped && was == state.Fenced {
		return was
	}
	return ""
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
