package appender

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/leaders"
)

// question is one kind of read-only request that only a partition's leader can
// answer, for many partitions at once.
type question struct {
	op    string
	right string // what NO_PERMISSION means here
	// put asks one broker about partitions it leads and calls reply for each
	// one answered. An error means that there was no answer at all.
	put func(ctx context.Context, to *kgo.Broker, about []routed, reply func(Target, error)) error
}

// routed is a target with the leader to ask.
type routed struct {
	Target
	leader leaders.Leader
}

// askLeaders puts q to the leaders of all targets, one request per leader and
// all leaders at once. It returns when the last one answered or its deadline
// passed, so whoever must not wait for a broker that hangs asks about it
// separately. Who is in no fault was replied to without error.
//
// The answers go by topic name, so the metadata is fetched anew first and the
// ids are compared: a recreated topic is a fault and never an answer. Targets
// whose leader moved meanwhile are asked once more.
func (a *Appender) askLeaders(ctx context.Context, targets []Target, q question) map[Target]*Fault {
	faults := make(map[Target]*Fault, len(targets))
	open := targets
	for round := 0; round < 2 && len(open) > 0; round++ {
		open = a.askOnce(ctx, open, q, faults)
	}
	return faults
}

// askOnce does one round and returns the targets worth a second one.
func (a *Appender) askOnce(ctx context.Context, targets []Target, q question, faults map[Target]*Fault) []Target {
	var (
		mu    sync.Mutex // guards faults and again
		again []Target
	)
	note := func(t Target, broker int32, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			delete(faults, t)
			return
		}
		reason, right, retry := readVerdict(err, q.right)
		faults[t] = &Fault{Op: q.op, Target: t, Broker: broker, Reason: reason, Right: right, Err: err}
		if retry {
			again = append(again, t)
		}
	}

	if err := a.opts.Leaders.Refresh(ctx, topicsOf(targets)...); err != nil {
		for _, t := range targets {
			note(t, -1, err)
		}
		return nil // the whole cluster is silent; asking again takes as long
	}
	var wg sync.WaitGroup
	for broker, about := range a.byLeader(targets, note) {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, a.opts.RequestTimeout)
			defer cancel()
			answered := make(map[Target]bool, len(about))
			err := q.put(ctx, a.opts.Admin.Broker(int(broker)), about, func(t Target, err error) {
				answered[t] = true
				note(t, broker, err)
			})
			if err == nil {
				err = ErrNoAnswer
			}
			for _, r := range about {
				if !answered[r.Target] {
					note(r.Target, broker, err)
				}
			}
		})
	}
	wg.Wait()
	return again
}

func topicsOf(targets []Target) []string {
	seen := make(map[string]bool)
	var names []string
	for _, t := range targets {
		if !seen[t.Topic] {
			seen[t.Topic] = true
			names = append(names, t.Topic)
		}
	}
	return names
}

// byLeader groups targets by who leads them now; the others are noted.
func (a *Appender) byLeader(targets []Target, note func(Target, int32, error)) map[int32][]routed {
	groups := make(map[int32][]routed)
	for _, t := range targets {
		l, err := a.route(t)
		if err != nil {
			note(t, -1, err)
			continue
		}
		groups[l.Broker] = append(groups[l.Broker], routed{t, l})
	}
	return groups
}

// byTopic groups one leader's targets the way requests name them.
func byTopic(about []routed) map[string][]routed {
	m := make(map[string][]routed)
	for _, r := range about {
		m[r.Topic] = append(m[r.Topic], r)
	}
	return m
}

// places finds targets by what answers name.
type place struct {
	topic     string
	partition int32
}

func places(about []routed) map[place]routed {
	m := make(map[place]routed, len(about))
	for _, r := range about {
		m[place{r.Topic, r.Partition}] = r
	}
	return m
}
