package linker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"klink/fetcher/batch"
	"klink/fetcher/feed"
	"klink/linker/admit"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// topic is one mirrored topic of a link.
type topic struct {
	link *Link
	name string // on the source
	log  *slog.Logger

	mu         sync.Mutex // guards all below
	found      Found
	prepared   Prepared
	generation int32
	// mode is how it is mirrored; why is why its offsets cannot be kept, where that is
	// not as the link's.
	mode Mode
	why  string
	// trouble is why the topic as a whole cannot be mirrored; a final one is
	// not tried again.
	trouble *Trouble
	// out is why the topic is left out until the next start; it is the trouble then.
	out        *Trouble
	partitions []*partition
	// lives are the runs of their loops: nil where none was begun, or an order ended
	// it.
	lives []*life
	// want is what operators want of the topic, and lastAnswer the number of the last
	// command that this process acknowledged for it.
	want       intent.Intent
	lastAnswer int32
	// recreate is the command by which the target topic is to be another one than the
	// one on record then, old, until that is gone.
	recreate intent.Command
	old      feed.TopicID
}

// settle shows trouble with the topic as a whole, once.
func (t *topic) settle(trouble *Trouble) {
	t.mu.Lock()
	was := t.trouble
	if t.out != nil {
		trouble = t.out
	}
	t.trouble = trouble
	t.mu.Unlock()
	switch {
	case trouble == nil && was != nil:
		t.log.Info("topic can be mirrored again")
	case trouble != nil && (was == nil || was.Reason != trouble.Reason):
		t.log.Warn("topic cannot be mirrored", "reason", trouble.Reason, "detail", trouble.Detail, "hint", trouble.hint())
	}
}

func (t *Trouble) hint() string {
	if t.Hint != "" {
		return t.Hint
	}
	return t.Reason.About().Hint
}

// claim checks what was found against the record, and claims the target's name
// for a topic that is new. there says that the target topic exists.
func (t *topic) claim(ctx context.Context, f Found, there bool) *Trouble {
	if out := t.leftOut(); out != nil {
		return out
	}
	store, running := t.link.store, t.running()
	rec, known := store.Topic(t.link.o.Name, f.Topic)
	if c, waits := t.recreated(there, rec.TargetID); waits {
		return &Trouble{Reason: state.TopicRefused, Detail: fmt.Sprintf("the target topic is to be deleted and made anew (command %d by %s), and is there still", c.Number, c.By),
			Hint: "run the command again if it was interrupted"}
	}
	switch {
	case f.Trouble != nil && f.Trouble.OnSource && f.Trouble.Reason == state.TopicMissing && !rec.TargetID.IsZero():
		t.expect(rec.Partitions)
		return &Trouble{Reason: state.SourceDeleted, Detail: f.Trouble.Detail + ", and it was mirrored before", OnSource: true}
	case f.Trouble != nil:
		return f.Trouble
	case !known:
		return t.put(ctx, renew(t.link.fresh(), f))
	}
	return refusal(admit.ByRecord(rec, admit.Mirror{SourceTopic: f.Topic, SourceID: f.ID, Target: f.Target, There: there, Running: running}))
}

// refusal is what the record refuses, as trouble with a topic; nil for nothing.
func refusal(r *admit.Refusal) *Trouble {
	if r == nil {
		return nil
	}
	return &Trouble{Reason: r.Reason, Detail: r.Detail, Hint: r.Hint}
}

// pin records both ids. A target that is not the one recorded is never written
// to, unless klink made it just now.
func (t *topic) pin(ctx context.Context, f Found, made Prepared) *Trouble {
	t.limit(made.MaxBatchBytes)
	if made.Trouble != nil {
		return made.Trouble
	}
	store := t.link.store
	rec, _ := store.Topic(t.link.o.Name, f.Topic)
	seen := f
	seen.OnRecord = keep(rec.SourceConfigs, f.OnRecord, made.Unfollowed)
	if store.Padding(t.link.o.Name, f.Topic) {
		seen.OnRecord = "" // the policy is not followed meanwhile, and must not look as if it were
	}
	next := renew(rec, seen)
	next.Link, next.TargetID = t.link.o.Name, made.ID
	if refused := admit.ByTargetID(rec, next.TargetID, made.Created); refused != nil {
		return refusal(refused)
	}
	if !rec.TargetID.IsZero() && rec.TargetID != next.TargetID {
		next.Generation++
		t.log.Warn("the target topic was gone: mirror it from the beginning", "target_topic", f.Target)
	}
	if rec != next {
		if trouble := t.put(ctx, next); trouble != nil {
			return trouble
		}
	}
	f.Compacted = next.Compacted
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found, t.prepared, t.generation = f, made, next.Generation
	t.mode, t.why = t.link.modeOf(next), next.Why
	return nil
}

