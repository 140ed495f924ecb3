package linker

import (
	"math"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// A target topic may have been there before klink came, with data of its own. Then the
// source has lost nothing, and mirroring anew would delete what is somebody else's.

// The hints of a target that has other data.
const (
	behindHint = "to keep that data, set on_unmirrorable: checkpoint and start klink again: " +
		"unless something of the topic was mirrored already, it is copied behind that data, in checkpoint mode; or: "

	otherDataHint = "give the topic another name on the target: while no klink runs, take it off the record with klink remove, " +
		"set topics.rename, and have klink repair --recreate mirror it there; or, only if the data on the target may go: " +
		"klink repair --recreate deletes the target topic with it, and mirrors the source's"
)

// otherData tells, where source and target differ and no record of this link says that it
// ever wrote to the target, that this is not the source's doing.
func (p *partition) otherData(s *stop) *stop {
	if s.reason == state.Diverged && p.unwritten() {
		s.foreign, s.detail = true, "the target has other data, which klink did not write: "+s.detail
	}
	return s
}

// unwritten tells that nothing is on record of this link having written to the target's
// log, nor of what counts as if it had: lineage and pad goals are recorded ahead (K3).
func (p *partition) unwritten() bool {
	_, padded := p.records.Pad(p.link, p.src.Topic, p.src.Partition)
	return !padded && !p.mirrored() && p.adopted(math.MaxInt64) == feed.Unknown
}
