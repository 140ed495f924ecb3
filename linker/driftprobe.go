package linker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/admit"
	"klink/linker/appender"
	"klink/linker/drift"
	"klink/linker/ledger"
	"klink/linker/plan"
	"klink/linker/remote"
	"klink/linker/state"
	"klink/translate/exact"
)

const (
	// replicaPatience is how long a look waits until the target's followers have what
	// its leader has, so that it can be read; replicaPause is between two looks.
	replicaPatience = 3 * time.Second
	replicaPause    = 20 * time.Millisecond
)

// findDrift finds the position anew (K2): from the map and the cursor on record, and
// from what the target's log shows from there on.
func (p *partition) findDrift(ctx context.Context) *stop {
	dst, s := p.readableBounds(ctx)
	if s != nil {
		return s
	}
	p.shown.sawTarget(dst.LogStart, dst.LogEnd, dst.SeenAt)
	src, s := p.srcBounds(ctx)
	if s != nil {
		return s
	}
	p.shown.sawSource(src.LogStart, src.LastStable, src.HighWatermark, src.SeenAt)
	ps, s := p.driftState(ctx)
	if s != nil {
		return s
	}
	recorded, cursor, known, s := p.recordedCopies(ctx)
	if s != nil {
		return s
	}
	if !known {
		if recorded, cursor, s = p.beginDrift(ctx, src, dst, ps); s != nil {
			return s
		}
	}
	m, at, s := p.recoverDrift(ctx, recorded, cursor, dst)
	if s != nil {
		return s
	}
	if dst.LogStart > cursor.Dst && ps.Known && ps.LastSequence >= 0 {
		// Retention took copies that no cursor tells of yet, and the target remembers them.
		if src, ok := drift.BySequence(recorded, ps.Next()); ok && src > at.Src {
			at.Src, at.Seq = src, ps.Next()
		}
	}
	double := int64(0)
	if !ps.Known || ps.LastSequence < 0 {
		double = drift.MaybeDouble(cursor, at, dst.LogStart, src.LastStable)
	}
	if at.Seq, s = p.driftSequence(at, ps); s != nil {
		return s
	}
	if s := p.lastCopy(ctx, m, dst); s != nil {
		return s
	}
	if s := p.driftSource(src, at.Src); s != nil {
		return s
	}
	if s := p.doubt(ctx, ledger.Range{From: at.Src, End: at.Src + double, Reason: ledger.Doubled}); s != nil {
		return s
	}
	p.drift.copies.set(m)
	if p.drift.startAt.IsZero() {
		p.drift.start, p.drift.startAt = dst.LogStart, time.Now()
	}
	p.drift.next, p.drift.scanned, p.drift.cursor, p.drift.cursorAt = at.Src, dst.LogEnd, cursor, time.Now()
	p.next, p.seq, p.confirmed, p.confirmedAt = dst.LogEnd, at.Seq, dst.LogEnd, time.Now()
	return nil
}

// recordedCopies asks for what is on record of the copies.
func (p *partition) recordedCopies(ctx context.Context) (*exact.Map, drift.Position, bool, *stop) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	m, cursor, known, err := p.drift.maps.Map(ctx, p.drift.key)
	if err != nil {
		return nil, cursor, false, targetLost(state.ControlUnwritable, "read where the copies lie: %v", err)
	}
	return m, cursor, known, nil
}

// readableBounds waits a little until the target can be read up to its log end as it
// was at first: others may be writing all the time.
func (p *partition) readableBounds(ctx context.Context) (feed.Bounds, *stop) {
	first, s := p.dstBounds(ctx)
	for now, began := first, time.Now(); s == nil && now.HighWatermark < first.LogEnd; {
		if time.Since(began) > replicaPatience {
			return first, targetLost(state.NotEnoughReplicas, "offsets %d to %d of the target are not on all replicas yet", now.HighWatermark, first.LogEnd-1)
		}
		if !sleep(ctx, replicaPause) {
			return first, reprobe("ended")
		}
		if now, s = p.dstBounds(ctx); s == nil && now.LogEnd < first.LogEnd {
			return first, reprobe("the target's log end fell from %d to %d", first.LogEnd, now.LogEnd)
		}
	}
	return first, s
}

// driftState asks what the target remembers of this mirror.
func (p *partition) driftState(ctx context.Context) (appender.ProducerState, *stop) {
	ps, err := p.target.ProducerState(ctx, p.dst, p.identity.ProducerID)
	switch {
	case err == nil && ps.Known && ps.Epoch > p.identity.ProducerEpoch:
		return ps, halt(state.Fenced, "the target knows this mirror at producer epoch %d, above %d", ps.Epoch, p.identity.ProducerEpoch)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return ps, targetLost(state.NoPermission, "%s: missing right: %s: %v", dstSide, remote.Right("Read", "topic", p.dst.Topic), err)
	case err != nil:
		p.log.Debug("producer state is not readable", "error", err)
		return appender.ProducerState{}, nil
	}
	return ps, nil
}

