package workers

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// metrics holds the package's instruments. An instrument that cannot be made
// counts nowhere: the lease does not depend on it.
type metrics struct {
	link       attribute.KeyValue
	heartbeats metric.Int64Counter
	lapses     metric.Int64Counter
	partitions metric.Int64UpDownCounter
}

func newMetrics(m metric.Meter, link string) *metrics {
	t := &metrics{link: attribute.String("link", link)}
	var errs [3]error
	t.heartbeats, errs[0] = m.Int64Counter("klink.lease.heartbeats",
		metric.WithDescription("Heartbeats to the link's group by answer: ok, rebalancing, removed, failed. Only ok renews the lease"))
	t.lapses, errs[1] = m.Int64Counter("klink.lease.lapses", metric.WithDescription("Times the lease lapsed while partitions were assigned"))
	t.partitions, errs[2] = m.Int64UpDownCounter("klink.lease.partitions",
		metric.WithDescription("Target partitions that the link's group has assigned to this process"))
	for _, err := range errs {
		if err != nil {
			return newMetrics(noop.NewMeterProvider().Meter(""), link)
		}
	}
	return t
}

func (t *metrics) heartbeat(ctx context.Context, a answer) {
	t.heartbeats.Add(ctx, 1, metric.WithAttributes(t.link, attribute.String("answer", string(a))))
}

func (t *metrics) lapsed(ctx context.Context) { t.lapses.Add(ctx, 1, metric.WithAttributes(t.link)) }

func (t *metrics) assigned(ctx context.Context, more int) {
	t.partitions.Add(ctx, int64(more), metric.WithAttributes(t.link))
}
