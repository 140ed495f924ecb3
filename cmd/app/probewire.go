package app

import (
	"context"

	"klink/cmd/config"
	"klink/cmd/kafka"
	"klink/fetcher"
	"klink/fetcher/leaders"
	"klink/linker/appender"
	"klink/linker/survey"
)

// probeTarget tries the target of the configuration's only link.
func probeTarget(ctx context.Context, cfg *config.Config) (r survey.ProbeResult, err error) {
	l := cfg.Links[0]
	dst, err := kafka.OpenTarget(kafka.Options{Link: l, FetchMemory: cfg.Limits.FetchMemory, Version: Version()})
	if err != nil {
		return r, err
	}
	defer dst.Close()
	if err := reach(ctx, dst.Ping); err != nil {
		return r, err
	}
	return probeWith(ctx, l, dst, fetcher.NewBudget(int64(cfg.Limits.FetchMemory)))
}

// probeWith probes a target whose clients are there, with the same appender and
// reader that a mirror has.
func probeWith(ctx context.Context, l config.Link, dst *kafka.Target, budget *fetcher.Budget) (r survey.ProbeResult, err error) {
	m := leaders.New(dst.Admin)
	defer m.Close()
	a := appender.New(appender.Options{Lanes: dst.Lanes, Slow: dst.Slow, Admin: dst.Admin, Leaders: m,
		Markers: dst.Markers, MarkerBulks: dst.MarkerBulks, Link: l.Name})
	appending := start(context.WithoutCancel(ctx), a.Run)
	defer func() {
		appending.stop()
		<-appending.done
		if err == nil {
			err = appending.err
		}
	}()
	return survey.Probe(ctx, survey.Options{Admin: dst.Admin, Target: a, Replicas: l.Topics.ReplicationFactor,
		Reader: reader{fetcher.NewLogReader(dst.Admin, m, budget)}})
}

// reach asks whether a cluster answers at all; the error says why it does not.
func reach(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return ping(ctx)
}
