package switchover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"klink/fetcher/feed"
)

// Promote waits until the target holds all that the source has and then stops the
// mirrors, all of them or none. Where that does not come about in time nothing has
// changed and the error is ErrRefused; the Result has the numbers then too. A source
// that has records beyond the cut, now or when the command is given again, is a
// *LateError. A context that ends while the mirrors are held takes that back.
func (s *Switch) Promote(ctx context.Context, r Request) (Result, error) {
	if s.o.Source == nil {
		return Result{Link: s.o.Link}, errors.New("promote needs the source")
	}
	x := &promRun{Switch: s, r: r, m: newPromote(s.o.Times, r, time.Now()), troubles: make(troubles), details: make(map[string]string)}
	if r.DryRun {
		return x.dry(ctx)
	}
	return x.run(ctx)
}

// promRun carries out one promotion.
type promRun struct {
	*Switch
	r   Request
	m   *promote
	all []*fate
	// src is what the source said last.
	src map[feed.Partition]SourceEnd
	// before is what it said when it was last looked at for a move.
	before map[feed.Partition]SourceEnd
	// silent are the partitions whose workers did not confirm the hold.
	silent   []*fate
	troubles troubles
	details  map[string]string
	// said is what was told last, so that a wait is told once.
	said string
}

func (x *promRun) run(ctx context.Context) (Result, error) {
	// What is held must be taken back also when the caller gives up.
	under := context.WithoutCancel(ctx)
	for {
		if ctx.Err() != nil {
			x.give(ctx)
		}
		switch x.m.step {
		case promLook:
			x.look(under)
		case promRest:
			x.rests(ctx, under)
		case promWait:
			missing := x.missing(under)
			x.waiting(missing)
			x.m.measured(time.Now(), missing, x.moved())
		case promPut:
			x.put(under)
		case promAcks:
			x.tell("held; waiting for the workers")
			if missing := x.awaitWords(ctx); ctx.Err() == nil {
				x.m.acked(missing)
			}
		case promCheck:
			x.checks(under)
		case promCuts:
			x.m.cut(time.Now(), x.putCuts(under))
		case promSettings:
			x.finish(under, x.m.sc, x.troubles, x.details)
			x.m.went()
		case promLast:
			x.measure(under, x.all)
			x.lastLook(under, x.all)
			x.m.went()
		case promOver:
			return x.result(under)
		}
	}
}

// give ends a promotion for a caller who gave up: what is not held is left alone,
// what is held is taken back, and what is on record is completed.
func (x *promRun) give(ctx context.Context) {
	m := x.m
	unheld := m.step == promWait || m.step == promRest || !m.tried && (m.step == promLook || m.step == promPut)
	switch {
	case m.goal != toHold || m.step == promOver:
	case m.held.IsZero() && unheld:
		m.end(ctx.Err())
	case !m.held.IsZero() && m.step != promLook && m.step != promRest:
		m.back(ctx.Err())
	}
}

// rests waits; who takes something back does so whatever the caller wants.
func (x *promRun) rests(ctx, under context.Context) {
	if x.m.goal == toHold {
		under = ctx
	}
	pause(under, time.Until(x.m.rest))
	x.m.rested()
}

func (x *promRun) tell(s string) {
	if s != x.said {
		x.r.tell(s)
		x.said = s
	}
}

// waiting tells why it takes long, in steps of what a person would read.
func (x *promRun) waiting(missing string) {
	if missing != "" {
		x.tell("waiting: " + missing)
	}
}

// checks looks at both clusters under the hold.
func (x *promRun) checks(ctx context.Context) {
	missing := x.missing(ctx)
	x.m.checked(time.Now(), missing, x.moved())
	if x.m.anew {
		x.tell("taken back, to be tried again: " + x.m.lack)
	}
}

func (x *promRun) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, x.o.Times.Look)
	defer cancel()
	err := x.o.Store.CatchUp(bounded)
	sc, scopeErr := newScope(x.o.Store, x.o.Link, x.r.Topics)
	if scopeErr != nil {
		x.m.end(scopeErr)
		return
	}
	x.all = x.fates(sc, x.all)
	x.m.looked(time.Now(), sc, err)
}

func (x *promRun) put(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, x.o.Times.Look)
	defer cancel()
	x.m.wrote(time.Now(), x.o.Store.PutCommand(bounded, x.m.command))
}

// together are the partitions that are promoted now.
func (x *promRun) together() []*fate {
	ids := make(map[string]bool, len(x.m.open))
	for _, m := range x.m.open {
		ids[m.SourceTopic] = true
	}
	var out []*fate
	for _, f := range x.all {
		if ids[f.m.SourceTopic] {
			out = append(out, f)
		}
	}
	return out
}

// missing looks at both clusters, the target first, and says what the target
// lacks, "" for nothing.
func (x *promRun) missing(ctx context.Context) string {
	mine := x.together()
	x.measure(ctx, mine)
	why, count := x.ask(ctx, mine), 0
	for _, f := range mine {
		lack := x.lacks(f)
		if lack == "" {
			continue
		}
		count++
		if why == "" {
			why = fmt.Sprintf("%s/%d: %s", f.m.SourceTopic, f.n, lack)
		}
	}
	for _, m := range x.m.open {
		if m.TargetID.IsZero() && m.Partitions == 0 && why == "" {
			why = m.SourceTopic + " has no target topic yet"
		}
	}
	if count > 1 {
		why += fmt.Sprintf(", and %s more", counted(count-1, "partition"))
	}
	return why
}

