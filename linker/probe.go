package linker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/fill"
	"klink/linker/plan"
	"klink/linker/remote"
	"klink/linker/state"
)

// tailBytes is how much of a target's log end is compared at each start. One
// MiB is some twenty batches of common size, read in a few milliseconds, and
// more than what one crash could have left in doubt: a batch in flight.
const tailBytes = 1 << 20

// probe finds the position anew (K2, G5): the target's true log end, the
// source epoch below it, and the sequence the broker expects. What the target
// holds beyond the last confirmed end is compared with the source first.
func (p *partition) probe(ctx, hard context.Context) *stop {
	p.gaps.trust = fill.Trust{}
	dst, s := p.dstBounds(ctx)
	if s != nil {
		return s
	}
	p.shown.sawTarget(dst.LogStart, dst.LogEnd, dst.SeenAt)
	src, s := p.srcBounds(ctx)
	if s != nil {
		return s
	}
	p.shown.sawSource(src.LogStart, src.LastStable, src.HighWatermark, src.SeenAt)

	tail, s := p.readTail(ctx, dst)
	if s != nil {
		return s
	}
	if s := p.openBook(ctx, dst); s != nil {
		return s
	}
	if s := p.fenced(tail); s != nil {
		return s
	}
	if s := p.accept(ctx, src, dst); s != nil {
		return s
	}
	if s := p.short(src); s != nil {
		return s
	}
	adopted := p.adopted(dst.LogEnd)
	if s := p.unrecorded(tail); s != nil && adopted == feed.Unknown {
		return s
	}
	own := p.owns(tail) || adopted == dst.LogEnd
	if s := p.begin(ctx, hard, src, dst, own); s != nil {
		return s
	}
	if s := cannotStart(src, dst, own, adopted != feed.Unknown || p.mirrored()); s != nil {
		return p.otherData(s)
	}
	if s := p.compareTail(ctx, src, dst, whose{tail, own, adopted}); s != nil {
		return s
	}
	if s := p.findSequence(ctx, dst.LogEnd, tail); s != nil {
		return s
	}
	if s := p.findEpoch(ctx, src, dst.LogEnd); s != nil {
		return s
	}
	p.next, p.confirmed, p.confirmedAt = dst.LogEnd, dst.LogEnd, time.Now()
	return p.trackKeys(ctx, src, dst, tail)
}

func (p *partition) dstPartition() feed.Partition {
	return feed.Partition{Topic: p.dst.Topic, Partition: p.dst.Partition}
}

// dstBounds reads the ends of the target's log.
func (p *partition) dstBounds(ctx context.Context) (feed.Bounds, *stop) {
	b, err := p.dstReader.Bounds(ctx, p.dstPartition(), feed.TopicID(p.dst.ID))
	if err == nil {
		return b, nil
	}
	f := asFault(err, p.dstPartition())
	if p.tooNew(f) {
		return b, targetLost(state.TopicMissing, "target %v", f)
	}
	return b, onTarget(f)
}

// srcBounds reads the ends of the source's log.
func (p *partition) srcBounds(ctx context.Context) (feed.Bounds, *stop) {
	b, err := p.srcReader.Bounds(ctx, p.src, p.srcID)
	if err == nil {
		return b, nil
	}
	f := asFault(err, p.src)
	if p.tooNew(f) {
		return b, &stop{event: state.SourceLost, reason: state.TopicMissing, detail: f.Error()}
	}
	return b, onSource(f)
}

// tooNew tells a topic that a broker has not heard of yet from one that is
// gone: brokers learn of a topic one after the other, seconds apart on a busy
// cluster, and this partition's first look comes right after its topic was
// found or made. Looking again is safe, since every look compares the id.
func (p *partition) tooNew(f *feed.Fault) bool {
	return f.Kind == feed.Gone && p.confirmed == feed.Unknown
}

// asFault gives every error of a Reader the shape its contract promises.
func asFault(err error, p feed.Partition) *feed.Fault {
	var f *feed.Fault
	if errors.As(err, &f) {
		return f
	}
	return feed.NewFault(feed.Unexpected, p, feed.Unknown, err)
}

