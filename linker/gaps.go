package linker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/fill"
	"klink/linker/ledger"
	"klink/linker/plan"
	"klink/linker/state"
)

// leasePatience is how long a gap waits quietly for the lease, as one begins to
// be held some seconds after a start.
const leasePatience = 500 * time.Millisecond

// gaps is what a partition keeps between the gaps it fills. It belongs to the
// partition's goroutine.
type gaps struct {
	settings fill.Settings
	// term is the assignment that counters were reserved in.
	term     any
	counters fill.Counters
	// trust is for the next marker (M1); doubt says that markers of a former owner
	// may still be on their way.
	trust fill.Trust
	doubt bool
	// low says that the end of the counters was warned of.
	low bool
}

// fill occupies the offsets of runs with markers, from where the log will end
// once the flights have landed.
func (p *partition) fill(ctx, hard context.Context, runs []ledger.Run) *stop {
	if s := p.landUntil(hard, 0); s != nil {
		return s
	}
	if s := p.awaitLease(ctx); s != nil {
		return s
	}
	ports := &fillPorts{p: p}
	defer ports.leave()
	if _, err := ports.Allowed(); err != nil {
		return p.notOwner()
	}
	unguarded := p.unguarded(time.Now())
	f := fill.Filler{Ports: ports, Settings: p.gaps.settings, Observe: p.observeFill}
	r := f.Fill(ctx, hard, fill.Gap{Expect: p.next, Runs: runs, Trust: p.gaps.trust, Doubt: p.gaps.doubt}, p.gaps.counters)
	p.gaps.counters, p.gaps.trust, p.gaps.doubt = r.Counters, r.Trust, r.InDoubt
	if ports.anew {
		p.gaps.counters, p.gaps.doubt = fill.Counters{}, true // the result's are of the assignment before
	}
	p.noteFilled(r)
	if r.Err != nil {
		return p.onFill(r)
	}
	if unguarded {
		// The entry that a marker makes where the broker has forgotten this producer
		// wants sequence 0 next, and knows nothing of the one before.
		return p.findSequence(ctx, p.next, batch.Header{ProducerID: -1})
	}
	return nil
}

// noteFilled brings what was filled into the position, the ledger and the
// metrics.
func (p *partition) noteFilled(r fill.Result) {
	p.count.filled(p.src, r)
	at := p.next
	for _, run := range r.Filled {
		p.book.add(ledger.Range{From: at, End: at + run.Count, Reason: run.Reason})
		at += run.Count
	}
	p.entered.Store(max(p.entered.Load(), r.End))
	if r.End <= p.next {
		return
	}
	p.next, p.sent, p.confirmed, p.confirmedAt = r.End, r.End, r.End, time.Now()
	p.lastTimestamp = p.confirmedAt.UnixMilli() // markers carry the broker's clock
	p.shown.sawTarget(feed.Unknown, p.next, p.confirmedAt)
	if r.Counters.Low() && !p.gaps.low {
		p.gaps.low = true
		p.log.Warn("marker counters come to an end", "used", fmt.Sprintf("%.0f %%", 100*r.Counters.Used()),
			"hint", "at the end of them gaps of this partition cannot be filled any more: mirror the topic anew before that")
	}
}

// onFill turns a fill that did not reach the end of its gap into a stop.
func (p *partition) onFill(r fill.Result) *stop {
	switch {
	case errors.Is(r.Err, fill.ErrNotAllowed):
		return p.notOwner()
	case r.Reason == "":
		return reprobe("fill from offset %d: %v", r.End, r.Err)
	case r.Reason == state.NoPermission || !r.Reason.Remote():
		return haltOffsets(r.Reason, r.Err, "fill from offset %d: %v", r.End, r.Err)
	}
	return targetLost(r.Reason, "fill from offset %d: %v", r.End, r.Err)
}

// awaitLease waits a little for the right to write what no sequence guards.
func (p *partition) awaitLease(ctx context.Context) *stop {
	for end := time.Now().Add(leasePatience); ; {
		if _, ok := p.lease.Held(p.dst.Topic, p.dst.Partition); ok {
			return nil
		}
		if time.Now().After(end) {
			return p.notOwner()
		}
		if !sleep(ctx, leasePatience/10) {
			return reprobe("ended")
		}
	}
}

