package linker

import (
	"klink/fetcher/feed"
	"klink/linker/control"
)

// An adopted log was written by others, and counts as this mirror's up to an end
// that is on record: the old source of a link that was turned around, or the target
// of another tool's mirror. Whoever adopted it compared it. What stands behind that
// end is judged as in any mirror.

// adopted returns the end (exclusive) of what this mirror adopted of the target's
// log, Unknown where it adopted nothing or where the log has lost part of it: such
// a log is compared as a whole.
func (p *partition) adopted(logEnd int64) int64 {
	own := feed.Unknown
	if end := p.book.accepted(); end <= logEnd {
		own = end // what an operator accepted
	}
	r, ok := p.records.Adopt(p.link, p.src.Topic)
	if !ok || r.SourceID != p.srcID {
		return own
	}
	if end, ok := r.Ends[p.src.Partition]; ok && end <= logEnd {
		return max(own, end)
	}
	return own
}

// takenOver returns the end (exclusive) of what another mirror wrote to the target's
// log, if that was to be adopted. It goes on record before where that mirror left off.
func (p *partition) takenOver() (end int64, ok bool) {
	r, ok := p.records.Adopt(p.link, p.src.Topic)
	if !ok || r.SourceID != p.srcID {
		return 0, false
	}
	end = r.Ends[p.src.Partition]
	return end, end > 0
}

// since returns the steps of the source's lineage that count for an adopted log:
// those recorded from the adopted end on. Earlier ones are of a time in which this
// link mirrored before and another link wrote to its source afterwards, under epochs
// that are not on record here; an epoch that is too low would look like a truncated
// source.
func since(adopted int64, all []control.Epoch) []control.Epoch {
	if adopted == feed.Unknown {
		return all
	}
	var out []control.Epoch
	for _, e := range all {
		if e.First >= adopted {
			out = append(out, e)
		}
	}
	return out
}
