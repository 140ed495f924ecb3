package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"klink/cmd/config"
	"klink/cmd/lab"
	"klink/linker/state"
)

const (
	// linkName is the demo's only link, called so that klink status finds it with
	// flags alone.
	linkName = config.FlagLink
	// commitEvery is how often the group commits.
	commitEvery = time.Second
	// carryEvery is how often klink asks for its commits: fake clusters have no
	// __consumer_offsets that could be followed.
	carryEvery = 200 * time.Millisecond
	// carryRest is how long after the source's death what klink knew of its commits
	// is given to be written.
	carryRest = 300 * time.Millisecond
	// patience bounds waits for what takes well under a second on an idle machine:
	// with the default of Live, all of them together end within a minute.
	patience = 5 * time.Second
	// glance is how often a wait looks again.
	glance = 20 * time.Millisecond
	// keptRate is the load of a demo that is kept, in records per second: little,
	// since its clusters keep everything in memory.
	keptRate = 50
)

// story is a running demo.
type story struct {
	o     Options
	stage *stage
	view  *view
	began time.Time

	mirror Mirror
	klink  *part // the daemon
	// The group, and what it was given, before and after the switch.
	before, after         *lab.Consumer
	beforeGiven, afterAll lab.Deliveries
	leaving               *part // the group's end at the source
	evidence              evidence
}

// tell is the story from the clusters' start to the result.
func (s *story) tell(ctx context.Context) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	for _, act := range []func(context.Context) error{
		func(ctx context.Context) error { return s.open(ctx, abort) },
		s.live, s.die, s.goOn, s.readRest, s.compare,
	} {
		if err := act(ctx); err != nil {
			return because(ctx, err)
		}
	}
	result := s.result()
	if err := s.o.Closing(result); err != nil {
		return err
	}
	var verdict error
	if !result.Equal {
		verdict = fmt.Errorf("%w: %s", ErrDiffers, strings.Join(result.Findings, "; "))
	}
	if s.o.Keep {
		if err := s.keep(ctx); err != nil {
			return because(ctx, err)
		}
	}
	return verdict
}

// because gives the cause of a cancelled ctx instead of what came of it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// open starts the load, the mirror and the group.
func (s *story) open(ctx context.Context, abort context.CancelCauseFunc) error {
	src, dst := s.stage.source, s.stage.target
	s.view.say("source %s   target %s", strings.Join(src.Bootstrap(), ","), strings.Join(dst.Bootstrap(), ","))
	s.view.say("%d records/s go to %d topics of the source; group %q reads them and commits every %s; klink mirrors live",
		s.o.Rate, len(cast), group, commitEvery)
	s.began = time.Now()
	s.view.start(s.began)
	if err := s.stage.produce(ctx, s.o.Rate); err != nil {
		return err
	}
	var err error
	if s.mirror, err = s.o.Wire(ctx, configuration(src.Bootstrap(), dst.Bootstrap()), s.logger()); err != nil {
		return err
	}
	s.klink = play(ctx, func(ctx context.Context) error {
		err := s.mirror.Run(ctx)
		if ctx.Err() == nil {
			abort(fmt.Errorf("klink ended: %w", err))
		}
		return err
	})
	s.before, err = lab.StartConsumer(src.ClientOpts(), consumer(), &s.beforeGiven)
	return err
}

func consumer() lab.ConsumerOptions {
	return lab.ConsumerOptions{Group: group, Topics: names(cast), CommitEvery: commitEvery}
}

// configuration is what a klink.yaml for the two clusters would say.
func configuration(source, target []string) *config.Config {
	l := config.DefaultLink()
	l.Name = linkName
	l.Source.Brokers, l.Target.Brokers = source, target
	l.Topics.Include = names(cast)
	l.Groups = config.Groups{Include: []string{group}, Tail: config.TailOff, Interval: carryEvery}
	cfg := config.Default()
	cfg.Links = []config.Link{l}
	cfg.HTTP.Listen = ""
	return &cfg
}

// live lets the source live for its time, and somewhat longer where klink or
// the group are not ready for its death yet.
func (s *story) live(ctx context.Context) error {
	ready := func() bool { return time.Since(s.began) >= s.o.Live && s.allIn(state.Active) && s.carried() }
	_, err := s.watch(ctx, s.o.Live+3*patience, ready)
	return err
}

// allIn is whether every partition of the cast is in a state.
func (s *story) allIn(want state.State) bool {
	n := 0
	for _, l := range s.mirror.Report().Links {
		for _, t := range l.Topics {
			for _, p := range t.Partitions {
				if p.State != want {
					return false
				}
				n++
			}
		}
	}
	return n == partitionCount(cast)
}

func partitionCount(topics []topic) (n int) {
	for _, t := range topics {
		n += int(t.partitions)
	}
	return n
}

// groups are those that klink carries over.
func (s *story) groups() (all []state.Group) {
	for _, l := range s.mirror.Report().Links {
		all = append(all, l.Groups...)
	}
	return all
}

// carried is whether each partition has a commit of the group at the target.
func (s *story) carried() bool {
	n := 0
	for _, g := range s.groups() {
		for _, p := range g.Partitions {
			if p.TargetOffset != nil {
				n++
			}
		}
	}
	return n == partitionCount(cast)
}

// rested is whether the target has every commit that klink knows of, as far as
// the mirror goes, some time after the source's death.
func (s *story) rested() bool {
	for _, g := range s.groups() {
		for _, p := range g.Partitions {
			if p.TargetOffset == nil || p.SourceOffset == nil || *p.TargetOffset != *p.SourceOffset && p.Reason != "CLAMPED" {
				return false
			}
		}
	}
	return time.Since(s.view.death) >= carryRest
}

// watch shows the progress until something holds, at most for a time; it
// returns whether it came to hold.
func (s *story) watch(ctx context.Context, limit time.Duration, until func() bool) (bool, error) {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	deadline := time.Now().Add(limit)
	for {
		if until() {
			return true, nil
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		if s.view.due() {
			s.view.show(s.frame())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// frame is what there is to see now.
func (s *story) frame() frame {
	return frame{topics: cast, report: s.mirror.Report(), groups: s.groups(), produced: s.stage.records(),
		read: s.beforeGiven.Records() + s.afterAll.Records()}
}

// keep reopens the source and leaves all running until ctx ends.
func (s *story) keep(ctx context.Context) error {
	if err := s.stage.reopen(); err != nil {
		return err
	}
	if err := s.stage.produce(ctx, keptRate); err != nil {
		return err
	}
	src, dst := strings.Join(s.stage.source.Bootstrap(), ","), strings.Join(s.stage.target.Bootstrap(), ",")
	look := s.evidence.comparison.Partitions[0]
	s.view.say("%s", hints(src, dst, look.Dst.Topic, look.DstBounds.End/2))
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// end ends whatever runs (D4).
func (s *story) end() error {
	s.view.stop()
	if s.before != nil {
		s.leave()
	}
	if s.after != nil {
		s.after.Crash()
	}
	_ = s.leaving.stop()
	err := s.klink.stop()
	return errors.Join(err, s.stage.close())
}

// part is something that plays on its own. A nil part has never begun.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// play begins a part. It ends by stop alone, not with ctx.
func play(ctx context.Context, f func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = f(ctx)
	}()
	return p
}

// stop ends the part and returns what it ended with.
func (p *part) stop() error {
	if p == nil {
		return nil
	}
	p.cancel()
	<-p.done
	return p.err
}
