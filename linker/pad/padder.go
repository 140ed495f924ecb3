package pad

import (
	"context"
	"fmt"
	"time"

	"klink/fetcher/batch"
	"klink/linker/state"
)

// Padder pads one partition for as long as this process holds its lease without a
// break; a new assignment takes a new one. It is not safe for concurrent use.
type Padder struct {
	Ports    Ports
	Settings Settings
	// Observe is told, by the goroutine of Run, how far padding is; nil is allowed.
	Observe func(Progress)

	ran bool
	// known is the log end by the last look and the answers since, -1 before.
	known int64
	// doubt is Seen.Doubt; still is since when the log end has not moved.
	doubt int64
	still stillness
}

// Progress is how far padding is.
type Progress struct {
	Record Record
	// Start and End are those of the target's log.
	Start, End int64
	// Await is AwaitReplicas or AwaitDoubt while that is waited for, else Finished.
	Await Kind
}

// Result is how a Run ended.
type Result struct {
	// Record is what is on record now, at least.
	Record Record
	// Again is when Run is due once more; 0 where Record.Done, or with an error.
	Again time.Duration
	// Err is a *Fault, or the error of a stop.
	Err error
}

// maxUnclear is how many appends in a row may come to nothing clear.
const maxUnclear = 3

// maxPolls is how many polls a high watermark or a policy is waited for before
// that is a fault.
const maxPolls = 10

// Run does what is due for a goal. rec is what is on record, the zero value where
// nothing is. It returns once records may be mirrored (Result.Record.Ready),
// and is then to be called again after Again and whenever Recheck says so, until
// Record.Done; those calls return quickly. The zero record comes back where
// the log stands where it should and nothing was to be done.
func (p *Padder) Run(ctx context.Context, want Goal, rec Record) Result {
	if !p.ran {
		p.ran, p.known = true, -1
		if rec.Stage == StagePad {
			p.doubt = batch.MaxPadCount // of whoever recorded it
		}
	}
	r := &run{Padder: p, set: p.Settings.orDefault(), rec: rec}
	err := r.look(ctx)
	var s Step
	for err == nil {
		r.seen.Doubt = r.doubt
		s = Next(want, r.rec, r.seen, r.set)
		r.tell(s.Kind)
		if s.Kind == Finished || s.Kind == AwaitCheckpoints {
			break
		}
		err = r.act(ctx, s)
	}
	if err != nil {
		if stop := context.Cause(ctx); stop != nil {
			err = stop
		}
		return Result{Record: r.rec, Err: err}
	}
	return Result{Record: r.rec, Again: s.For}
}

// run is one Run.
type run struct {
	*Padder
	set  Settings
	rec  Record
	seen Seen
	// stale: the high watermark was read before the last append.
	stale bool
	// unclear and polls count in a row.
	unclear, polls int
}

func (r *run) tell(k Kind) {
	if r.Observe == nil {
		return
	}
	if k != AwaitReplicas && k != AwaitDoubt {
		k = Finished
	}
	r.Observe(Progress{Record: r.rec, Start: r.seen.Start, End: r.seen.End, Await: k})
}

// act takes one step.
func (r *run) act(ctx context.Context, s Step) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.Kind != AwaitReplicas {
		r.polls = 0
	}
	switch s.Kind {
	case Put:
		return r.put(ctx, s.Record)
	case SetPolicy:
		return r.setPolicy(ctx, s.Policy)
	case Append:
		return r.append(ctx, s.Piece)
	case Trim:
		return r.trim(ctx, s.To)
	case AwaitReplicas:
		return r.awaitReplicas(ctx)
	case AwaitDoubt:
		return r.awaitDoubt(ctx)
	default:
		return &Fault{Op: "pad", Reason: s.Reason, Detail: s.Detail, Err: ErrHalted}
	}
}

// look reads everything anew.
func (r *run) look(ctx context.Context) error {
	policy, err := r.Ports.Policy(ctx)
	if err != nil {
		return fault("read the target's cleanup.policy", err)
	}
	r.seen.Policy, r.seen.Siblings = policy, r.Ports.Siblings()
	return r.lookEnds(ctx)
}

// lookEnds reads the log's ends. What is there beyond what was known was in doubt.
func (r *run) lookEnds(ctx context.Context) error {
	e, err := r.Ports.Ends(ctx)
	if err != nil {
		return fault("read the target's log ends", err)
	}
	now := time.Now()
	if r.known >= 0 && e.End > r.known {
		r.doubt = max(0, r.doubt-(e.End-r.known))
	}
	r.known, r.stale = e.End, false
	r.still.note(e, now)
	r.seen.Start, r.seen.HighWatermark, r.seen.End, r.seen.Now = e.Start, e.HighWatermark, e.End, now
	return nil
}