// cannotStart holds what neither a comparison nor waiting can mend.
// owned says whose the target's last batch is, mirrored whether this link ever
// wrote there.
func cannotStart(src, dst feed.Bounds, owned, mirrored bool) *stop {
	empty := dst.LogEnd == 0
	switch {
	case !empty && dst.LogEnd < src.LogStart:
		return halt(state.TargetNotEmpty, "the target ends at %d, below the source's start %d, so nothing can be compared", dst.LogEnd, src.LogStart)
	case !empty && dst.LogEnd > src.LogEnd && !owned && mirrored:
		return halt(state.ForeignWrite, "the target ends at %d, beyond the source's end %d, and its last batch is not klink's", dst.LogEnd, src.LogEnd)
	case !empty && dst.LogEnd > src.LogEnd && !owned:
		return halt(state.Diverged, "the target ends at %d, beyond the source's end %d, and its last batch is not klink's", dst.LogEnd, src.LogEnd)
	}
	return nil
}

// readTail returns the header of the target's last batch; the zero header with
// producer id -1 where the log is empty.
func (p *partition) readTail(ctx context.Context, dst feed.Bounds) (batch.Header, *stop) {
	none := batch.Header{ProducerID: -1, MaxTimestamp: -1}
	if dst.LogEnd <= dst.LogStart {
		return none, nil
	}
	if dst.HighWatermark < dst.LogEnd {
		return none, targetLost(state.NotEnoughReplicas, "offsets %d to %d of the target are not on all replicas yet", dst.HighWatermark, dst.LogEnd-1)
	}
	c, err := p.dstReader.Read(ctx, p.dstPartition(), feed.TopicID(p.dst.ID), dst.LogEnd-1, tailBytes)
	if err != nil {
		return none, onTarget(asFault(err, p.dstPartition()))
	}
	defer c.Release()
	for _, b := range c.Batches {
		// A twin may have appended since: the tail is the batch that ends at the
		// end read before, not the last one here.
		base, last, err := extent(b)
		if err != nil {
			return none, halt(state.Corrupt, "the target's batch at offset %d: %v", base, err)
		}
		if last != dst.LogEnd-1 {
			continue
		}
		h, err := batch.ParseHeader(b)
		if err != nil {
			return none, nil // of an old format, so not ours
		}
		p.lastTimestamp = h.MaxTimestamp
		return h, nil
	}
	return none, reprobe("the target's last batch at offset %d could not be read yet", dst.LogEnd-1)
}

// owns tells whether a batch was written by this mirror.
func (p *partition) owns(h batch.Header) bool { return h.ProducerID == p.identity.ProducerID }

// fenced halts where the target's log ends with a fence. It stands where the
// source may have a record by now, so that nothing is compared before.
func (p *partition) fenced(tail batch.Header) *stop {
	if epoch := p.identity.ProducerEpoch; p.owns(tail) && tail.ProducerEpoch > epoch {
		return halt(state.Fenced, "the target's last batch has producer epoch %d, above %d", tail.ProducerEpoch, epoch)
	}
	return nil
}

// mirrored tells whether this link ever wrote here: lineage is recorded ahead
// of the first batch (K3).
func (p *partition) mirrored() bool {
	return len(p.lineage.Epochs(p.link, p.src.Topic, p.src.Partition)) > 0
}

// findSequence learns which sequence the broker expects at the log end. Where
// the tail batch is ours it tells, and belongs to the end that was read with
// it: should a twin of this process append meanwhile, our next batch is out of
// order and nothing is misplaced. The broker's producer state has no such tie.
// It could be of a later end, and then the next batch would be accepted behind
// the twin's; so where it is needed, the end is read again after it.
func (p *partition) findSequence(ctx context.Context, end int64, tail batch.Header) *stop {
	epoch := p.identity.ProducerEpoch
	ps, err := p.target.ProducerState(ctx, p.dst, p.identity.ProducerID)
	switch {
	case err == nil && ps.Known && ps.Epoch > epoch:
		return halt(state.Fenced, "the target knows this mirror at producer epoch %d, above %d", ps.Epoch, epoch)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		// An empty log could do without. But the next start will have to read, and
		// what is missing is to be known at this one.
		return targetLost(state.NoPermission, "%s: missing right: %s: %v", dstSide, remote.Right("Read", "topic", p.dst.Topic), err)
	case p.owns(tail) && !tail.IsControl():
		p.seq = appender.NextSequence(tail.BaseSequence, tail.Count)
		return nil
	case err != nil:
		p.log.Debug("producer state is not readable", "error", err)
		fallthrough
	case !ps.Known:
		p.seq = 0
		return nil
	}
	p.seq = appender.NextSequence(ps.LastSequence, 1)
	if e := p.target.LogEnds(ctx, []appender.Target{p.dst})[p.dst]; e.Err != nil || e.End != end {
		return reprobe("the target's log end moved from %d to %d (%v)", end, e.End, e.Err)
	}
	return nil
}