// expect tells how many partitions a topic had that cannot be seen now.
func (t *topic) expect(partitions int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found.Partitions = max(t.found.Partitions, partitions)
}

func (t *topic) put(ctx context.Context, r control.TopicRecord) *Trouble {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	return ownerTrouble(t.link.store.PutTopic(ctx, r))
}

// target is the name of the topic's mirror.
func (t *topic) target() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.found.Target
}

func (t *topic) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.partitions) > 0
}

// ownerTrouble tells another link's topic from trouble with the control topic.
func ownerTrouble(err error) *Trouble {
	if err == nil {
		return nil
	}
	if errors.Is(err, control.ErrOwned) {
		return refusal(admit.ByOwner(err))
	}
	return controlTrouble(err)
}

// watch learns of the source's cleaner from its settings.
func (p *partition) watch(f Found) {
	if f.Compacted {
		p.compacted.Store(true)
	}
	p.book.watch(f.Compacted, f.Traits)
}

// limit tells the partitions how large a batch the target topic takes, also
// where the topic is not as it should be.
func (t *topic) limit(maxBatchBytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.partitions {
		p.maxBatchBytes.Store(int64(maxBatchBytes))
	}
}

func (t *topic) newPartition(n int32, guard time.Duration) *partition {
	o := &t.link.o
	src, _ := t.link.store.Link(o.Name)
	p := &partition{
		link: o.Name, src: feed.Partition{Topic: t.found.Topic, Partition: n}, srcID: t.found.ID,
		dst:      appender.Target{Topic: t.found.Target, ID: t.prepared.ID, Partition: n},
		identity: batch.Identity{ProducerID: appender.ProducerID(src.SourceClusterID, t.found.ID, n, t.generation), ProducerEpoch: t.want.Fence},
		limits:   o.Limits, gapWay: o.Gaps, unmirrorable: o.Unmirrorable, leaveOut: t.leaveOut,
		source: o.Source, srcReader: o.SrcReader, dstReader: o.DstReader, target: o.Target,
		lineage: t.link.store, records: t.link.store, lease: o.Lease, worker: o.Worker, memory: o.Memory, turn: t.link, compares: t.link.compares, log: t.log.With("partition", n), crowd: t.link.crowd, count: t.link.count, guard: guard,
		confirmed: feed.Unknown, moved: make(chan sight, 1), shown: newShown(n, o.Worker).in(t.mode),
	}
	if t.mode == Checkpoint {
		p.drift = newDrifting(o.Maps, MapKey{Link: o.Name, Topic: t.found.Topic, SourceID: t.found.ID, TargetID: t.prepared.ID, Partition: n},
			echoesOf(src.TargetClusterID, p.dst))
	}
	p.maxBatchBytes.Store(int64(t.prepared.MaxBatchBytes))
	p.book.tombstonesFor = stockTombstones
	p.watch(t.found)
	p.gaps = gaps{settings: o.Fills, doubt: !t.link.startedClean()}
	p.pad = padding{settings: o.Pads, policies: o.Policies, from: o.From, limit: o.PadLimit, overrun: o.Overrun,
		codec: batch.DefaultPadOptions().Codec}
	return p
}

// report returns the topic's part of a status report. recorded is what the control
// topic knows, for partitions that this process does not mirror itself.
func (t *topic) report(now time.Time, recorded func(topic string) state.Topic) state.Topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := state.Topic{SourceTopic: t.found.Topic, TargetTopic: t.found.Target, Mode: t.mode.String(), State: state.Active,
		Partitions: make([]state.Partition, 0, len(t.partitions))}
	for n, p := range t.partitions {
		if p.here {
			r.Partitions = append(r.Partitions, t.inStep(t.remembered(p.report(now), recorded)))
		} else {
			r.Partitions = append(r.Partitions, t.unmirrored(int32(n), now, recorded))
		}
	}
	if len(t.partitions) == 0 {
		r.State = state.Pending
		for n := range t.found.Partitions {
			r.Partitions = append(r.Partitions, t.unbegun(n, now, recorded))
		}
	}
	if t.want.Want != intent.Mirror && len(r.Partitions) == 0 {
		r.State, r.Detail, r.Hint = control.OrderedState(t.want.Want), t.want.Detail(), t.want.Hint()
	}
	for _, s := range r.Partitions {
		if s.State.Severity() > r.State.Severity() {
			r.State, r.Reason, r.Detail, r.Hint = s.State, s.Reason, s.Detail, s.Hint
		}
	}
	// What halted a partition is not hidden behind a topic that is only away.
	if t.trouble != nil && t.troubleState().Severity() >= r.State.Severity() {
		r.State, r.Reason, r.Detail, r.Hint = t.troubleState(), string(t.trouble.Reason), t.trouble.Detail, t.trouble.hint()
	}
	if t.why != "" && r.Detail == "" {
		r.Detail = "offsets cannot be kept: " + t.why
	}
	return r
}

