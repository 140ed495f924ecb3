package linker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"klink/linker/appender"
	"klink/linker/control"
	"klink/linker/state"
)

// sight is what a look at an idle partition's log end showed.
type sight struct {
	// was is the end that was expected when the look began.
	was int64
	end appender.LogEnd
}

// look compares the log ends of idle partitions with what they should be. It
// finds foreign writes, lost tails and dead brokers where no traffic would.
func (l *Link) look(ctx context.Context) {
	for sleep(ctx, l.paced(lookEvery)) {
		l.turn("log end")
		l.takeTurn(ctx)
		l.lookOnce(ctx)
	}
}

func (l *Link) lookOnce(ctx context.Context) {
	type expected struct {
		*partition
		end int64
	}
	all := l.partitions()
	idle, ask := make([]expected, 0, len(all)), make([]appender.Target, 0, len(all))
	for _, p := range all {
		if end, ok := p.shown.idleSince(time.Now().Add(-lookEvery / 2)); ok {
			idle = append(idle, expected{p, end})
			ask = append(ask, p.dst)
		}
	}
	if len(ask) == 0 {
		return
	}
	ends := l.o.Target.LogEnds(ctx, ask)
	if ctx.Err() != nil {
		return
	}
	for _, is := range idle {
		end := ends[is.dst]
		if end.Err == nil && end.End == is.end {
			continue
		}
		select {
		case is.moved <- sight{is.end, end}:
		default: // what the look before this one showed is not taken in yet
		}
	}
}

// partitions lists those that this process mirrors, or did when an order came.
func (l *Link) partitions() []*partition {
	all := make([]*partition, 0, l.size())
	for _, t := range l.listed() {
		t.mu.Lock()
		for _, p := range t.partitions {
			if p.here {
				all = append(all, p)
			}
		}
		t.mu.Unlock()
	}
	return all
}

// size is how many partitions the link's topics have.
func (l *Link) size() (n int) {
	for _, t := range l.listed() {
		t.mu.Lock()
		n += len(t.partitions)
		t.mu.Unlock()
	}
	return n
}

// pacedBy is how many partitions double the time between two looks at all of them:
// however many there are, looks take a small part of a core.
const pacedBy = 10_000

func (l *Link) paced(every time.Duration) time.Duration { return paced(every, l.size()) }

func paced(every time.Duration, partitions int) time.Duration {
	return every + every*time.Duration(partitions)/pacedBy
}

// listed returns the topics in the order in which they were found.
func (l *Link) listed() []*topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*topic, len(l.order))
	for i, n := range l.order {
		out[i] = l.topics[n]
	}
	return out
}

// record keeps the states in the control topic.
func (l *Link) record(ctx context.Context) {
	for rest(ctx, l.paced(recordEvery), l.news) {
		l.turn("state")
		l.crowd.tell(time.Now())
		l.recordOnce(ctx)
		if err := l.recordBooks(ctx, false); err != nil {
			l.log.Debug("ledgers are not recorded yet", "error", err)
		}
	}
}

// recordOnce writes the states that changed since they were written last. A
// refusal shows in the status where it matters, at the next epoch or topic
// record; here it is logged once, and the next round tries again.
func (l *Link) recordOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	err := l.recordChanges(ctx)
	if err == nil {
		err = l.recordSights(ctx)
	}
	l.mu.Lock()
	was := l.unrecorded
	l.unrecorded = err != nil
	l.mu.Unlock()
	switch {
	case err != nil && !was:
		t := controlTrouble(err)
		l.log.Warn("states are not recorded: without a running klink, status shows old ones", "reason", t.Reason, "detail", t.Detail, "hint", t.hint())
	case err == nil && was:
		l.log.Info("states are recorded again")
	}
}