// beginDrift puts on record where copying begins: at the source's log start, unless
// another mirror copied before, and where it left off was to be put on record.
func (p *partition) beginDrift(ctx context.Context, src, dst feed.Bounds, ps appender.ProducerState) (*exact.Map, drift.Position, *stop) {
	at := drift.Position{Src: src.LogStart, Dst: dst.LogEnd}
	copied, s := p.copiedBefore(ctx, dst, ps)
	switch {
	case s != nil:
		return nil, at, s
	case copied:
		return nil, at, halt(state.MapLost, admit.Unmapped)
	}
	if end, ok := p.takenOver(); ok && end <= dst.LogEnd {
		return nil, at, halt(state.NotAdopted, "what another mirror copied to the target, up to offset %d, was to be adopted, and where it left off is not on record: give klink adopt --from-mm2 again", end-1)
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := p.drift.maps.PutCursor(ctx, p.drift.key, at); err != nil {
		return nil, at, p.unmapped(err)
	}
	return &exact.Map{}, at, nil
}

// copiedBefore tells whether copies may be on the target. Where this link mirrored the
// topic, it may have been to another target that was there before: a log that is whole
// tells.
func (p *partition) copiedBefore(ctx context.Context, dst feed.Bounds, ps appender.ProducerState) (bool, *stop) {
	switch {
	case ps.Known:
		return true, nil
	case !p.mirrored():
		return false, nil
	case dst.LogStart > 0 || p.compacted.Load() && dst.LogEnd > 0:
		return true, nil
	}
	own, s := p.scanOwn(ctx, 0, dst.LogEnd)
	return len(own) > 0, s
}

// recoverDrift reads the target's log from the cursor on, and all of it where it is
// not as it was there.
func (p *partition) recoverDrift(ctx context.Context, recorded *exact.Map, cursor drift.Position, dst feed.Bounds) (*exact.Map, drift.Position, *stop) {
	from := drift.ScanFrom(recorded, cursor, dst.LogStart, dst.LogEnd)
	if p.compacted.Load() {
		from = drift.FromCursor(cursor, dst.LogStart, dst.LogEnd)
	}
	for {
		own, s := p.scanOwn(ctx, from, dst.LogEnd)
		if s != nil {
			return nil, drift.Position{}, s
		}
		m, at, err := drift.Recover(recorded, cursor, drift.Scan{From: from, Start: dst.LogStart, End: dst.LogEnd, Own: own})
		switch {
		case err == nil:
			return m, at, nil
		case errors.Is(err, drift.ErrMoved) && from > dst.LogStart:
			p.log.Info("the target's log is read from its start", "cause", err)
			from = dst.LogStart
		case errors.Is(err, drift.ErrUnmapped):
			return nil, at, halt(state.MapLost, "the target's log: %v", err)
		default:
			return nil, at, halt(state.Diverged, "the target's log: %v", err)
		}
	}
}

// lastCopy learns the time of the last copy where the way to the position did not lead
// over it, since by that the broker forgets.
func (p *partition) lastCopy(ctx context.Context, m *exact.Map, dst feed.Bounds) *stop {
	end := ownEnd(m)
	if p.lastTimestamp > 0 || end <= dst.LogStart || end > dst.LogEnd {
		return nil
	}
	_, s := p.scanOwn(ctx, end-1, end)
	return s
}

// scanOwn lists this mirror's batches in the target's log.
func (p *partition) scanOwn(ctx context.Context, from, end int64) (own []drift.OwnBatch, s *stop) {
	l := log{reader: p.dstReader, partition: p.dstPartition(), id: feed.TopicID(p.dst.ID)}
	err := l.each(ctx, plan.Range{From: from, End: end}, func(b []byte, _ bool) bool {
		h, err := batch.ParseHeader(b)
		if err != nil || !p.owns(h) {
			return true // of an old format, so not ours
		}
		if h.ProducerEpoch > p.identity.ProducerEpoch {
			s = halt(state.Fenced, "the target's batch at offset %d has producer epoch %d, above %d", h.BaseOffset, h.ProducerEpoch, p.identity.ProducerEpoch)
			return false
		}
		if !h.IsControl() {
			own = append(own, drift.OwnBatch{Base: h.BaseOffset, Count: int64(h.LastOffsetDelta) + 1, Seq: h.BaseSequence})
			p.lastTimestamp = h.MaxTimestamp
		}
		return true
	})
	if err != nil && s == nil {
		s = onTarget(asFault(err, p.dstPartition()))
	}
	return own, s
}

// driftSequence is the sequence that the target takes next. Behind a fence, and at a
// new epoch, it counts from 0 again. Another one than the log shows belongs to a batch
// that came since the log was read, or to copies that are not in the log any more.
func (p *partition) driftSequence(at drift.Position, ps appender.ProducerState) (int32, *stop) {
	switch {
	case !ps.Known || ps.Epoch == p.identity.ProducerEpoch && ps.Next() == at.Seq:
		return at.Seq, nil
	case ps.LastSequence < 0 || ps.Epoch < p.identity.ProducerEpoch:
		return 0, nil
	}
	return at.Seq, reprobe("the target takes sequence %d next, its log shows %d", ps.Next(), at.Seq)
}

// driftSource checks that the source still is what was copied up to an offset, and
// learns its epoch there.
func (p *partition) driftSource(src feed.Bounds, next int64) *stop {
	switch {
	case next < src.LogStart:
		return halt(state.RetentionOverrun, "the source begins at offset %d, and %d is next to be copied", src.LogStart, next)
	case src.LogEnd != feed.Unknown && next > src.LogEnd:
		return halt(state.Diverged, "the source ends at offset %d, and all up to %d was copied", src.LogEnd, next-1)
	}
	p.lastEpoch, p.recorded = feed.NoEpoch, p.mirrored()
	for _, e := range p.lineage.Epochs(p.link, p.src.Topic, p.src.Partition) {
		if e.First < next {
			p.lastEpoch = max(p.lastEpoch, e.Epoch)
		}
	}
	return nil
}