// report returns what this process knows of a partition.
func (p *partition) report(now time.Time) state.Partition {
	s := p.shown.report(now)
	s.Filled, s.Padded = p.book.counts()
	s.Flags = append(s.Flags, p.book.flags()...)
	if n := p.book.doubled(); n > 0 && s.Detail == "" {
		s.Detail = fmt.Sprintf("up to %d records may have been copied twice", n)
	}
	return s
}

// remembered adds to a partition whose source this process has not seen yet what is on
// record of it, and as of when: it may be all that anybody will know. The lock is held.
func (t *topic) remembered(p state.Partition, recorded func(topic string) state.Topic) state.Partition {
	if p.SourceEnd != nil {
		return p
	}
	known := recorded(t.name).Partitions
	i, ok := slices.BinarySearchFunc(known, p.Partition, func(k state.Partition, n int32) int { return cmp.Compare(k.Partition, n) })
	if ok && known[i].SourceEnd != nil {
		k := known[i]
		p.SourceStart, p.SourceEnd, p.SourceHighWatermark, p.OpenRecords, p.AsOf = k.SourceStart, k.SourceEnd, k.SourceHighWatermark, k.OpenRecords, k.AsOf
	}
	return p
}

// unbegun stands for a partition of a topic that was not begun here. The lock is
// held.
func (t *topic) unbegun(n int32, now time.Time, recorded func(topic string) state.Topic) state.Partition {
	if t.want.Want == intent.Mirror {
		return t.remembered(t.waiting(n, now), recorded)
	}
	return t.unmirrored(n, now, recorded)
}

// unmirrored stands for a partition that another process mirrors, or nobody: as it
// was last recorded. The lock is held.
func (t *topic) unmirrored(n int32, now time.Time, recorded func(topic string) state.Topic) state.Partition {
	p := newShown(n, "").in(t.mode).report(now)
	known := recorded(t.name).Partitions
	if i := slices.IndexFunc(known, func(k state.Partition) bool { return k.Partition == n }); i >= 0 {
		p = known[i]
	} else {
		p.Detail = "no klink of this link has recorded its state yet"
	}
	switch {
	case t.want.Want != intent.Mirror:
		return control.Ordered(t.want, p)
	case t.lost() && (p.State != state.Halted || state.Reason(p.Reason).SourceGone()):
		// It is given up because of that, and was recorded before. Nobody has it now.
		p.Worker = ""
		return t.asTopic(p)
	case !t.link.o.Lease.Share(t.found.Target, n).Joined:
		return unseenPartition(p) // whoever recorded it may be gone
	}
	return p
}

// inStep shows a partition whose loop met that its source topic is gone as the topic is
// shown: the loop has ended, and learns nothing of what became of that name since. The
// lock is held.
func (t *topic) inStep(p state.Partition) state.Partition {
	if t.lost() && p.State == state.Halted && state.Reason(p.Reason).SourceGone() {
		return t.asTopic(p)
	}
	return p
}

// lost tells that what is wrong with the topic as a whole does not end by itself. The
// lock is held.
func (t *topic) lost() bool { return t.trouble != nil && !t.trouble.Reason.Remote() }

// asTopic is a partition that is halted as its topic is. The lock is held.
func (t *topic) asTopic(p state.Partition) state.Partition {
	p.State, p.Reason, p.Detail, p.Hint = state.Halted, string(t.trouble.Reason), t.trouble.Detail, t.trouble.hint()
	p.LagRecords, p.LagSeconds = nil, nil
	return p
}

// troubleState is the state of a topic that cannot be mirrored as a whole.
func (t *topic) troubleState() state.State {
	switch {
	case t.out != nil || !t.trouble.Reason.Remote():
		return state.Halted
	case t.trouble.OnSource && t.trouble.Reason == state.TopicMissing:
		return state.Pending
	case t.trouble.OnSource:
		return state.SourceUnavailable
	case t.trouble.Reason == state.NoPermission:
		return state.Halted
	default:
		return state.TargetUnavailable
	}
}

// waiting stands for a partition whose loop does not run yet.
func (t *topic) waiting(n int32, now time.Time) state.Partition {
	p := newShown(n, "").in(t.mode).report(now)
	p.AsOf = state.Seen{Time: now}
	if t.trouble != nil {
		p.State, p.Reason, p.Detail, p.Hint = t.troubleState(), string(t.trouble.Reason), t.trouble.Detail, t.trouble.hint()
	}
	return p
}
