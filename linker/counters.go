package linker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"klink/fetcher/feed"
	"klink/linker/fill"
	"klink/linker/state"
)

// counters are one link's instruments. Attribute sets are made once per
// partition, since they are used for every batch.
type counters struct {
	link                    string
	records, bytes, batches metric.Int64Counter
	reprobes                metric.Int64Counter
	stops                   metric.Int64Counter
	append                  metric.Float64Histogram
	fills, doubts           metric.Int64Counter
	trims                   metric.Int64Counter
	doubles                 metric.Int64Counter

	whole []metric.RecordOption // the link's labels alone

	mu   sync.Mutex // guards sets
	sets map[feed.Partition]metric.MeasurementOption
}

// newCounters makes the instruments; report feeds the gauges at collection.
func newCounters(m metric.Meter, link string, report func() state.Link) (*counters, error) {
	c := &counters{link: link, sets: make(map[feed.Partition]metric.MeasurementOption),
		whole: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("link", link)))}}
	var errs [14]error
	c.records, errs[0] = m.Int64Counter("klink.mirrored.records", metric.WithDescription("Records appended to the target"))
	c.bytes, errs[1] = m.Int64Counter("klink.mirrored.bytes", metric.WithUnit("By"), metric.WithDescription("Bytes of record batches appended to the target"))
	c.batches, errs[2] = m.Int64Counter("klink.mirrored.batches", metric.WithDescription("Record batches appended to the target"))
	c.reprobes, errs[3] = m.Int64Counter("klink.reprobes", metric.WithDescription("Times a position was given up and read from the target again"))
	c.stops, errs[4] = m.Int64Counter("klink.stops", metric.WithDescription("Halts and lost clusters by reason"))
	c.append, errs[5] = m.Float64Histogram("klink.append.duration", metric.WithUnit("s"), metric.WithDescription("Time from handing a batch to the appender to its acknowledgement"))
	c.fills, errs[9] = m.Int64Counter("klink.filled.offsets", metric.WithDescription("Offsets occupied with markers, by the reason of the gap"))
	c.doubts, errs[10] = m.Int64Counter("klink.fill.doubts", metric.WithDescription("Marker requests of which it was not known at once how much was written"))
	c.trims, errs[11] = m.Int64Counter("klink.trimmed.offsets", metric.WithDescription("Offsets deleted at the start of the target's logs, as on the source"))
	c.doubles, errs[13] = m.Int64Counter("klink.possibly.double.records", metric.WithDescription("Records that may have been copied twice in checkpoint mode, at most"))
	lagRecords, err := m.Int64ObservableGauge("klink.lag.records", metric.WithDescription("Records between the target's end and the source's last stable offset"))
	errs[6] = err
	lagSeconds, err := m.Float64ObservableGauge("klink.lag", metric.WithUnit("s"), metric.WithDescription("Age of the oldest record known and not mirrored"))
	errs[7] = err
	open, err := m.Int64ObservableGauge("klink.open.records", metric.WithDescription("Offsets of the source that wait for a transaction to end"))
	errs[11] = err
	states, err := m.Int64ObservableGauge("klink.partition.state", metric.WithDescription("1 for the state and reason a partition is in"))
	errs[8] = err
	stale, err := m.Int64ObservableGauge("klink.possibly.stale.keys", metric.WithDescription("1 for partitions of compacted topics that may have missed tombstones"))
	errs[12] = err
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("make instruments of link %s: %w", link, err)
		}
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observe(o, report(), gauges{lagRecords, lagSeconds, open, states, stale})
		return nil
	}, lagRecords, lagSeconds, open, states, stale)
	if err != nil {
		return nil, fmt.Errorf("register gauges of link %s: %w", link, err)
	}
	return c, nil
}

type gauges struct {
	lagRecords metric.Int64ObservableGauge
	lagSeconds metric.Float64ObservableGauge
	open       metric.Int64ObservableGauge
	states     metric.Int64ObservableGauge
	stale      metric.Int64ObservableGauge
}

// observe shows a report as gauges. What is unknown is left out, never 0.
func observe(o metric.Observer, l state.Link, g gauges) {
	for _, t := range l.Topics {
		for _, p := range t.Partitions {
			base := []attribute.KeyValue{attribute.String("link", l.Name), attribute.String("topic", t.SourceTopic), attribute.Int("partition", int(p.Partition))}
			at := metric.WithAttributes(base...)
			if p.LagRecords != nil {
				o.ObserveInt64(g.lagRecords, *p.LagRecords, at)
			}
			if p.LagSeconds != nil {
				o.ObserveFloat64(g.lagSeconds, *p.LagSeconds, at)
			}
			if p.OpenRecords != nil {
				o.ObserveInt64(g.open, *p.OpenRecords, at)
			}
			if slices.Contains(p.Flags, state.PossiblyStaleKeys) {
				o.ObserveInt64(g.stale, 1, at)
			}
			o.ObserveInt64(g.states, 1, metric.WithAttributes(append(base,
				attribute.String("state", string(p.State)), attribute.String("reason", p.Reason))...))
		}
	}
}

func (c *counters) set(p feed.Partition) metric.MeasurementOption {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sets[p]
	if !ok {
		s = metric.WithAttributeSet(attribute.NewSet(attribute.String("link", c.link),
			attribute.String("topic", p.Topic), attribute.Int("partition", int(p.Partition))))
		c.sets[p] = s
	}
	return s
}

// tally is what a partition appended and no instrument was told of yet.
type tally struct{ records, bytes, batches int64 }

// tallyMost is how many batches are told at once, unless progress is shown before.
// Instruments take more time than anything else that is done for a batch once it
// has landed.
const tallyMost = 16

// appended notes a batch; last says that no other one is under way.
func (c *counters) appended(p feed.Partition, t *tally, f flight, last bool, took time.Duration) {
	t.records += f.end - f.base
	t.bytes += int64(f.bytes)
	t.batches++
	c.append.Record(context.Background(), took.Seconds(), c.whole...)
	if last || t.batches >= tallyMost {
		c.tell(p, t)
	}
}

// tell brings a tally into the instruments.
func (c *counters) tell(p feed.Partition, t *tally) {
	if t.batches == 0 {
		return
	}
	ctx, at := context.Background(), []metric.AddOption{c.set(p)}
	c.records.Add(ctx, t.records, at...)
	c.bytes.Add(ctx, t.bytes, at...)
	c.batches.Add(ctx, t.batches, at...)
	*t = tally{}
}

// filled counts what a fill wrote, those of a former owner included.
func (c *counters) filled(p feed.Partition, r fill.Result) {
	ctx, at := context.Background(), c.set(p)
	for _, run := range r.Filled {
		c.fills.Add(ctx, run.Count, at, metric.WithAttributes(attribute.String("why", run.Reason.String())))
	}
	c.doubts.Add(ctx, r.Doubts, at)
}

func (c *counters) reprobed(p feed.Partition) { c.reprobes.Add(context.Background(), 1, c.set(p)) }

func (c *counters) stopped(p feed.Partition, r state.Reason) {
	c.stops.Add(context.Background(), 1, metric.WithAttributes(attribute.String("link", c.link),
		attribute.String("topic", p.Topic), attribute.Int("partition", int(p.Partition)), attribute.String("reason", string(r))))
}

// trimmed counts what was deleted to follow the source's log start.
func (c *counters) trimmed(p feed.Partition, offsets int64) {
	c.trims.Add(context.Background(), offsets, c.set(p))
}
