package checkpoints

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"klink/linker/state"
)

// instruments count what a link writes. The label reason is bounded by the verdicts,
// topic by MirrorMaker 2's own topics of the link.
type instruments struct {
	link                      attribute.KeyValue
	whole                     metric.MeasurementOption
	checkpoints, syncs, beats metric.Int64Counter
}

func newInstruments(m metric.Meter, link string) (*instruments, error) {
	c := &instruments{link: attribute.String("link", link)}
	c.whole = metric.WithAttributeSet(attribute.NewSet(c.link))
	var errs [3]error
	c.checkpoints, errs[0] = m.Int64Counter("klink.checkpoints.written", metric.WithDescription("Checkpoints of groups that the target acknowledged"))
	c.syncs, errs[1] = m.Int64Counter("klink.checkpoints.syncs", metric.WithDescription("Offset syncs that the target acknowledged"))
	c.beats, errs[2] = m.Int64Counter("klink.checkpoints.heartbeats", metric.WithDescription("Heartbeats that the target acknowledged"))
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("make instruments of link %s: %w", link, err)
		}
	}
	return c, nil
}

// gauges registers what is read off a Task when it is asked for, and nothing where
// another process writes.
func (c *instruments) gauges(m metric.Meter, look func() *state.Checkpoints) error {
	waiting, err := m.Int64ObservableGauge("klink.checkpoints.waiting", metric.WithDescription("Offsets of groups for which no checkpoint can be written, by reason"))
	if err != nil {
		return err
	}
	age, err := m.Float64ObservableGauge("klink.checkpoints.age", metric.WithUnit("s"), metric.WithDescription("Time since all groups were looked at and their checkpoints acknowledged"))
	if err != nil {
		return err
	}
	troubles, err := m.Int64ObservableGauge("klink.checkpoints.troubles", metric.WithDescription("MirrorMaker 2's topics that are not written, or not by klink alone, by topic and reason"))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := look()
		if !r.Writing {
			return nil
		}
		for _, w := range r.Waiting {
			o.ObserveInt64(waiting, w.Offsets, metric.WithAttributes(c.link, attribute.String("reason", w.Reason)))
		}
		for _, t := range r.Troubles {
			o.ObserveInt64(troubles, 1, metric.WithAttributes(c.link, attribute.String("topic", t.Topic), attribute.String("reason", t.Reason)))
		}
		if !r.LookedAt.IsZero() {
			o.ObserveFloat64(age, time.Since(r.LookedAt.Time).Seconds(), c.whole)
		}
		return nil
	}, waiting, age, troubles)
	return err
}
