package linker

import (
	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/state"
)

// unrecorded halts where the target's log ends with what a klink wrote, and the
// control topic knows nothing of a mirror there, although lineage and pad goals are
// written ahead of the first batch (K3): the control topic was lost. Whether the
// mirror was promoted meanwhile cannot be known, so only a person may let it go on.
// A fence at the end tells by itself.
func (p *partition) unrecorded(tail batch.Header) *stop {
	if !appender.Computed(tail.ProducerID) || p.mirrored() {
		return nil
	}
	if _, padded := p.records.Pad(p.link, p.src.Topic, p.src.Partition); padded {
		return nil
	}
	if epoch := p.identity.ProducerEpoch; tail.ProducerEpoch > epoch {
		return halt(state.Fenced, "the target's last batch has producer epoch %d, above %d", tail.ProducerEpoch, epoch)
	}
	return halt(state.NotAdopted, "the target's log ends at offset %d with what producer %d of a klink wrote", tail.LastOffset()+1, tail.ProducerID)
}