// findEpoch learns the source's leader epoch below the log end: from the
// lineage record, else from the source's own batch there, which was compared
// with the target's just before.
func (p *partition) findEpoch(ctx context.Context, src feed.Bounds, end int64) *stop {
	p.lastEpoch, p.recorded = feed.NoEpoch, p.mirrored()
	if end == 0 {
		return nil
	}
	known := since(p.adopted(end), p.lineage.Epochs(p.link, p.src.Topic, p.src.Partition))
	p.recorded = len(known) > 0
	for _, e := range known {
		if e.First < end {
			p.lastEpoch = max(p.lastEpoch, e.Epoch)
		}
	}
	if p.lastEpoch != feed.NoEpoch || end-1 < src.LogStart {
		return nil
	}
	c, err := p.srcReader.Read(ctx, p.src, p.srcID, end-1, tailBytes)
	if err != nil {
		return onSource(asFault(err, p.src))
	}
	defer c.Release()
	if len(c.Batches) > 0 {
		if h, err := batch.ParseHeader(c.Batches[0]); err == nil && h.BaseOffset < end {
			p.lastEpoch = h.LeaderEpoch
		}
	}
	return nil
}

// unguarded tells whether the broker may have forgotten this producer at any
// moment: it reckons by record time (producer.id.expiration.ms), and looks
// every ten minutes, so twenty are left as margin.
func (p *partition) unguarded(now time.Time) bool {
	switch {
	case p.first():
		return false // the sequence of all first batches is 0; but see opens
	case p.lastTimestamp < 0:
		return true
	}
	return p.forgets(p.lastTimestamp, now)
}

// first tells that this mirror has written nothing to the partition yet.
func (p *partition) first() bool {
	if p.drift != nil {
		return !p.drift.copies.own()
	}
	return p.next == 0
}

// forgets tells whether the broker may have forgotten who wrote a record of this
// time.
func (p *partition) forgets(stamp int64, now time.Time) bool {
	return now.Sub(time.UnixMilli(stamp)) > p.guard-20*time.Minute
}

// opens tells whether a batch is the first of all, of records so old that the broker
// forgets who wrote them. Another process's first batch, sent at the same time and
// carried out late, is then not refused as a second 0 (K6).
func (p *partition) opens(newest int64, now time.Time) bool {
	return p.first() && p.forgets(newest, now)
}

// whose tells who wrote a target's log: its last batch, whether that or the end it
// stands at is this mirror's, and where what it adopted ends.
type whose struct {
	tail    batch.Header
	own     bool
	adopted int64
}

// compareTail compares what this process has not confirmed yet: at its first
// look the last tailBytes, or the whole log where the tail is not klink's, from the
// adopted end on where there is one; later what came beyond the last confirmed end.
func (p *partition) compareTail(ctx context.Context, src, dst feed.Bounds, w whose) *stop {
	r := plan.Common(plan.Range{From: src.LogStart, End: src.LastStable}, plan.Range{From: dst.LogStart, End: dst.LogEnd})
	switch {
	case p.confirmed != feed.Unknown:
		r.From = max(r.From, min(p.confirmed, r.End))
	case w.own:
		from, s := p.tailStart(ctx, r, w.tail)
		if s != nil {
			return s
		}
		r.From = from
	case w.adopted != feed.Unknown:
		r.From = max(r.From, min(w.adopted, r.End))
	}
	if dst.LogEnd > src.LogEnd && p.confirmed != feed.Unknown && !w.own {
		return halt(state.ForeignWrite, "offsets %d to %d were written by someone else", max(r.End, p.confirmed), dst.LogEnd-1)
	}
	r.From = max(r.From, min(p.book.accepted(), r.End))
	return p.compare(ctx, r)
}
