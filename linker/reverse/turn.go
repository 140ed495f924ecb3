package reverse

import (
	"maps"
	"slices"
	"time"

	"klink/fetcher/feed"
	"klink/linker/control"
	"klink/linker/ledger"
)

// turn is one topic on its way around, with all that the new link's records of it
// follow from.
type turn struct {
	next string
	// was is what the old link has on record.
	was control.TopicRecord
	// partitions is how many the promoted side has.
	partitions int32
	// anew: nothing of the old source's topic is used.
	anew       bool
	generation int32
	// ends are the old source's log ends, by partition.
	ends map[int32]int64
	// mirrored is how far each partition was the same on both sides when the old
	// link stopped, at cutAt.
	mirrored map[int32]int64
	cutAt    time.Time
	now      time.Time
	by       string
}

// topic is the new link's record: source and target change places. The id of a
// target that is yet to be made is left open.
func (t turn) topic() control.TopicRecord {
	r := control.TopicRecord{Link: t.next, SourceTopic: t.was.TargetTopic, SourceID: t.was.TargetID,
		TargetTopic: t.was.SourceTopic, Partitions: t.partitions, Generation: t.generation, Compacted: t.was.Compacted}
	if !t.anew {
		r.TargetID = t.was.SourceID
	}
	return r
}

// adopt says up to where the new link takes the old source's logs for its own.
func (t turn) adopt() control.AdoptRecord {
	r := control.AdoptRecord{Link: t.next, Topic: t.was.TargetTopic, SourceID: t.was.TargetID, By: t.by, At: t.now}
	if !t.anew {
		r.Ends = maps.Clone(t.ends)
	}
	return r
}

// ledgers are the new link's indexes of a compacted topic's partitions, and of
// those that it has from an earlier time: they end where its logs were adopted.
// What the cleaner of the promoted side removes counts from the cut on, since up to
// there both sides held the same.
func (t turn) ledgers(had func(partition int32) (control.LedgerRecord, bool)) []control.LedgerRecord {
	if t.anew {
		return nil
	}
	var out []control.LedgerRecord
	for _, p := range slices.Sorted(maps.Keys(t.ends)) {
		r, known := had(p)
		known = known && r.SourceID == t.was.TargetID && r.TargetID == t.was.SourceID
		if !known && !t.was.Compacted {
			continue
		}
		x := new(ledger.Index)
		if known {
			if old, err := ledger.Decode(r.Index); err == nil {
				x = old
			}
		} else {
			r = control.LedgerRecord{Link: t.next, Topic: t.was.TargetTopic, SourceID: t.was.TargetID, Partition: p, TargetID: t.was.SourceID}
		}
		x.Advance(t.ends[p])
		r.Index, r.AsOf = x.Encode(), t.now
		r.Synced = ledger.Synced{As: t.cutAt, End: min(t.mirrored[p], t.ends[p])}
		out = append(out, r)
	}
	return out
}

// pair is what a generation belongs to: producer ids are made of the source
// topic's id, and meet in the logs of the target topic.
type pair struct {
	target   string
	sourceID feed.TopicID
}

// generation is the one that a pair's next mirror gets (H4): above all that are on
// record for it, whichever link had them, and none that a broker remembers a
// producer of.
func (p pair) generation(all []control.TopicRecord, remembered func(generation int32) bool) int32 {
	next := int32(0)
	for _, r := range all {
		if r.TargetTopic == p.target && r.SourceID == p.sourceID {
			next = max(next, r.Generation+1)
		}
	}
	for remembered(next) {
		next++
	}
	return next
}

// committed is one group's offsets on the old source, by its topics' partitions.
type committed map[feed.Partition]int64

// group is the new link's record of a group: what the group has on the old source
// now counts as the link's own last write. Offsets of other topics stay as they
// were on record.
func (c committed) group(was control.GroupRecord, now time.Time) control.GroupRecord {
	own := make(map[string]bool)
	for p := range c {
		own[p.Topic] = true
	}
	r := was
	r.At, r.Offsets = now, slices.DeleteFunc(slices.Clone(was.Offsets), func(o control.GroupOffset) bool { return own[o.Topic] })
	for _, p := range slices.SortedFunc(maps.Keys(c), comparePartitions) {
		r.Offsets = append(r.Offsets, control.GroupOffset{Topic: p.Topic, Partition: p.Partition,
			Previous: c[p], Written: c[p], SourceOffset: feed.Unknown})
	}
	return r
}
