package contrast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/cmd/lab"
)

const (
	// history is how much of the load there is before the mirror begins.
	history = 2 * ticksPerSecond
	// historyStep lies between two of its ticks by the records' timestamps: longer
	// than a segment of the compacted topic, so that there is something to clean.
	historyStep = time.Second
	// groupEvery is how many ticks lie between two commits of a group.
	groupEvery = ticksPerSecond
	// settleAt is the share of the ticks, in percent, after which the groups have
	// made their last commits.
	settleAt = 75
	// startLimit bounds a mirror's way from its start to where the load is live:
	// Java starts slowly, and default settings copy slowly.
	startLimit = 5 * time.Minute
	// firstLimit is how long a group may take to its first new record.
	firstLimit = 15 * time.Second
	// glance is how soon a wait looks again; longGlance is how long that becomes
	// where a look costs something.
	glance, longGlance = 20 * time.Millisecond, 500 * time.Millisecond
)

// act is one mode's run.
type act struct {
	o     Options
	mode  Mode
	stage *Stage
	load  *load
	// followers are the groups at the source, steps how often each has committed, of
	// so many in all.
	followers []*follower
	steps     int
	step      int
	sentAt    []map[lab.Partition]int64 // what the source had at each step
	commits   []map[lab.Partition]int64 // of each group, the last ones
	mirror    Mirror
	tail      *audience   // of all at the target
	audiences []*audience // the groups at the target
	evidence  evidence
	ended     chan struct{}
}

// run is the whole of it but for the end.
func (a *act) run(ctx context.Context) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	for _, scene := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"clusters and what they have before", a.prepare},
		{"the mirror starts", func(ctx context.Context) error { return a.start(ctx, abort) }},
		{"load, with the mirror beside it", a.live},
		{"the groups' last commits are carried over", a.settle},
		{"the end of the load, and of the source", a.die},
		{"the groups go on at the target", a.goOn},
		{"reading what there is", a.read},
	} {
		a.o.Say(a.mode.Name() + ": " + scene.what)
		if err := scene.do(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("%s: %w", scene.what, err)
		}
	}
	return nil
}

// prepare makes clusters, topics, some history, and each group's first commit.
func (a *act) prepare(ctx context.Context) (err error) {
	if a.stage, err = a.o.Raise(ctx); err != nil {
		return err
	}
	if err := lab.CreateTopics(ctx, a.stage.Source, a.specs()...); err != nil {
		return err
	}
	if a.load, err = newLoad(a.stage.Source, newScript(a.o.Seed, a.o.Rate), a.stage.Prefix); err != nil {
		return err
	}
	for range history {
		if err := a.load.play(ctx); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if p.keys > 0 && a.stage.Clean != nil {
			if err := a.stage.Clean(ctx, a.stage.Prefix+p.name); err != nil {
				return err
			}
		}
	}
	if err := a.load.sendBulk(ctx, a.o.Seed, a.bulkRecords()); err != nil {
		return err
	}
	a.evidence.prefix, a.evidence.partitions = a.stage.Prefix, a.load.partitions()
	a.steps = 1 + a.settleTick()/groupEvery
	for _, m := range company {
		f, err := follow(a.stage.Source, a.stage.Prefix+m.name, a.evidence.partitions)
		if err != nil {
			return err
		}
		a.followers = append(a.followers, f)
	}
	a.commits = make([]map[lab.Partition]int64, len(company))
	return a.walk(ctx, a.load.sent())
}

func (a *act) ticks() int         { return int(a.o.Load * ticksPerSecond / time.Second) }
func (a *act) settleTick() int    { return a.ticks() * settleAt / 100 }
func (a *act) bulkRecords() int64 { return max(1, a.o.BulkBytes/bulkRecord) }

func (a *act) specs() (all []lab.TopicSpec) {
	for _, p := range append([]part{bulkPart}, parts...) {
		configs := lab.KeepEverything()
		if p.keys > 0 {
			configs["cleanup.policy"], configs["min.cleanable.dirty.ratio"] = "compact", "0.01"
			configs["segment.ms"] = fmt.Sprint((historyStep / 2).Milliseconds())
		}
		all = append(all, lab.TopicSpec{Name: a.stage.Prefix + p.name, Partitions: p.partitions, Configs: configs})
	}
	return all
}

// walk is the next step of all groups, when the source has had so many records.
func (a *act) walk(ctx context.Context, sent map[lab.Partition]int64) error {
	a.sentAt = append(a.sentAt, sent)
	var walks errgroup.Group
	for i, m := range company {
		percent, of := m.place(a.step, a.steps-1)
		places := map[lab.Partition]int64{}
		for _, p := range a.evidence.partitions {
			places[p] = commitAt(a.load.entriesOf(p), a.sentAt[of][p], percent)
		}
		a.commits[i] = places
		walks.Go(func() error { return a.followers[i].moveTo(ctx, places) })
	}
	a.step++
	return walks.Wait()
}

