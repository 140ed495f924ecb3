package linker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/topics"
)

// freshness is how old the last error-free look at the target's end may be
// while the broker may have forgotten this producer: the sequence then guards
// nothing, and only the knowledge of the end does.
const freshness = 100 * time.Millisecond

// slow is how long an append may take, by itself and behind another one, before
// the rest of a chunk is given up for others that wait for the fetch budget.
const slow = time.Second

// entriesPool lends what a chunk of small batches is read into: half as much memory
// as the chunk itself. mostPooledEntries is the longest list that is kept, 1 MiB.
var entriesPool = sync.Pool{New: func() any { return new([]plan.Entry) }}

const mostPooledEntries = 8 << 10

// carry brings one chunk to the target. It returns nil when all of it that can
// be decided is there.
func (p *partition) carry(ctx, hard context.Context, c *feed.Chunk) *stop {
	pooled := entriesPool.Get().(*[]plan.Entry)
	defer entriesPool.Put(pooled)
	entries, err := plan.ReadEntries((*pooled)[:0], c.Batches, c.Aborted)
	if cap(entries) <= mostPooledEntries {
		*pooled = entries
	}
	if err != nil {
		return halt(state.Corrupt, "fetched at offset %d: %v", c.Next, err)
	}
	if plan.ShowsCompaction(entries) == plan.Compacted {
		p.compacted.Store(true)
		p.book.watch(true, topics.Traits{})
	}
	raw := c.Batches
	for step := p.decide(p.sent, entries); len(entries) > 0; {
		rest := entries[step.Entries:]
		var next plan.Step
		switch step.Kind {
		case plan.Drop:
		case plan.Wait:
			if step.Entries == 0 {
				return nil
			}
		case plan.Halt:
			return &stop{event: state.HaltFound, reason: step.Reason, detail: step.Detail}
		default:
			next = p.decide(step.End, rest)
			p.follow = appender.Follow(next.Kind == plan.Append || next.Kind == plan.Merge || next.Kind == plan.Recode)
			if s := p.write(ctx, hard, step, raw[:step.Entries]); s != nil {
				return s
			}
		}
		if ctx.Err() != nil {
			return reprobe("ended")
		}
		p.keepShowing(ctx)
		entries, raw = rest, raw[step.Entries:]
		if next.Kind == plan.Wait || p.sent != step.End { // not decided yet, or for another offset
			next = p.decide(p.sent, entries)
		}
		step = next
	}
	return nil
}

// decide is what to do with the first of entries at an offset.
func (p *partition) decide(at int64, entries []plan.Entry) plan.Step {
	return plan.Next(at, entries, p.policy(), p.limits)
}

const (
	// showEvery is how often a long chunk's progress shows, and seeEvery how often
	// the source's ends are asked for meanwhile, so that the lag stays known.
	showEvery = time.Second
	seeEvery  = 5 * time.Second
)

// keepShowing brings progress within a chunk into the status: one of many small
// transactions may take minutes.
func (p *partition) keepShowing(ctx context.Context) {
	now := time.Now()
	if now.Sub(p.shownAt) < showEvery {
		return
	}
	p.shownAt = now
	if now.Sub(p.shown.seenSource()) > seeEvery {
		if b, err := p.srcReader.Bounds(ctx, p.src, p.srcID); err == nil {
			p.shown.sawSource(b.LogStart, b.LastStable, b.HighWatermark, b.SeenAt)
		} // else the stream meets the same, and tells
	}
	p.advance()
}

// policy is what the link's configuration and the topic's nature decide.
func (p *partition) policy() plan.Policy {
	return plan.Policy{Gaps: p.gapWay, Compaction: plan.Compaction(p.compacted.Load()), Overrun: p.pad.overrun, PadLimit: p.pad.limit}
}

// write carries out one step that writes. raw are the batches that it takes.
func (p *partition) write(ctx, hard context.Context, step plan.Step, raw [][]byte) *stop {
	if s := p.learnEpoch(ctx, step); s != nil {
		return s
	}
	var s *stop
	switch step.Kind {
	case plan.Fill:
		s = p.fill(ctx, hard, step.Runs)
	case plan.Recode:
		s = p.recodeStep(ctx, hard, step, raw[0])
	case plan.Repeat:
		return p.repeatStep(ctx, hard, step, raw[len(raw)-1])
	default:
		s = p.copyStep(ctx, hard, step, raw)
	}
	if s == nil && p.sent != step.End {
		s = halt(state.Corrupt, "what stands at offsets %d to %d on the source led to offset %d", step.Base, step.End-1, p.sent)
	}
	return s
}

// copyStep appends batches as they are, or several small ones as one.
func (p *partition) copyStep(ctx, hard context.Context, step plan.Step, raw [][]byte) *stop {
	for len(raw) > 0 {
		// What is encoded needs a buffer, so wait for a free place first.
		if s := p.landUntil(hard, mostFlights-1); s != nil {
			return s
		}
		b, f, s := p.encode(step, raw)
		if s == nil {
			s = p.send(ctx, hard, f, b)
		}
		if s != nil {
			return s
		}
		raw = raw[len(f.raw):]
	}
	return nil
}

