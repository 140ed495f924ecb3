package reverse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/linker/control"
	"klink/linker/intent"
)

// modeMirror is the mode of links that keep offsets.
const modeMirror = "mirror"

// putsAtOnce is how many ledgers are written side by side: each waits for its
// acknowledgement.
const putsAtOnce = 64

// step is one that writes. They are in the order of H3: what the new link needs, a
// last look at the old source, what cannot be taken back, and then the old link's
// end.
type step string

const (
	stepLink   step = "put the new link on record"
	stepTopics step = "put its topics on record"
	stepGroups step = "put its groups on record"
	stepEnds   step = "look at the old source again"
	stepDelete step = "delete topics of the old source"
	stepAdopt  step = "let it begin"
	stepTurn   step = "name it in the old link"
)

// write turns the topics of a survey around. It reports whether the old source
// moved: then the old link was left as it was.
func (r *Reverser) write(ctx context.Context, s *survey) (moved bool, err error) {
	old, closeOld, err := open(ctx, r.o.Target)
	if err != nil {
		return false, fmt.Errorf("promoted side: open the control topic: %w", err)
	}
	defer closeOld()
	next, closeNext, err := open(ctx, r.o.Source)
	if err != nil {
		return false, fmt.Errorf("old source: open the control topic: %w", err)
	}
	defer closeNext()
	w := &writing{r: r, survey: s, old: old, next: next, now: r.o.Now()}
	if err := w.unchanged(ctx); err != nil {
		return false, err
	}
	for _, do := range []struct {
		step
		run func(context.Context) error
	}{
		{stepLink, w.putLink}, {stepTopics, w.putTopics}, {stepGroups, w.putGroups},
		{stepEnds, w.lookAgain}, {stepDelete, w.deleteTopics}, {stepAdopt, w.adopt}, {stepTurn, w.turn},
	} {
		if err := r.before(do.step); err != nil {
			return false, err
		}
		err := do.run(ctx)
		if errors.Is(err, errMoved) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", do.step, err)
		}
	}
	return false, nil
}

// open opens a side's control topic and runs it until the function returned is
// called.
func open(ctx context.Context, side Side) (Store, func(), error) {
	s, err := side.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(running) }) // what it ends with, every Put fails with
	return s, func() { stop(); wg.Wait(); s.Close() }, nil
}

// writing is one run of Do.
type writing struct {
	r *Reverser
	*survey
	old, next Store
	now       time.Time
}

// errMoved: the old source's log ends are not those of the survey.
var errMoved = errors.New("the old source moved")

// unchanged makes sure that what is on record is what the survey was made of.
func (w *writing) unchanged(ctx context.Context) error {
	if err := errors.Join(w.old.CatchUp(ctx), w.next.CatchUp(ctx)); err != nil {
		return err
	}
	if w.old.Intents(w.req.Link).Next() != w.number {
		return ErrLost
	}
	again := &survey{req: w.req, old: w.old, next: w.next, link: w.link, claims: claimsOf(w.next, w.req.Next)}
	for _, t := range w.turning() {
		have := &looked{was: t.was}
		if now, _ := w.old.Topic(w.req.Link, t.was.SourceTopic); now.TargetID != t.was.TargetID || now.SourceID != t.was.SourceID {
			return ErrLost
		}
		if again.judge(have, w.old.Intents(w.req.Link).Of(t.was.SourceTopic)); have.verdict != "" {
			return fmt.Errorf("%w: topic %s is %s now: %s", ErrLost, t.was.SourceTopic, have.verdict, have.detail)
		}
		// Another try of the same may have been quicker.
		t.generation = max(t.generation, again.generation(t))
	}
	return nil
}

// putLink writes the new link as it will be applied.
func (w *writing) putLink(ctx context.Context) error {
	return w.next.PutLink(ctx, control.LinkRecord{Link: w.req.Next, Mode: modeMirror, SourceClusterID: w.link.TargetClusterID,
		TargetClusterID: w.link.SourceClusterID, KlinkVersion: w.r.o.Version, AppliedAt: w.now, Definition: w.definition.Link})
}

// turned is a topic as the new link's records need it.
func (w *writing) turned(t *looked) turn {
	x := turn{next: w.req.Next, was: t.was, partitions: t.promoted.partitions, anew: t.recreate || t.verdict == FromStart,
		generation: t.generation, ends: make(map[int32]int64), mirrored: make(map[int32]int64), cutAt: t.cut.At, now: w.now, by: w.r.o.By}
	for n := range t.partitions { // none where the old source's topic is not looked at
		if f := t.partitions[n].facts; n < int(t.old.partitions) {
			x.ends[int32(n)], x.mirrored[int32(n)] = f.Old.End, mirrored(f.Cut, f.New)
		}
	}
	return x
}