func (l *Link) recordChanges(ctx context.Context) error {
	r := l.mirrors()
	pos := state.Position{State: r.State, Reason: state.Reason(r.Reason), Detail: r.Detail}
	l.mu.Lock()
	store, same := l.store, l.sentPos == pos
	l.mu.Unlock()
	now := time.Now()
	if !same {
		err := store.PutLinkState(ctx, control.LinkStateRecord{Link: r.Name, Mode: r.Mode, State: pos.State, Reason: pos.Reason, Detail: pos.Detail, AsOf: now})
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.sentPos = pos
		l.mu.Unlock()
	}
	recorded := recordedStates(store.Recorded(r.Name))
	for _, t := range r.Topics {
		if t.State == state.Removed {
			continue // what was on record of it is taken off, and must not come back
		}
		if was, known := recorded[t.SourceTopic]; known && sameRecord(l.o.Worker, was, t) {
			continue
		}
		if err := store.PutState(ctx, control.StateRecord{Link: r.Name, Topic: t, AsOf: now}); err != nil {
			return err
		}
	}
	return nil
}

// Report returns the link's part of a status report. Before the source was
// ever reached it shows what the control topic knows.
func (l *Link) Report() state.Link {
	r := l.mirrors()
	if l.o.Groups != nil {
		r.Groups = l.o.Groups.Report()
	}
	if l.o.Checkpoints != nil {
		r.Checkpoints = l.o.Checkpoints.Report()
	}
	return r
}

// Topics returns the topics of Report.
func (l *Link) Topics() []state.Topic { return l.mirrors().Topics }

// mirrors is Report without what works beside the mirror, and asks for its topics.
func (l *Link) mirrors() state.Link {
	l.mu.Lock()
	r := state.Link{Worker: l.o.Worker, Name: l.o.Name, Mode: l.o.Mode.String(), State: l.pos.State, Reason: string(l.pos.Reason), Detail: l.pos.Detail,
		Hint: l.hint, Topics: []state.Topic{}, Groups: []state.Group{}}
	store, found := l.store, l.found
	r.Warnings = append([]state.Warning{}, l.warnings...)
	l.mu.Unlock()
	if store == nil {
		return r
	}
	recorded := sync.OnceValue(func() map[string]state.Topic { return recordedStates(store.States(l.o.Name)) })
	of := func(topic string) state.Topic { return recorded()[topic] }
	now, known := time.Now(), l.listed()
	if !found {
		for _, name := range slices.Sorted(maps.Keys(recorded())) {
			if !slices.ContainsFunc(known, func(t *topic) bool { return t.name == name }) {
				r.Topics = append(r.Topics, unseen(of(name)))
			}
		}
	}
	for _, t := range known {
		r.Topics = append(r.Topics, t.report(now, of))
	}
	control.ShowAudits(r.Topics, l.auditRecords(store), now)
	control.ShowFences(l.o.Name, r.Topics, store)
	return cutOff(r)
}

// own is a report with nothing of other processes, who report that themselves.
func (l *Link) own() state.Link {
	r := l.mirrors()
	for i, t := range r.Topics {
		r.Topics[i].Partitions = slices.DeleteFunc(t.Partitions, func(p state.Partition) bool { return p.Worker != l.o.Worker && p.Worker != "" })
	}
	return r
}

// cutOff lets a link that counts as ACTIVE show at once that a cluster is away,
// when all its partitions say so; the next look at the clusters takes longer.
// Other reasons are those of topics, however many have them.
func cutOff(l state.Link) state.Link {
	if l.State != state.Active {
		return l
	}
	var first *state.Partition
	for i := range l.Topics {
		for j := range l.Topics[i].Partitions {
			p := &l.Topics[i].Partitions[j]
			away := p.Reason == string(state.Unreachable) || p.Reason == string(state.Authentication)
			if !away || first != nil && (p.State != first.State || p.Reason != first.Reason) {
				return l
			}
			if first == nil {
				first = p
			}
		}
	}
	if first != nil {
		l.State, l.Reason, l.Detail, l.Hint = state.Failed, first.Reason, first.Detail, first.Hint
	}
	return l
}

// unseen is a recorded topic of which this process has seen nothing yet.
func unseen(t state.Topic) state.Topic {
	t.State, t.Reason, t.Detail, t.Hint = state.Pending, "", "", ""
	ps := make([]state.Partition, len(t.Partitions))
	for i, p := range t.Partitions {
		ps[i] = unseenPartition(p)
	}
	t.Partitions = ps
	return t
}

func unseenPartition(p state.Partition) state.Partition {
	if p.State != state.Halted {
		p.State, p.Reason, p.Detail, p.Hint = state.Pending, "", "", ""
	}
	p.LagRecords, p.LagSeconds = nil, nil
	return p
}