// learnEpoch records a new source epoch before its first batch is sent (K3).
func (p *partition) learnEpoch(ctx context.Context, step plan.Step) *stop {
	if p.recorded && (step.Epoch == p.lastEpoch || step.Epoch == feed.NoEpoch) {
		return nil
	}
	if step.Epoch < p.lastEpoch {
		return halt(state.Corrupt, "the batch at offset %d has leader epoch %d, below %d of the one before it", step.Base, step.Epoch, p.lastEpoch)
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	err := p.lineage.PutEpoch(ctx, control.EpochRecord{Link: p.link, Topic: p.src.Topic, SourceID: p.srcID,
		Partition: p.src.Partition, Epoch: control.Epoch{Epoch: step.Epoch, First: step.Base}})
	if err != nil {
		return targetLost(state.ControlUnwritable, "record source epoch %d of offset %d: %v", step.Epoch, step.Base, err)
	}
	p.lastEpoch, p.recorded = step.Epoch, true
	return nil
}

// encode makes the next batch of a step, not yet patched. The flight tells which
// of the raw ones it stands for.
func (p *partition) encode(step plan.Step, raw [][]byte) ([]byte, flight, *stop) {
	if len(raw) == 1 {
		return raw[0], flight{raw: raw}, nil
	}
	scratch := scratches.Get().(*[]byte)
	merged, n, err := batch.Merge((*scratch)[:0], raw, batch.MergeOptions{MaxBytes: p.limits.MaxBatchBytes})
	if err == nil {
		*scratch = merged
		return merged, flight{raw: raw[:n], scratch: scratch}, nil
	}
	scratches.Put(scratch)
	if errors.Is(err, batch.ErrNotMergeable) {
		return raw[0], flight{raw: raw[:1]}, nil // goes by itself
	}
	return nil, flight{}, halt(state.Corrupt, "merge the batches at offsets %d to %d: %v", step.Base, step.End-1, err)
}

func (p *partition) recodeOptions(raw []byte, from int64, repeat batch.Repeat) batch.RecodeOptions {
	return batch.RecodeOptions{Codec: batch.CodecOf(raw), From: from, MaxBytes: p.limits.MaxBatchBytes, Repeat: repeat}
}

// recode writes one batch anew from the offset wanted on, in its own codec.
func (p *partition) recode(step plan.Step, raw []byte) ([]batch.Recoded, *stop) {
	made, err := batch.Recode(raw, p.recodeOptions(raw, step.Base, batch.RepeatNone))
	if err != nil {
		return nil, recodeError(step, err)
	}
	return made, nil
}

// recodeError tells what cannot be written anew from what does not hold together.
func recodeError(step plan.Step, err error) *stop {
	var big *batch.RecordTooLargeError
	if errors.As(err, &big) {
		return haltOffsets(state.TooLarge, err, "the record at offset %d needs a batch of %d bytes, the target topic allows %d", big.Offset, big.Bytes, big.MaxBytes)
	}
	return halt(state.Corrupt, "recode the batch at offsets %d to %d: %v", step.Base, step.End-1, err)
}

// lookWhileUnguarded makes sure of two things before a batch is sent, of which newest
// is the time of the newest record, where a broker that may have forgotten this
// producer would take any sequence: that no other process of the
// link appends, and that the target's end is where it was seen, however short a
// time ago.
func (p *partition) lookWhileUnguarded(ctx context.Context, newest int64) *stop {
	if now := time.Now(); !p.unguarded(now) && !p.opens(newest, now) {
		return nil
	}
	if s := p.mayAppend(ctx); s != nil {
		return s
	}
	if time.Since(p.confirmedAt) < freshness {
		return nil
	}
	e := p.target.LogEnds(ctx, []appender.Target{p.dst})[p.dst]
	switch {
	case e.Err != nil && e.Reason != "":
		return targetLost(e.Reason, "read the log end before an unguarded append at %d: %v", p.next, e.Err)
	case e.Err != nil:
		return reprobe("read the log end before an unguarded append at %d: %v", p.next, e.Err)
	case e.End != p.next:
		return reprobe("the target's log end is %d, expected %d", e.End, p.next)
	}
	p.confirmedAt = time.Now()
	return nil
}

// mayAppend tells whether it is this process that appends where sequences guard
// nothing (K6).
func (p *partition) mayAppend(ctx context.Context) *stop {
	switch rival, mine := p.turn.Mine(ctx, p.dst.Topic, p.dst.Partition); {
	case !mine && rival == "":
		return p.notOwner()
	case !mine:
		return targetLost(state.Superseded, "append at offset %d left to worker %q", p.next, rival)
	}
	return nil
}

// findGuilty settles whose bytes a target called corrupt. The CRC was never
// recomputed, only corrected for the patched fields, so a batch that fails its
// check here was bad when it was fetched.
func (p *partition) findGuilty(s *stop, raw [][]byte) *stop {
	if s.event != state.HaltFound || s.reason != state.Corrupt {
		return s
	}
	for _, b := range raw {
		if err := batch.CheckCRC(b); err != nil {
			return halt(state.Corrupt, "the source served a batch whose check sum is wrong, for offset %d: %v", p.next, err)
		}
	}
	return targetLost(state.Unreachable, "%s", fmt.Sprintf("a batch that is sound here arrived broken at the target: %s", s.detail))
}
