package linker

import (
	"slices"

	"klink/linker/control"
	"klink/linker/state"
)

// recordedStates are the topics of recorded states by name.
func recordedStates(all []control.StateRecord) map[string]state.Topic {
	out := make(map[string]state.Topic, len(all))
	for _, s := range all {
		out[s.Topic.SourceTopic] = s.Topic
	}
	return out
}

// sameRecord tells whether a worker has nothing to record of a topic: what is on
// record of its own partitions is as it is now, but for what changes by time alone or
// follows from the rest; what is said of the topic itself is, where the first of the
// partitions is its own, or nobody's; and so is what halts a partition that is nobody's.
// What others recorded goes along with every writing: should it be older than what they
// have recorded meanwhile, they find that it differs and write it once more.
func sameRecord(worker string, was, now state.Topic) bool {
	of := ""
	if len(now.Partitions) > 0 {
		of = now.Partitions[0].Worker
	}
	switch {
	case was.TargetTopic != now.TargetTopic || was.Mode != now.Mode:
		return false
	case was.State != now.State && (of == "" || of == worker || now.State.Ordered()):
		return false
	case was.Reason != now.Reason && (of == "" || of == worker):
		return false
	case was.Detail != now.Detail && of == worker: // of nobody's each may say it in other words
		return false
	}
	i := 0
	for _, p := range now.Partitions {
		compare := samePartition
		if p.Worker != worker {
			if p.Worker != "" || p.State != state.Halted {
				continue
			}
			compare = sameHalt
		}
		for i < len(was.Partitions) && was.Partitions[i].Partition < p.Partition {
			i++
		}
		if i == len(was.Partitions) || !compare(was.Partitions[i], p) {
			return false
		}
	}
	return true
}

// sameHalt compares why a partition is halted that nobody mirrors, but for the words:
// several may say it. What is on record may be of who mirrored it before.
func sameHalt(a, b state.Partition) bool {
	return a.Partition == b.Partition && a.State == b.State && a.Reason == b.Reason && a.Worker == b.Worker
}

// samePartition compares all of a partition but its lag in time, when it was seen,
// and the hint, which follows from the reason and the detail.
func samePartition(a, b state.Partition) bool {
	return a.Partition == b.Partition && a.Mode == b.Mode && a.State == b.State && a.Reason == b.Reason && a.Detail == b.Detail &&
		same(a.SourceStart, b.SourceStart) && same(a.SourceEnd, b.SourceEnd) && same(a.SourceHighWatermark, b.SourceHighWatermark) &&
		same(a.TargetStart, b.TargetStart) && same(a.TargetEnd, b.TargetEnd) && same(a.LagRecords, b.LagRecords) &&
		a.Filled == b.Filled && a.Padded == b.Padded && slices.Equal(a.Flags, b.Flags) && a.Worker == b.Worker
}

// same compares what may be unknown.
func same(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
