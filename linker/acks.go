package linker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/intent"
	"klink/linker/state"
)

// endsTimeout bounds the reading of log ends for an acknowledgement: whoever fails
// over waits little longer for it.
const endsTimeout = time.Second

// order is what is being obeyed for one topic that is not to be mirrored.
type order struct {
	topic *topic
	want  intent.Intent
	since time.Time
	// partitions are those that this process answers for, with their targets.
	partitions map[int32]appender.Target
	acked      map[int32]control.Acked
	// answered: somebody acknowledged the command already.
	answered bool
	// shown: the state of every partition follows the order.
	shown bool
}

func (n *order) number() int32 { return n.want.Cause.Number }

// tell logs an order that is carried out, once. A link's is told by itself.
func (n *order) tell() {
	if c := n.want.Cause; !n.want.PausedByLink() {
		n.topic.log.Info("topic "+string(control.OrderedState(n.want.Want)), "command", c.Number, "verb", c.Verb, "by", c.By)
	}
}

// due lists the partitions that may be acknowledged and are not yet. Those whose
// loops are still draining have to wait.
func (n *order) due(ended []finished, all bool) (out []finished) {
	at := make(map[int32]finished, len(ended))
	for _, f := range ended {
		at[f.n] = f
	}
	for p, dst := range n.partitions {
		f, ran := at[p]
		if _, done := n.acked[p]; !done && (ran || all) {
			out = append(out, finished{n: p, dst: dst, wrote: ran && f.wrote})
		}
	}
	return out
}

// with returns what is acknowledged once the ends that were read are. Partitions
// whose end could not be read are left for the next time; of those that are gone there
// is nothing to be said.
func (n *order) with(due []finished, ends map[appender.Target]appender.LogEnd) map[int32]control.Acked {
	next := maps.Clone(n.acked)
	for _, f := range due {
		switch e, ok := ends[f.dst]; {
		case ok && e.Reason == state.TargetRecreated:
			delete(n.partitions, f.n)
		case ok && e.Err == nil:
			next[f.n] = control.Acked{Partition: f.n, End: e.End, Wrote: f.wrote}
		}
	}
	return next
}

// acknowledge puts on record what of the orders is done.
func (o *obeyer) acknowledge(ctx context.Context, due map[string][]finished) {
	ends := o.ends(ctx, due)
	g := new(errgroup.Group)
	g.SetLimit(topicsAtOnce)
	for name, n := range o.orders {
		g.Go(func() error {
			o.answer(ctx, n, n.with(due[name], ends))
			return nil
		})
	}
	_ = g.Wait() // the functions return no errors
	maps.DeleteFunc(o.orders, func(_ string, n *order) bool { return n.topic.answered() == n.number() })
}

// ends reads the log ends of partitions to which nothing is written any more.
func (o *obeyer) ends(ctx context.Context, due map[string][]finished) map[appender.Target]appender.LogEnd {
	var ask []appender.Target
	for _, fs := range due {
		for _, f := range fs {
			ask = append(ask, f.dst)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	return o.l.o.Target.LogEnds(ctx, ask)
}

// answer writes the acknowledgement of one order, where it says more than the one
// before.
func (o *obeyer) answer(ctx context.Context, n *order, next map[int32]control.Acked) {
	whole := n.shown && len(next) == len(n.partitions)
	if len(next) == len(n.acked) && !whole {
		return
	}
	if len(n.partitions) == 0 && n.answered {
		n.topic.answer(n.number()) // nothing to add
		return
	}
	n.topic.sawEnds(next)
	r := control.AckRecord{Link: o.l.o.Name, Topic: n.topic.name, Worker: o.l.o.Worker, Number: n.number(), At: time.Now(),
		Partitions: slices.SortedFunc(maps.Values(next), func(a, b control.Acked) int { return cmp.Compare(a.Partition, b.Partition) })}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := o.l.store.PutAck(ctx, r); err != nil {
		n.topic.log.Debug("command is not acknowledged yet", "command", r.Number, "error", err)
		return
	}
	n.acked = next
	if whole {
		n.topic.answer(n.number())
	}
}

// answersFor lists the partitions of a topic for which this process acknowledges a
// command: those that it mirrored, and those that it would, or nobody did, less what
// is acknowledged already. Where there is no other process it is all of them: those of
// a topic whose source is gone the group shares no more. answered tells whether anything
// is.
func (l *Link) answersFor(t *topic, was intent.Want, number int32) (out map[int32]appender.Target, answered bool) {
	out = make(map[int32]appender.Target)
	alone, since := l.alone()
	for _, dst := range l.targetsOf(t.name) {
		s := sharing{l.o.Lease.Share(dst.Topic, dst.Partition), alone, since}
		if alone || s.mirrors() || was == intent.Stopped || was == intent.Removed {
			out[dst.Partition] = dst
		}
	}
	for _, r := range l.store.Acks(l.o.Name, t.name) {
		if r.Number == number {
			answered = true
			for _, a := range r.Partitions {
				delete(out, a.Partition)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, p := range t.partitions {
		if p.here {
			out[int32(n)] = p.dst
		}
	}
	return out, answered
}

// targetsOf lists the target partitions that are on record for a topic.
func (l *Link) targetsOf(source string) (all []appender.Target) {
	rec, ok := l.store.Topic(l.o.Name, source)
	if !ok || rec.TargetID.IsZero() {
		return nil
	}
	for n := range rec.Partitions {
		all = append(all, appender.Target{Topic: rec.TargetTopic, ID: rec.TargetID, Partition: n})
	}
	return all
}
