package linker

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"klink/fetcher/feed"
	"klink/linker/state"
)

// auditCounters are the instruments of a link's audit; of one that has none they
// count nothing.
type auditCounters struct {
	link             string
	records, failure metric.Int64Counter
}

// newAuditCounters makes the instruments; report feeds the gauges at collection.
func newAuditCounters(m metric.Meter, link string, report func() state.Link) (*auditCounters, error) {
	c := &auditCounters{link: link}
	var errs [4]error
	c.records, errs[0] = m.Int64Counter("klink.audited.records", metric.WithDescription("Records that the audit compared on both sides"))
	c.failure, errs[1] = m.Int64Counter("klink.audit.failures", metric.WithDescription("Comparisons that came to no end"))
	findings, err := m.Int64ObservableGauge("klink.audit.findings", metric.WithDescription("Differences that the last comparison of a partition found"))
	errs[2] = err
	age, err := m.Float64ObservableGauge("klink.audit.clean.age", metric.WithUnit("s"), metric.WithDescription("Time since the last comparison of a partition began that found no difference"))
	errs[3] = err
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("make instruments of the audit of link %s: %w", link, err)
		}
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l := report()
		for _, t := range l.Topics {
			for _, p := range t.Partitions {
				if p.Audit == nil {
					continue // unknown, and never 0
				}
				at := c.at(feed.Partition{Topic: t.SourceTopic, Partition: p.Partition})
				if p.Audit.Last != nil {
					o.ObserveInt64(findings, p.Audit.Last.Findings, at)
				}
				if p.Audit.CleanAgeSeconds != nil {
					o.ObserveFloat64(age, *p.Audit.CleanAgeSeconds, at)
				}
			}
		}
		return nil
	}, findings, age)
	if err != nil {
		return nil, fmt.Errorf("register gauges of the audit of link %s: %w", link, err)
	}
	return c, nil
}

func (c *auditCounters) at(p feed.Partition) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("link", c.link), attribute.String("topic", p.Topic), attribute.Int("partition", int(p.Partition)))
}

func (c *auditCounters) passed(p feed.Partition, pass state.AuditPass) {
	c.records.Add(context.Background(), pass.Records, c.at(p))
}

func (c *auditCounters) failed(p feed.Partition) { c.failure.Add(context.Background(), 1, c.at(p)) }
