package switchover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/linker/intent"
	"klink/linker/state"
)

// dry tells the numbers of now.
func (x *promRun) dry(ctx context.Context) (Result, error) {
	sc, err := newScope(x.o.Store, x.o.Link, x.r.Topics)
	if err != nil {
		return x.newResult(), err
	}
	x.all = x.fates(sc, nil)
	x.m.sc, x.details = sc, unfinished(x.o.Store, sc)
	for _, m := range sc.mirrors {
		if m.intent.Want != intent.Stopped {
			x.m.open = append(x.m.open, m)
		}
	}
	missing := x.missing(ctx)
	x.measure(ctx, x.settled())
	x.lastLook(ctx, x.settled())
	res := x.assemble(ctx)
	res.DryRun = true
	if missing != "" {
		res.Notes = append(res.Notes, "would wait: "+missing)
	}
	res.tally()
	return res, ctx.Err()
}

// settled are the partitions that are not promoted now.
func (x *promRun) settled() []*fate {
	open := make(map[*fate]bool)
	for _, f := range x.together() {
		open[f] = true
	}
	var out []*fate
	for _, f := range x.all {
		if !open[f] {
			out = append(out, f)
		}
	}
	return out
}

func (x *promRun) result(ctx context.Context) (Result, error) {
	if x.m.sc == nil {
		return x.newResult(), x.m.err
	}
	if x.m.err != nil || x.m.goal != toStop {
		// The record is as it was; the numbers are those of the last look.
		x.measure(ctx, x.settled())
		x.lastLook(ctx, x.settled())
	}
	res := x.assemble(ctx)
	if id := x.m.id; x.m.err == nil {
		if x.m.goal != toStop {
			id = x.m.sc.mirrors[0].intent.Cause.Switch
		}
		res.Switch = &id
	}
	res.tally()
	if x.m.err != nil {
		return res, x.m.err
	}
	return res, promoted(res)
}

// assemble puts the result together from what is known.
func (x *promRun) assemble(ctx context.Context) Result {
	res := x.newResult()
	res.Notes = append(res.Notes, x.m.notes...)
	if n := x.m.retaken; n > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("held and taken back %s, since by then something was missing; the last time: %s", counted(n, "time"), x.m.lack))
	}
	x.blame(time.Now())
	waiting := make(map[string]bool)
	for _, m := range x.m.open {
		waiting[m.SourceTopic] = m.intent.Want != intent.Stopped
	}
	for _, f := range x.together() {
		if waiting[f.m.SourceTopic] {
			if lack := x.lacks(f); lack != "" {
				x.troubles.first(f.m.SourceTopic, state.Reason(lagging), fmt.Errorf("partition %d: %s", f.n, lack))
			}
		}
	}
	for _, m := range x.m.sc.mirrors {
		t := topic(m, x.all, x.troubles, x.details)
		if x.m.err != nil && t.OK && m.intent.Want != intent.Stopped {
			t.OK, t.Detail = false, x.why()
		}
		res.Topics = append(res.Topics, t)
	}
	res.Groups = x.groupNumbers(ctx, x.all)
	return res
}

// why says of a topic with no trouble of its own why it was not promoted.
func (x *promRun) why() string {
	if len(x.m.open) > 1 && len(x.troubles) > 0 {
		return "not promoted, since all are promoted together or none"
	}
	if errors.Is(x.m.err, context.Canceled) || errors.Is(x.m.err, context.DeadlineExceeded) {
		return "not promoted: the command was stopped before"
	}
	return x.m.err.Error()
}

// lagging is the Topic.Reason of what is not mirrored to its end.
const lagging = "LAGGING"

// hintLagging is the hint of lagging, which is no reason of a partition.
const hintLagging = "stop the producers at the source, let open transactions end, and give the command again; klink failover goes on without what is missing"

// hintOf is the hint of a Topic.Reason.
func hintOf(reason state.Reason) string {
	switch reason {
	case lagging:
		return hintLagging
	case lateRecords:
		return hintLate
	case silentWorker:
		return hintSilent
	}
	return reason.About().Hint
}