// ask puts the question to the source; what it answers becomes what was seen.
func (x *promRun) ask(ctx context.Context, fs []*fate) (trouble string) {
	got, now, err := x.sourceEnds(ctx, fs)
	x.src = got
	if err != nil {
		return fmt.Sprintf("the source does not answer: %v", err)
	}
	for _, f := range fs {
		if e, ok := got[f.source()]; ok && e.Err == nil {
			f.seen.stable, f.seen.high, f.seen.at = &e.Stable, &e.End, now
			f.facts.seen = f.seen
		}
		f.facts.of = now
	}
	return ""
}

// moved names a partition of the source that moved between its last two answers, ""
// for none.
func (x *promRun) moved() string {
	if x.src == nil {
		return ""
	}
	was := x.before
	x.before = x.src
	return moved(was, x.src)
}

// moved names the first of the partitions that both answers know that moved.
func moved(was, is map[feed.Partition]SourceEnd) (name string) {
	for p, a := range was {
		b, ok := is[p]
		if !ok || a.Err != nil || b.Err != nil || a.Stable == b.Stable && a.End == b.End {
			continue
		}
		if s := fmt.Sprintf("%s/%d", p.Topic, p.Partition); name == "" || s < name {
			name = s
		}
	}
	return name
}

// sourceEnds asks the source where some partitions end, and tells when it answered.
func (x *promRun) sourceEnds(ctx context.Context, fs []*fate) (map[feed.Partition]SourceEnd, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Times.Look)
	defer cancel()
	ps := make([]feed.Partition, len(fs))
	for i, f := range fs {
		ps[i] = f.source()
	}
	got, err := x.o.Source.SourceEnds(ctx, ps)
	return got, time.Now(), err
}

// lacks says what keeps a partition from being stopped without a loss.
func (x *promRun) lacks(f *fate) string {
	src, ok := x.src[f.source()]
	dst := f.facts.ends
	switch {
	case !ok:
		return "its end on the source is not known"
	case src.Err != nil:
		return fmt.Sprintf("its end on the source is not known: %v", src.Err)
	case src.ID != f.m.SourceID && !src.ID.IsZero() && !f.m.SourceID.IsZero():
		return "the source topic was deleted and made anew"
	case dst.Err != nil:
		return fmt.Sprintf("its end on the target is not known: %v", dst.Err)
	case f.facts.copies != nil && src.Stable == src.End:
		return f.lacksCopies(src.End)
	case f.facts.copies == nil && dst.LogEnd > src.End:
		return fmt.Sprintf("the target ends at %d, beyond the source's end %d", dst.LogEnd, src.End)
	case src.Stable < src.End:
		return fmt.Sprintf("%s of the source behind a transaction that has not ended", counted(src.End-src.Stable, "record"))
	case dst.LogEnd < src.End:
		return counted(src.End-dst.LogEnd, "record") + " behind the source" + f.mood()
	case dst.HighWatermark < dst.LogEnd:
		return fmt.Sprintf("offsets %d to %d of the target are not on all replicas yet", dst.HighWatermark, dst.LogEnd-1)
	case f.word != nil && !f.word.Wrote && f.word.End != dst.LogEnd:
		return fmt.Sprintf("worker %s stopped at %d and the target ends at %d", f.word.worker, f.word.End, dst.LogEnd)
	}
	return ""
}

// lacksCopies is lacks for checkpoint mode, where the target's log may hold more
// than the mirror.
func (f *fate) lacksCopies(end int64) string {
	src, dst := f.facts.copies.End()
	switch {
	case src > end:
		return fmt.Sprintf("offsets up to %d were copied, beyond the source's end %d", src-1, end)
	case src < end:
		return counted(end-src, "record") + " behind the source" + f.mood()
	case f.facts.ends.HighWatermark < dst:
		return fmt.Sprintf("offsets %d to %d of the target are not on all replicas yet", f.facts.ends.HighWatermark, dst-1)
	}
	return ""
}

// mood is the state of a mirror that cannot get on by itself.
func (f *fate) mood() string {
	if f.seen.reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", f.seen.state, f.seen.reason)
}

// awaitWords waits for the word of a worker on each partition, and on group
// offsets, and says whose is missing.
func (x *promRun) awaitWords(ctx context.Context) string {
	ctx, cancel := context.WithDeadline(ctx, x.m.ackUntil)
	defer cancel()
	for {
		changed := x.o.Store.Changed()
		missing := x.takeWords()
		if missing == "" {
			return ""
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return missing
		}
	}
}

func (x *promRun) takeWords() string {
	said := make(map[string]map[int32]word)
	x.silent = nil
	for _, f := range x.together() {
		topic := f.m.SourceTopic
		if said[topic] == nil {
			said[topic] = words(x.o.Store.Acks(x.o.Link, topic), f.m.intent.Cause.Number)
		}
		if w, ok := said[topic][f.n]; ok {
			f.word = &w
			continue
		}
		x.silent = append(x.silent, f)
	}
	if len(x.silent) > 0 {
		return unconfirmed(x.silent, time.Now())
	}
	if x.o.CarriesGroups && !x.groupsConfirmed() {
		return x.groupsMissing()
	}
	return ""
}

// groupsMissing is what is missing where that worker did not.
func (x *promRun) groupsMissing() string {
	for _, m := range x.m.open {
		if !m.keepsOffsets {
			return "group offsets and their checkpoints"
		}
	}
	return "group offsets"
}

// groupsConfirmed reports whether the worker that carries group offsets wrote the
// last ones for this hold.
func (x *promRun) groupsConfirmed() bool {
	number := x.m.open[0].intent.Cause.Number
	for _, a := range x.o.Store.Acks(x.o.Link, "") {
		if a.Number == number {
			return true
		}
	}
	return false
}

func (x *promRun) putCuts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, x.o.Times.Look)
	defer cancel()
	return x.o.Store.PutCuts(ctx, cutRecords(x.o.Link, x.together(), func(*mirror) string { return x.m.id }))
}
