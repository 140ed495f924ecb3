package linker

import (
	"klink/fetcher/batch"
	"klink/linker/appender"
	"klink/linker/plan"
	"klink/linker/state"
)

// An echo is a batch of the source that another link copied there from the very
// partition that this one copies to. Copied back, its records would be copied once
// more by that link, and so on until the disks of both clusters are full. Names and
// the source's record keep that from beginning (topics.Cycle, K13). Where neither tells,
// since names are kept and the source does not show its record, the batch does: its
// producer id follows from where its records came from.

// echoGenerations is how often the other link may have begun anew, see
// control.TopicRecord. Each time takes a person who deletes the topic.
const echoGenerations = 16

// echoes are the producer ids of echoes.
type echoes map[int64]bool

// echoesOf are those of a target partition; "" is a cluster that is not known, of
// which nobody could tell.
func echoesOf(clusterID string, t appender.Target) echoes {
	all := echoes{}
	for g := int32(0); clusterID != "" && g < echoGenerations; g++ {
		all[appender.ProducerID(clusterID, t.ID, t.Partition, g)] = true
	}
	return all
}

// before returns the entries before the first echo from a source offset on, and the
// stop for that one; nil where there is none.
func (es echoes) before(next int64, entries []plan.Entry) ([]plan.Entry, *stop) {
	for i := range entries {
		h := entries[i].Header
		if !entries[i].Old && appender.Computed(h.ProducerID) && es[h.ProducerID] && h.NextOffset() > next && holdsRecords(h) {
			return entries[:i], halt(state.GoesRound, "the source's records from offset %d on were copied there from this very target", max(next, h.BaseOffset))
		}
	}
	return entries, nil
}

func holdsRecords(h batch.Header) bool { return !h.IsControl() && h.Count > 0 }