// guarded does something under the lease (P6).
func (r *run) guarded(ctx context.Context, op string, do func(ctx context.Context) error) error {
	until, err := r.Ports.Allowed()
	if now := time.Now(); err == nil && !now.Before(until) {
		err = fmt.Errorf("the lease ended %s ago", now.Sub(until))
	}
	if err != nil {
		return &Fault{Op: op, Err: fmt.Errorf("%w: %w", ErrNotAllowed, err)}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return do(ctx)
}

func (r *run) put(ctx context.Context, rec Record) error {
	err := r.guarded(ctx, "record the pad goal", func(ctx context.Context) error {
		if err := r.Ports.Put(ctx, rec); err != nil {
			return fault("record the pad goal", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.rec.Ready() && rec.Stage == StagePad {
		r.doubt = batch.MaxPadCount // of what was mirrored meanwhile
	}
	r.rec = rec
	// Time has passed, and others may have recorded something before this.
	r.seen.Siblings, r.seen.Now = r.Ports.Siblings(), time.Now()
	return nil
}

// setPolicy returns once the leader knows the new policy: the controller answers
// before the brokers have heard of it.
func (r *run) setPolicy(ctx context.Context, policy string) error {
	const op = "set the target's cleanup.policy"
	err := r.guarded(ctx, op, func(ctx context.Context) error {
		if err := r.Ports.SetPolicy(ctx, policy); err != nil {
			return fault(op, err)
		}
		return nil
	})
	for poll := 0; err == nil; poll++ {
		if err = r.look(ctx); err != nil || r.seen.Policy == policy {
			return err
		}
		if poll == maxPolls {
			return &Fault{Op: op, Reason: state.TopicRefused, Detail: fmt.Sprintf("%q was set, %q is there", policy, r.seen.Policy), Err: ErrPolicy}
		}
		err = r.pause(ctx, poll)
	}
	return err
}

func (r *run) append(ctx context.Context, p Piece) error {
	return r.guarded(ctx, "append pads", func(ctx context.Context) error {
		a := r.Ports.Append(ctx, p)
		switch a.Outcome {
		case Done:
			r.unclear, r.stale = 0, true
			r.known += int64(p.Count)
			r.seen.End = r.known
			if a.Base != p.Base {
				return r.lookEnds(ctx) // something in doubt came first
			}
			return nil
		case Unknown:
			r.unclear++
			r.doubt += int64(p.Count)
			r.still = stillness{}
			if r.unclear == maxUnclear {
				return &Fault{Op: "append pads", Reason: orUnreachable(a.Reason), Err: fmt.Errorf("%w: %w", ErrNoProgress, orNoWord(a.Err))}
			}
			return r.lookEnds(ctx)
		case Fenced:
			return &Fault{Op: "append pads", Reason: state.Fenced, Err: orNoWord(a.Err)}
		default:
			return &Fault{Op: "append pads", Reason: orUnreachable(a.Reason), Err: orNoWord(a.Err)}
		}
	})
}

// trim deletes, and looks whether it did.
func (r *run) trim(ctx context.Context, to int64) error {
	return r.guarded(ctx, "trim the target", func(ctx context.Context) error {
		if err := r.Ports.Trim(ctx, to); err != nil {
			return fault("trim the target", err)
		}
		if err := r.lookEnds(ctx); err != nil || r.seen.Start >= to {
			return err
		}
		// Another leader, which has not heard of it: it is trimmed as well, later.
		return &Fault{Op: "trim the target", Reason: state.NotEnoughReplicas,
			Err: fmt.Errorf("%w: trimmed to %d, the leader's log starts at %d", ErrBehind, to, r.seen.Start)}
	})
}

func (r *run) awaitReplicas(ctx context.Context) error {
	if r.polls++; r.polls > maxPolls {
		return &Fault{Op: "await the target's replicas", Reason: state.NotEnoughReplicas,
			Err: fmt.Errorf("%w: %d, and %d", ErrBehind, r.seen.HighWatermark, r.seen.End)}
	}
	if !r.stale {
		if err := r.pause(ctx, r.polls); err != nil {
			return err
		}
	}
	return r.lookEnds(ctx)
}

// awaitDoubt waits until what is in doubt is there or will not come.
func (r *run) awaitDoubt(ctx context.Context) error {
	if err := r.pause(ctx, maxPolls); err != nil {
		return err
	}
	if err := r.lookEnds(ctx); err != nil {
		return err
	}
	if r.seen.HighWatermark == r.seen.End && r.still.lasted(r.seen.Now) >= r.set.SettleTime {
		r.doubt = 0
	}
	return nil
}

// pause waits longer at each poll, up to PollTime: most of what is waited for
// takes some milliseconds.
func (r *run) pause(ctx context.Context, poll int) error {
	d := min(r.set.PollTime, 10*time.Millisecond<<min(poll, 20))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stillness is since when a leader's log end has not moved.
type stillness struct {
	known bool
	end   int64
	epoch int32
	since time.Time
}

func (s *stillness) same(e Ends) bool { return s.known && s.end == e.End && s.epoch == e.LeaderEpoch }

func (s *stillness) note(e Ends, now time.Time) {
	if !s.same(e) {
		*s = stillness{true, e.End, e.LeaderEpoch, now}
	}
}

func (s *stillness) lasted(now time.Time) time.Duration { return now.Sub(s.since) }

func orUnreachable(r state.Reason) state.Reason {
	if r == "" {
		return state.Unreachable
	}
	return r
}
