package groups

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments count what a Syncer does.
type instruments struct {
	link     attribute.KeyValue
	whole    metric.MeasurementOption
	commits  metric.Int64Counter
	requests metric.Int64Counter
	refused  metric.Int64Counter
	clamped  metric.Int64Counter
	renewed  metric.Int64Counter
	latency  metric.Float64Histogram
	polls    metric.Float64Histogram
}

func newInstruments(m metric.Meter, link string) (*instruments, error) {
	c := &instruments{link: attribute.String("link", link)}
	c.whole = metric.WithAttributeSet(attribute.NewSet(c.link))
	var errs [7]error
	c.commits, errs[0] = m.Int64Counter("klink.groups.commits", metric.WithDescription("Offsets of groups that the target acknowledged"))
	c.requests, errs[1] = m.Int64Counter("klink.groups.requests", metric.WithDescription("Requests that they were written with"))
	c.refused, errs[2] = m.Int64Counter("klink.groups.refused", metric.WithDescription("Offsets of groups that were not written, or of which that is not known, by reason"))
	c.clamped, errs[3] = m.Int64Counter("klink.groups.clamped", metric.WithDescription("Offsets of groups that were written lower, since the mirror had not reached them"))
	c.renewed, errs[4] = m.Int64Counter("klink.groups.renewed", metric.WithDescription("Unchanged offsets that were written again before they expire"))
	c.latency, errs[5] = m.Float64Histogram("klink.groups.latency", metric.WithUnit("s"), metric.WithDescription("Time from a commit on the source, by its clock, to the target's acknowledgement; of commits that the tail told"))
	c.polls, errs[6] = m.Float64Histogram("klink.groups.poll", metric.WithUnit("s"), metric.WithDescription("Time that it took to ask all coordinators of the source"))
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("make instruments of link %s: %w", link, err)
		}
	}
	return c, nil
}

// gauges registers what is read off a Syncer when it is asked for.
func (c *instruments) gauges(m metric.Meter, look func() (tally map[Verdict]int64, unmatched int, stalest time.Duration, stale bool)) error {
	offsets, err := m.Int64ObservableGauge("klink.groups.offsets", metric.WithDescription("Offsets of groups by reason; none for those that are on the target"))
	if err != nil {
		return err
	}
	filters, err := m.Int64ObservableGauge("klink.groups.filters.unmatched", metric.WithDescription("Patterns of groups.include that match no group of the source"))
	if err != nil {
		return err
	}
	oldest, err := m.Float64ObservableGauge("klink.groups.stalest", metric.WithUnit("s"), metric.WithDescription("Age of the offset that has gone longest without source and target being known to agree"))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		tally, unmatched, stalest, stale := look()
		for v, n := range tally {
			o.ObserveInt64(offsets, n, metric.WithAttributes(c.link, attribute.String("reason", string(v))))
		}
		o.ObserveInt64(filters, int64(unmatched), c.whole)
		if stale {
			o.ObserveFloat64(oldest, stalest.Seconds(), c.whole)
		}
		return nil
	}, offsets, filters, oldest)
	return err
}

// wrote counts what became of the commits of one group.
func (c *instruments) wrote(outcomes []Outcome) {
	ctx := context.Background()
	for _, o := range outcomes {
		switch {
		case !o.written():
			c.refused.Add(ctx, 1, metric.WithAttributes(c.link, attribute.String("reason", string(o.Verdict))))
			continue
		case o.Commit.Renewal():
			c.renewed.Add(ctx, 1, c.whole)
		case o.Commit.Clamped:
			c.clamped.Add(ctx, 1, c.whole)
		}
		c.commits.Add(ctx, 1, c.whole)
	}
}

func (c *instruments) took(latencies []time.Duration) {
	for _, l := range latencies {
		c.latency.Record(context.Background(), l.Seconds(), c.whole)
	}
}