// notOwner leaves the partition's gaps to whoever holds its lease.
func (p *partition) notOwner() *stop {
	if err := p.lease.Trouble(); err != nil {
		return targetLost(troubleReason(err), "markers and trims from offset %d on wait for the link's group: %v", p.next, err)
	}
	return targetLost(state.NotOwner, "offset %d on", p.next)
}

// observeFill shows what a fill waits for.
func (p *partition) observeFill(w fill.Waiting) {
	if w.Reason != "" {
		p.settle(targetLost(w.Reason, "%s", w.Detail))
		return
	}
	p.advance()
}

// recodeStep writes one batch anew, and fills what compaction took out of it.
func (p *partition) recodeStep(ctx, hard context.Context, step plan.Step, raw []byte) *stop {
	made, s := p.recode(step, raw)
	if s != nil {
		return s
	}
	pieces := make([]plan.Piece, len(made))
	for i, m := range made {
		pieces[i] = plan.Piece{Base: m.Base, Count: m.Count}
	}
	moves, err := plan.Pieces(step.Base, step.End, pieces)
	if err != nil {
		return halt(state.Corrupt, "the batch at offset %d: %v", step.Base, err)
	}
	for _, m := range moves {
		if m.Piece >= 0 {
			s = p.send(ctx, hard, flight{raw: [][]byte{raw}, why: recodeReason(len(raw), p.limits.MaxBatchBytes)}, made[m.Piece].Bytes)
		} else if h, refused := plan.RefuseHole(p.sent, m.Hole, p.policy()); refused {
			s = halt(h.Reason, "%s", h.Detail)
		} else {
			s = p.fill(ctx, hard, []ledger.Run{m.Hole})
		}
		if s != nil {
			return s
		}
	}
	return nil
}

// recodeReason tells a batch that was too large from one that could not go as
// it is.
func recodeReason(size, most int) ledger.Reason {
	if most > 0 && size > most {
		return ledger.Split
	}
	return ledger.Recoded
}

// repeatStep writes one batch of a compacted topic anew, with the next surviving
// record once more wherever there is none. What is behind its last record is
// left for the next batch.
func (p *partition) repeatStep(ctx, hard context.Context, step plan.Step, raw []byte) *stop {
	for r, err := range batch.Pieces(raw, p.recodeOptions(raw, step.Base, batch.RepeatNext)) {
		if err != nil {
			return recodeError(step, err)
		}
		if r.Base != p.sent {
			return halt(state.Corrupt, "the batch at offset %d gave records from %d on where %d is due", step.Base, r.Base, p.sent)
		}
		if s := p.send(ctx, hard, flight{raw: [][]byte{raw}, why: ledger.Compacted}, r.Bytes); s != nil {
			return s
		}
	}
	return nil
}

// tailAgain is how long a position must have had no batch below the last stable
// offset before the source is asked about this partition alone, and again.
const tailAgain = time.Second

// tail looks into what it means that no batch comes although the last stable
// offset lies above the position: two answers to fetches of this partition
// alone, under one leader, that a quota did not empty (the reader asks again by
// itself then), show a hole up to it.
func (p *partition) tail(ctx, hard context.Context, c *feed.Chunk) *stop {
	if len(p.flights) > 0 || c.LastStable <= p.sent || c.Next != p.sent || time.Since(p.tailAt) < tailAgain {
		return nil
	}
	switch step := p.lookAlone(ctx, c, p.policy()); step.Kind {
	case plan.Fill:
		return p.write(ctx, hard, step, nil)
	case plan.Halt:
		return halt(step.Reason, "%s", step.Detail)
	}
	return nil
}

// lookAlone asks the source about this partition alone, from where a chunk without
// batches was asked for, until it is decided what that means: a Fill, a Halt, or a
// Wait where it cannot be known now.
func (p *partition) lookAlone(ctx context.Context, c *feed.Chunk, pol plan.Policy) plan.Step {
	p.tailAt = time.Now()
	e := plan.Evidence{LastStable: c.LastStable, LeaderEpoch: c.LeaderEpoch, LeaderEpochUnchanged: true}
	for {
		step := plan.Tail(c.Next, e, pol, p.limits)
		if step.Kind != plan.AskAlone {
			return step
		}
		alone, err := p.srcReader.Read(ctx, p.src, p.srcID, c.Next, tailBytes)
		if err != nil {
			return plan.Step{} // the stream meets the same, and tells
		}
		found := len(alone.Batches) > 0
		e.Alone, e.Empty, e.LastStable = true, e.Empty+1, alone.LastStable
		e.LeaderEpochUnchanged = e.LeaderEpochUnchanged && alone.LeaderEpoch == e.LeaderEpoch
		alone.Release()
		if found || !e.LeaderEpochUnchanged || e.Empty > 2*emptyReads {
			return plan.Step{}
		}
	}
}