// start starts the mirror and waits until it has copied what there was.
func (a *act) start(ctx context.Context, abort context.CancelCauseFunc) (err error) {
	job := Job{Name: strings.TrimRight(a.stage.Prefix, "-"), Source: a.stage.Source, Target: a.stage.Target}
	for _, s := range a.specs() {
		job.Topics = append(job.Topics, s.Name)
	}
	for _, m := range company {
		job.Groups = append(job.Groups, a.stage.Prefix+m.name)
	}
	if a.mirror, err = a.mode.Start(ctx, job); err != nil {
		return err
	}
	go func() {
		select {
		case <-a.mirror.Ended():
			abort(fmt.Errorf("%s ended: %w", a.mode.Name(), a.mirror.Err()))
		case <-a.ended:
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := a.watchBulk(ctx); err != nil {
		return err
	}
	if a.tail, err = attend(a.stage.Target, a.names(), nil); err != nil {
		return err
	}
	return await(ctx, a.caughtUp)
}

// names are the target names of the load's topics.
func (a *act) names() map[string]string {
	names := map[string]string{}
	for _, p := range parts {
		names[a.stage.Prefix+p.name] = a.mirror.TargetTopic(a.stage.Prefix + p.name)
	}
	return names
}

// watchBulk looks how fast the bulk comes, until all is there.
func (a *act) watchBulk(ctx context.Context) error {
	ends, err := newEnds(a.stage.Target, a.mirror.TargetTopic(a.stage.Prefix+bulkPart.name), bulkPart.partitions)
	if err != nil {
		return err
	}
	defer ends.close()
	return await(ctx, func() bool {
		s := sight{records: ends.sum(ctx), at: time.Now()}
		if u, err := a.mirror.Usage(); err == nil {
			s.cpu = &u.CPU
		}
		a.evidence.pace.note(s)
		return s.records >= a.bulkRecords()
	})
}

// caughtUp is whether the target has the last record of each partition.
func (a *act) caughtUp() bool {
	for _, p := range a.evidence.partitions {
		if Weigh(a.load.entriesOf(p), a.tail.given(p), true).Behind > 0 {
			return false
		}
	}
	return true
}

// live plays the load up to where the groups make their last commits.
func (a *act) live(ctx context.Context) error {
	a.load.timed, a.evidence.began = true, time.Now()
	steps := make(chan map[lab.Partition]int64, 1) // one step may wait while another is taken
	var walking errgroup.Group
	walking.Go(func() error {
		for sent := range steps {
			if err := a.walk(ctx, sent); err != nil {
				for range steps { // whoever plays is not to wait
				}
				return err
			}
		}
		return nil
	})
	err := a.playUntil(ctx, 1, a.settleTick(), func(tick int) {
		if tick%groupEvery == 0 {
			steps <- a.load.sent()
		}
	})
	close(steps)
	return errors.Join(err, walking.Wait())
}

// playUntil plays ticks, each when it is due.
func (a *act) playUntil(ctx context.Context, from, to int, after func(tick int)) error {
	began := time.Now()
	for tick := from; tick <= to; tick++ {
		timer := time.NewTimer(time.Until(began.Add(time.Duration(tick-from) * time.Second / ticksPerSecond)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if err := a.load.play(ctx); err != nil {
			return err
		}
		after(tick)
	}
	return nil
}

// settle gives the mode its time to carry the last commits over (X4).
func (a *act) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := await(limited, a.caughtUp); err != nil {
		return err
	}
	began := time.Now()
	limited, cancel = context.WithTimeout(ctx, a.mode.Patience())
	defer cancel()
	if err := awaitWithin(limited, longGlance, func() bool { return a.exact(limited) }); err == nil {
		took := time.Since(began)
		a.evidence.carried = &took
	}
	return ctx.Err()
}

// exact is whether every group would go on exactly where it stopped.
func (a *act) exact(ctx context.Context) bool {
	for i, m := range company {
		places, err := a.mirror.Resume(ctx, a.stage.Prefix+m.name)
		if err != nil {
			return false
		}
		for p, commit := range a.commits[i] {
			at, ok := places[p]
			if !ok || Stand(a.load.entriesOf(p), a.tail.given(p), commit, at).Error() > 0 {
				return false
			}
		}
	}
	return true
}

// await looks until something holds or ctx ends.
func await(ctx context.Context, holds func() bool) error { return awaitWithin(ctx, glance, holds) }

// awaitWithin looks less and less often, down to once in a time.
func awaitWithin(ctx context.Context, most time.Duration, holds func() bool) error {
	for next := glance; !holds(); next = min(2*next, most) {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return ctx.Err()
}
