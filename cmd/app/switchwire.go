package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/describe"
	"klink/linker/state"
	"klink/linker/switchover"
	"klink/linker/topics"
)

// openTimeout bounds each wait as the control topic is opened for writing, and
// readTimeout the whole, which is long where the topic is: a failover goes on without
// it.
const (
	openTimeout = 3 * time.Second
	readTimeout = 30 * time.Second
)

// openSwitch opens the configuration's only link for a switch.
func openSwitch(ctx context.Context, cfg *config.Config, access SwitchAccess) (Switcher, error) {
	l := cfg.Links[0]
	r, err := openRecorded(ctx, cfg, l)
	if err != nil {
		return nil, err
	}
	w := &switcher{recorded: r}
	w.onClose(r.dst.Close)
	if _, ok := r.view.LinkReport(r.name); !ok {
		w.Close()
		return nil, r.unknownLink()
	}
	m := leaders.New(r.dst.Admin)
	w.onClose(m.Close)
	a := appender.New(appender.Options{Lanes: r.dst.Lanes, Slow: r.dst.Slow, Admin: r.dst.Admin, Leaders: m,
		Markers: r.dst.Markers, MarkerBulks: r.dst.MarkerBulks, Link: l.Name})
	w.run(ctx, a.Run)
	budget := fetcher.NewBudget(int64(cfg.Limits.FetchMemory))
	lies := newTargetCopies(l.Name, r.dst, m, budget)
	w.onClose(lies.close)
	o := switchover.Options{Copies: lies, Link: l.Name, Target: a, Owner: workerName(), CarriesGroups: len(l.Groups.Include) > 0,
		Reader:   wholeReader{reader{fetcher.NewLogReader(r.dst.Admin, m, budget)}},
		Settings: topics.NewTarget(r.dst.Admin, control.TopicName), Groups: switchover.NewGroups(r.dst.Admin)}
	o.Preflight = w.preflight
	if o.Store, err = w.store(ctx, access); err == nil && access == BothSides {
		o.Source, err = w.source(ctx, cfg)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	w.Switch = switchover.New(o)
	return w, nil
}

// switcher is a link that can be switched over.
type switcher struct {
	*recorded
	*switchover.Switch
	// src is the source, nil where it was not opened.
	src *kafka.Source
	// closers undo what was opened, in the order of opening.
	closers []func()
}

func (w *switcher) onClose(f func()) { w.closers = append(w.closers, f) }

// run runs f until Close.
func (w *switcher) run(ctx context.Context, f func(context.Context) error) {
	t := start(context.WithoutCancel(ctx), f)
	w.onClose(func() { t.stop(); <-t.done })
}

// Close closes what was opened last first.
func (w *switcher) Close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
}

// Link is the link with the topics of its records.
func (w *switcher) Link() state.Link {
	r, _ := w.view.LinkReport(w.name)
	return describe.Complete(r.Links[0], w.view)
}

// preflight asks for the rights that a failover would miss.
func (w *switcher) preflight(ctx context.Context) []switchover.Warning {
	var topics, groups []string
	for _, t := range w.view.Topics(w.name) {
		topics = append(topics, t.TargetTopic)
	}
	for _, g := range w.view.Groups(w.name) {
		groups = append(groups, g.Group)
	}
	return preflight(w.dst)(ctx, topics, groups)
}

// preflight asks a target for the rights that a failover would miss.
func preflight(dst *kafka.Target) func(ctx context.Context, topics, groups []string) []state.Warning {
	return func(ctx context.Context, topics, groups []string) []state.Warning {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		return switchover.Preflight(ctx, switchover.PreflightOptions{Client: dst.Admin, Topics: topics, Groups: groups})
	}
}

// store opens the control topic as far as it is needed. Where it cannot be
// written, a failover has to do with what was read.
func (w *switcher) store(ctx context.Context, access SwitchAccess) (switchover.Store, error) {
	if access == LookOnly {
		return switchover.Recorded(w.view, nil), nil
	}
	within, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s, err := control.Open(within, control.Options{Client: w.dst.Control, Patience: openTimeout, Logger: slog.New(slog.DiscardHandler)})
	switch {
	case err == nil:
		w.onClose(s.Close)
		w.run(ctx, s.Run)
		return s, nil
	case errors.Is(err, control.ErrNewer) || access == BothSides:
		return nil, err
	default:
		return switchover.Recorded(w.view, err), nil
	}
}

// source opens the source, for a promotion. One that is out of reach is waited
// for, as long as a promotion waits for anything; a wrong password is not.
func (w *switcher) source(ctx context.Context, cfg *config.Config) (switchover.SourceEnds, error) {
	src, err := kafka.OpenSource(kafka.Options{Link: cfg.Links[0], FetchMemory: cfg.Limits.FetchMemory, Version: Version()})
	if err != nil {
		return nil, err
	}
	w.onClose(src.Close)
	w.src = src
	if err := reach(ctx, src.Ping); err != nil && kafka.Classify(err).Reason != state.Unreachable {
		return nil, fmt.Errorf("source: %w", err)
	}
	return switchover.NewSourceEnds(src.Admin), nil
}