// putTopics writes what the new link knows of its topics. The topic's own record
// comes last: without it the others say nothing.
func (w *writing) putTopics(ctx context.Context) error {
	for _, t := range w.turning() {
		x := w.turned(t)
		if err := w.next.PutAdopt(ctx, x.adopt()); err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(putsAtOnce)
		for _, l := range x.ledgers(func(n int32) (control.LedgerRecord, bool) {
			return w.next.Ledger(w.req.Next, t.was.TargetTopic, n)
		}) {
			g.Go(func() error { return w.next.PutLedger(gctx, l) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if err := w.next.PutTopic(ctx, x.topic()); err != nil {
			return err
		}
	}
	return nil
}

// putGroups makes what groups have on the old source the new link's to write over.
// It is read anew: a consumer may have been at work there until now.
func (w *writing) putGroups(ctx context.Context) error {
	if err := w.r.readGroups(ctx, w.survey); err != nil {
		return err
	}
	var all []control.GroupRecord
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		was, known := w.next.Group(w.req.Next, name)
		if !known {
			was = control.GroupRecord{Link: w.req.Next, Group: name}
		}
		all = append(all, w.groups[name].group(was, w.now))
	}
	if len(all) == 0 {
		return nil
	}
	return w.next.PutGroups(ctx, all)
}

// adopt lets the new link mirror topics that a link of its name stopped before: it
// is the way home of its own way home. From here on a klink that still runs it may
// write.
func (w *writing) adopt(ctx context.Context) error {
	wanted := w.next.Intents(w.req.Next)
	var names []string
	for _, t := range w.turning() {
		if wanted.Of(t.was.TargetTopic).Want != intent.Mirror {
			names = append(names, t.was.TargetTopic)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return w.order(ctx, w.next, intent.Command{Link: w.req.Next, Verb: intent.Adopt, Topics: names})
}

// order gives a command.
func (w *writing) order(ctx context.Context, to Store, c intent.Command) error {
	id, err := newID()
	if err != nil {
		return err
	}
	slices.Sort(c.Topics)
	c.Number, c.ID, c.At, c.By = to.Intents(c.Link).Next(), id, w.now, w.r.o.By
	err = to.PutCommand(ctx, c)
	var lost *control.LostError
	if errors.As(err, &lost) {
		return fmt.Errorf("%w (%s)", ErrLost, lost.Winner.Verb)
	}
	return err
}

// lookAgain reads the old source's ends once more, after everything else (H2).
func (w *writing) lookAgain(ctx context.Context) error {
	turning := w.turning()
	if err := w.r.lookAgain(ctx, turning); err != nil {
		return err
	}
	moved := false
	for _, t := range turning {
		for n := range t.partitions {
			p := &t.partitions[n]
			if p.err != nil {
				return p.err
			}
			if p.facts.Again.End == p.facts.Old.End {
				continue
			}
			moved = true
			p.verdict, p.detail = Decide(p.facts)
			t.recreate, t.verdict, t.detail = false, p.verdict, fmt.Sprintf("partition %d: %s", n, p.detail)
		}
	}
	if moved {
		return errMoved
	}
	return nil
}

// deleteTopics deletes what is to be mirrored anew, by the ids that were looked at.
func (w *writing) deleteTopics(ctx context.Context) error {
	for _, t := range w.turning() {
		if !t.recreate {
			continue
		}
		w.r.o.Logger.Info("delete a topic of the old source, to mirror it anew", "topic", t.was.SourceTopic, "id", t.old.id.String(), "verdict", string(t.verdict))
		if err := deleteTopic(ctx, w.r.o.Source.Admin, t.was.SourceTopic, t.old.id); err != nil {
			return err
		}
	}
	return nil
}

// turn names the new link in the old one: from here on nothing is left to do.
func (w *writing) turn(ctx context.Context) error {
	var names []string
	for _, t := range w.unnamed() {
		names = append(names, t.was.SourceTopic)
	}
	return w.order(ctx, w.old, intent.Command{Link: w.req.Link, Verb: intent.Reverse, Topics: names, Next: w.req.Next})
}
