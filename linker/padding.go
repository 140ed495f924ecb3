package linker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/ledger"
	"klink/linker/pad"
	"klink/linker/plan"
	"klink/linker/state"
	"klink/linker/topics"
)

// Policies reads and sets the cleanup.policy of target topics, which padding has
// to change for a while.
type Policies interface {
	// CleanupPolicy returns once all leaders of the topic tell the same.
	CleanupPolicy(ctx context.Context, topic string) (string, error)
	SetCleanupPolicy(ctx context.Context, topic, policy string) error
	// Room is what the disk of a replica of the partition has left at least.
	Room(ctx context.Context, topic string, partition int32) (topics.Room, error)
}

// From finds the offset at which a link's start policy lets a mirror begin.
type From interface {
	// Offset returns where a mirror begins on a source partition whose log is as
	// b tells.
	Offset(ctx context.Context, p feed.Partition, id feed.TopicID, b feed.Bounds) (int64, error)
}

// Earliest is the start at the source's first record.
type Earliest struct{}

// Offset implements From.
func (Earliest) Offset(_ context.Context, _ feed.Partition, _ feed.TopicID, b feed.Bounds) (int64, error) {
	return b.LogStart, nil
}

// padding is what a partition keeps of its pad goal. It belongs to the
// partition's goroutine.
type padding struct {
	settings pad.Settings
	policies Policies
	from     From
	limit    int64
	overrun  plan.OverrunWay

	// codec packs the pads.
	codec batch.Codec

	padder *pad.Padder
	term   any
	// record is what is on record; due is when it has to be looked at again.
	record pad.Record
	due    time.Time
	pads   *batch.Pads
	stamp  int64
	// sequence is what the next piece carries; known says that it is right.
	sequence int32
	known    bool
}

// begin brings the target's log to where it has to start (G1). It returns nil
// where it stands there; a padded log is looked at anew.
func (p *partition) begin(ctx, hard context.Context, src, dst feed.Bounds, owned bool) *stop {
	rec, known := p.records.Pad(p.link, p.src.Topic, p.src.Partition)
	p.pad.record = padRecord(rec)
	s := plan.Start{SrcStart: src.LogStart, SrcEnd: src.LastStable, From: src.LogStart,
		DstStart: dst.LogStart, DstEnd: dst.LogEnd, Goal: feed.Unknown}
	if known {
		s.Goal = rec.Goal
	}
	switch {
	case dst.LogEnd > 0 && dst.LogEnd < src.LogStart && (p.pad.record.Ready() || !known && (owned || p.mirrored())):
		policy := p.policy()
		if p.accepting.Load() != nil {
			policy.Overrun = plan.PadOverrun
		}
		step := plan.Overrun(dst.LogEnd, src.LogStart, policy)
		if step.Kind == plan.PadOver {
			return p.runPadding(ctx, hard, step, ledger.Retention)
		}
		return halt(step.Reason, "%s", step.Detail)
	case dst.LogEnd > 0 && !known:
		return nil
	case dst.LogEnd == 0 && !known:
		from, err := p.pad.from.Offset(ctx, p.src, p.srcID, src)
		if err != nil {
			return onSource(asFault(err, p.src))
		}
		s.From = from
	}
	step := plan.StartAt(s, p.policy())
	switch {
	case step.Kind == plan.Halt:
		return halt(step.Reason, "%s", step.Detail)
	case step.Kind == plan.Pad:
		return p.runPadding(ctx, hard, step, ledger.Padded)
	case known && !rec.Done:
		p.pad.due = time.Now()
	}
	return nil
}

// runPadding does what is due for a step's goal, and tells the outcome: a stop
// in any case, since the target has to be looked at again.
func (p *partition) runPadding(ctx, hard context.Context, step plan.Step, why ledger.Reason) *stop {
	if s := p.room(ctx, step.End-step.Base); s != nil {
		return s
	}
	if s := p.padOnce(ctx, hard, pad.Goal{Offset: step.End, Reason: why}); s != nil {
		return s
	}
	return reprobe("padded up to offset %d", step.End)
}

// fastestPads is more offsets a second than padding one partition was ever seen
// to reach, so that the room it needs is not reckoned too small.
const fastestPads = 20e6

