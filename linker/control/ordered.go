package control

import (
	"klink/linker/intent"
	"klink/linker/state"
)

// orderedStates is what an order that was carried out looks like.
var orderedStates = map[intent.Want]state.State{
	intent.Paused: state.Paused, intent.PendingStop: state.PendingStopped,
	intent.Stopped: state.Stopped, intent.Removed: state.Removed,
}

// OrderedState is the state of what operators want so, "" for what is to be
// mirrored.
func OrderedState(w intent.Want) state.State { return orderedStates[w] }

// Ordered is what was last known of a partition that is not mirrored because a
// person wants it so. Its ends are those last seen; how far it is behind is not
// known. A fence that was found stays its reason.
func Ordered(i intent.Intent, p state.Partition) state.Partition {
	if i.Want != intent.Stopped || state.Reason(p.Reason) != state.Fenced {
		p.Reason = ""
	}
	p.State, p.Detail, p.Hint = orderedStates[i.Want], i.Detail(), i.Hint()
	p.LagRecords, p.LagSeconds = nil, nil
	return p
}

// orderedTopic is Ordered for a topic as a whole, and t itself where it is to be
// mirrored. The record of its states may be older than the order, and where no
// klink lives nobody writes another one.
func orderedTopic(i intent.Intent, t state.Topic) state.Topic {
	s := orderedStates[i.Want]
	if s == "" || t.State == s {
		return t
	}
	t.State, t.Reason, t.Detail, t.Hint = s, "", i.Detail(), i.Hint()
	ps := make([]state.Partition, len(t.Partitions))
	for n, p := range t.Partitions {
		ps[n] = Ordered(i, p)
	}
	t.Partitions = ps
	return t
}