// emptyReads is how many reads plan.Tail wants to see.
const emptyReads = 2

// fillPorts is what a fill needs, for one partition and one fill.
type fillPorts struct {
	p      *partition
	permit Permit
	// anew: the partition was assigned anew meanwhile.
	anew bool
}

// leave gives the permit back.
func (f *fillPorts) leave() {
	if f.permit != nil {
		f.permit.Leave()
		f.permit = nil
	}
}

// Allowed takes a new permit, which lasts as long as the lease does by now. With
// an assignment that is not the one before, counters are not carried over, and
// somebody else may have been at work meanwhile; before the first one too, where
// it was not free.
func (f *fillPorts) Allowed() (time.Time, error) {
	f.leave()
	permit, ok := f.p.lease.Enter(f.p.dst.Topic, f.p.dst.Partition)
	if !ok {
		return time.Time{}, fill.ErrNotAllowed
	}
	g := &f.p.gaps
	switch term := permit.Term(); {
	case g.term == nil:
		g.term, g.doubt = term, g.doubt || permit.Inherited()
	case g.term != term:
		permit.Leave()
		f.anew = true
		g.term, g.counters, g.doubt = term, fill.Counters{}, true
		return time.Time{}, fmt.Errorf("%w: the partition was assigned anew", fill.ErrNotAllowed)
	}
	f.permit = permit
	return permit.Until(), nil
}

// Ends implements fill.Ports.
func (f *fillPorts) Ends(ctx context.Context) (fill.Ends, error) {
	e := f.p.target.Ends(ctx, []appender.Target{f.p.dst})[f.p.dst]
	return fill.Ends{LogEnd: e.LogEnd, HighWatermark: e.HighWatermark, LeaderEpoch: e.LeaderEpoch, Reason: e.Reason}, e.Err
}

// markerOutcomes maps what the appender says to what a fill wants to know.
var markerOutcomes = map[appender.MarkerOutcome]fill.Outcome{
	appender.MarkersNotSent: fill.NotSent, appender.MarkersDone: fill.Done, appender.MarkersRefused: fill.Refused,
	appender.MarkersCoordinatorFenced: fill.CoordinatorFenced, appender.MarkersProducerFenced: fill.ProducerFenced,
	appender.MarkersUnknown: fill.Unknown,
}

// Write implements fill.Ports.
func (f *fillPorts) Write(ctx context.Context, leaderEpoch int32, epochs []int32) fill.Written {
	r := f.p.target.WriteMarkers(ctx, f.p.dst, appender.Markers{Identity: f.p.identity, CoordinatorEpochs: epochs, LeaderEpoch: leaderEpoch})
	out, ok := markerOutcomes[r.Outcome]
	if !ok {
		out = fill.Unknown
	}
	return fill.Written{Outcome: out, LeaderEpoch: r.Leader.Epoch, Reason: r.Reason, Err: r.Err}
}

// Settle implements fill.Ports.
func (f *fillPorts) Settle(ctx context.Context) error { return f.p.target.SettleMarkers(ctx, f.p.dst) }

// Reserve implements fill.Ports.
func (f *fillPorts) Reserve(ctx context.Context, n int32) (first int32, err error) {
	p := f.p
	ps, err := p.target.ProducerState(ctx, p.dst, p.identity.ProducerID)
	if err != nil {
		return 0, fmt.Errorf("read the target's last marker counter: %w", err)
	}
	above := int32(-1)
	if ps.Known && ps.CoordinatorEpoch >= 0 {
		above, _ = ledger.SplitEpoch(ps.CoordinatorEpoch)
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	first, err = p.records.ReserveCounters(ctx, control.CounterRequest{Link: p.link, Topic: p.src.Topic, SourceID: p.srcID,
		Partition: p.src.Partition, Owner: p.worker, Count: n, Above: above})
	if errors.Is(err, control.ErrCountersSpent) {
		return 0, fill.ErrSpent
	}
	return first, err
}