// room refuses to pad where a broker's disk has less left than the pads may take
// at once. A broker that does not tell is no obstacle.
func (p *partition) room(ctx context.Context, offsets int64) *stop {
	piece := int32(min(offsets, int64(cmp.Or(p.pad.settings.PieceOffsets, pad.DefaultSettings().PieceOffsets))))
	b, err := batch.Pad(piece, batch.PadOptions{Codec: p.pad.codec, Timestamp: batch.DefaultPadOptions().Timestamp})
	if err != nil {
		return reprobe("measure the pads: %v", err)
	}
	rates := pad.Rates{OffsetsPerSecond: fastestPads, BytesPerOffset: float64(len(b)) / float64(piece)}
	cost, err := pad.Estimate(offsets, rates, p.pad.settings)
	if err != nil {
		return reprobe("estimate the pads: %v", err)
	}
	r, err := p.pad.policies.Room(ctx, p.dst.Topic, p.dst.Partition)
	if err != nil {
		p.log.Debug("what the target's disks have left is not known", "error", err)
		return nil
	}
	if cost.Peak < r.UsableBytes {
		return nil
	}
	return targetLost(state.DiskShort, "%d offsets of padding take up to %d bytes at once, and %s of broker %d has %d left",
		offsets, cost.Peak, r.Dir, r.Broker, r.UsableBytes)
}

// padOnce runs the padder once; nil means that records may be mirrored.
func (p *partition) padOnce(ctx, hard context.Context, goal pad.Goal) *stop {
	if s := p.landUntil(hard, 0); s != nil {
		return s
	}
	if s := p.awaitLease(ctx); s != nil {
		return s
	}
	ports := &padPorts{fillPorts: fillPorts{p: p}}
	defer ports.leave()
	if _, err := ports.Allowed(); err != nil {
		return p.notOwner()
	}
	if p.pad.padder == nil || p.pad.term != p.gaps.term {
		p.pad.padder, p.pad.term = &pad.Padder{Settings: p.pad.settings, Observe: p.observePad}, p.gaps.term
	}
	p.pad.padder.Ports, p.pad.known = ports, false
	r := p.pad.padder.Run(ctx, goal, p.pad.record)
	p.pad.record = r.Record
	p.pad.due = time.Time{}
	if r.Err != nil {
		return p.onPad(r.Err)
	}
	if r.Record.Goal > 0 {
		p.book.add(ledger.Range{From: r.Record.From, End: r.Record.Goal, Reason: r.Record.Reason})
	}
	if !r.Record.Done && r.Again > 0 {
		p.pad.due = time.Now().Add(r.Again)
	}
	return nil
}

// onPad turns the end of a padding into a stop.
func (p *partition) onPad(err error) *stop {
	var f *pad.Fault
	switch {
	case errors.Is(err, pad.ErrNotAllowed):
		return p.notOwner()
	case !errors.As(err, &f) || f.Reason == "":
		return reprobe("pad: %v", err)
	case f.Reason == state.NoPermission || !f.Reason.Remote():
		return haltOffsets(f.Reason, err, "pad: %v", err)
	}
	return targetLost(f.Reason, "pad: %v", err)
}

// settlePadding looks after a trim that a broker may yet take back.
func (p *partition) settlePadding(ctx, hard context.Context) *stop {
	if s := p.padOnce(ctx, hard, pad.Goal{Offset: p.pad.record.Goal, Reason: p.pad.record.Reason}); s != nil {
		return s
	}
	p.advance()
	return nil
}

// observePad shows how far padding is.
func (p *partition) observePad(g pad.Progress) {
	p.shown.sawTarget(g.Start, g.End, time.Now())
	if g.Record.Stage == pad.StagePad && p.shown.move(state.PadBegun, "", "") {
		p.log.Info("partition PADDING", "from", g.Record.From, "goal", g.Record.Goal)
	}
}

// padPorts is what padding needs.
type padPorts struct{ fillPorts }

// Allowed implements pad.Ports.
func (f *padPorts) Allowed() (time.Time, error) {
	until, err := f.fillPorts.Allowed()
	if err != nil {
		return until, fmt.Errorf("%w: %w", pad.ErrNotAllowed, err)
	}
	return until, nil
}

// Ends implements pad.Ports.
func (f *padPorts) Ends(ctx context.Context) (pad.Ends, error) {
	e := f.p.target.Ends(ctx, []appender.Target{f.p.dst})[f.p.dst]
	return pad.Ends{Start: e.LogStart, HighWatermark: e.HighWatermark, End: e.LogEnd, LeaderEpoch: e.LeaderEpoch},
		padFault("read the target's ends", e.Reason, e.Err)
}

// padFault keeps the reason that an error came with.
func padFault(op string, r state.Reason, err error) error {
	if err == nil {
		return nil
	}
	if r == "" {
		r = state.Unreachable
	}
	return &pad.Fault{Op: op, Reason: r, Err: err}
}

// Append implements pad.Ports. The sequence is the one the broker expects: read
// once, counted on while answers are clear, and read again after a doubt.
func (f *padPorts) Append(ctx context.Context, piece pad.Piece) pad.Appended {
	p := f.p
	refused := func(r state.Reason, err error) pad.Appended {
		return pad.Appended{Outcome: pad.NotSent, Reason: r, Err: err}
	}
	if !p.pad.known {
		ps, err := p.target.ProducerState(ctx, p.dst, p.identity.ProducerID)
		if err != nil {
			return refused(troubleReason(err), err)
		}
		p.pad.sequence, p.pad.known = 0, true
		if ps.Known {
			p.pad.sequence = appender.NextSequence(ps.LastSequence, 1)
		}
	}
	if p.pad.pads == nil || p.pad.stamp != piece.Timestamp {
		p.pad.pads, p.pad.stamp = batch.NewPads(batch.PadOptions{Codec: p.pad.codec, Timestamp: piece.Timestamp}), piece.Timestamp
	}
	b, err := p.pad.pads.Append(nil, piece.Count)
	if err == nil {
		err = batch.Patch(b, batch.Fields{Identity: p.identity, BaseSequence: p.pad.sequence})
	}
	if err != nil {
		return refused(state.Corrupt, err)
	}
	r := p.target.Begin(ctx, p.dst, appender.Batch{Bytes: b, Expect: piece.Base, Follow: appender.More}).Wait(ctx)
	out := pad.Appended{Base: r.Base, Reason: r.Reason, Err: r.Err}
	switch r.Outcome {
	case appender.Appended, appender.Misplaced:
		out.Outcome = pad.Done
		p.pad.sequence = appender.NextSequence(p.pad.sequence, piece.Count)
		return out
	case appender.NotSent:
		out.Outcome = pad.NotSent
	case appender.Refused:
		out.Outcome = pad.Refused
	case appender.Fenced:
		out.Outcome = pad.Fenced
	default:
		out.Outcome = pad.Unknown
	}
	p.pad.known = false
	return out
}

// Trim implements pad.Ports.
func (f *padPorts) Trim(ctx context.Context, to int64) error {
	t := f.p.target.Trim(ctx, map[appender.Target]int64{f.p.dst: to})[f.p.dst]
	return padFault("trim", t.Reason, t.Err)
}

// Policy implements pad.Ports.
func (f *padPorts) Policy(ctx context.Context) (string, error) {
	s, err := f.p.pad.policies.CleanupPolicy(ctx, f.p.dst.Topic)
	return s, padFault("read cleanup.policy", troubleReason(err), err)
}

// SetPolicy implements pad.Ports.
func (f *padPorts) SetPolicy(ctx context.Context, policy string) error {
	err := f.p.pad.policies.SetCleanupPolicy(ctx, f.p.dst.Topic, policy)
	return padFault("set cleanup.policy to "+policy, troubleReason(err), err)
}

// Siblings implements pad.Ports.
func (f *padPorts) Siblings() (s pad.Siblings) {
	for _, r := range f.p.records.Pads(f.p.link, f.p.src.Topic) {
		if rec := padRecord(r); r.Partition != f.p.src.Partition && !rec.Done {
			s.NeedPolicy = s.NeedPolicy || rec.NeedsPolicy()
			if rec.RestorePolicy != "" {
				s.RestorePolicy = rec.RestorePolicy
			}
		}
	}
	return s
}

// Put implements pad.Ports.
func (f *padPorts) Put(ctx context.Context, r pad.Record) error {
	p := f.p
	err := p.records.PutPad(ctx, control.PadRecord{Link: p.link, Topic: p.src.Topic, SourceID: p.srcID, Partition: p.src.Partition,
		TargetID: feed.TopicID(p.dst.ID), From: r.From, Goal: r.Goal, Reason: r.Reason, Stage: string(r.Stage),
		RestorePolicy: r.RestorePolicy, TrimmedAt: r.TrimmedAt, Done: r.Done})
	if err != nil {
		return &pad.Fault{Op: "record the pad goal", Reason: controlTrouble(err).Reason, Err: fmt.Errorf("%w: %w", errOnRecord, err)}
	}
	return nil
}

func padRecord(r control.PadRecord) pad.Record {
	return pad.Record{From: r.From, Goal: r.Goal, Reason: r.Reason, Stage: pad.Stage(r.Stage), RestorePolicy: r.RestorePolicy,
		TrimmedAt: r.TrimmedAt, Done: r.Done}
}
