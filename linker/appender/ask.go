package appender

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
// The first round takes leaders as they are known and so needs no broker but
// the leader; what that leaves open is asked again after fresh metadata.
func (a *Appender) askLeaders(ctx context.Context, targets []Target, q question) map[Target]*Fault {
	faults := make(map[Target]*Fault)
	again := a.askOnce(ctx, targets, q, faults)
	if len(again) == 0 {
		return faults
	}
	if err := a.opts.Leaders.Refresh(ctx, topicsOf(again)...); err != nil {
		return faults // the first round's say more
	}
	a.askOnce(ctx, again, q, faults)
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
	var wg sync.WaitGroup
	for broker, about := range a.byLeader(targets, note) {
		wg.Go(func() {
			for t, err := range a.askLeader(ctx, broker, about, q) {
				note(t, broker, err)
			}
		})
	}
	wg.Wait()
	return again
}

// askLeader puts q to one broker and then compares the topics' ids with those
// it knows: its answers go by topic name, so after a topic was recreated they
// would be the new one's. A broker takes metadata up before it serves by it
// (BrokerMetadataPublisher), hence the ids are read after the answer.
func (a *Appender) askLeader(ctx context.Context, broker int32, about []routed, q question) map[Target]error {
	ctx, cancel := context.WithTimeout(ctx, a.opts.RequestTimeout)
	defer cancel()
	to := a.opts.Admin.Broker(int(broker))
	answers := make(map[Target]error, len(about))
	err := q.put(ctx, to, about, func(t Target, err error) { answers[t] = err })
	if err == nil {
		err = ErrNoAnswer
	}
	good := make([]Target, 0, len(about))
	for _, r := range about {
		switch e, ok := answers[r.Target]; {
		case !ok:
			answers[r.Target] = err
		case e == nil:
			good = append(good, r.Target)
		}
	}
	if len(good) == 0 {
		return answers
	}
	known, err := topicIDs(ctx, to, topicsOf(good))
	for _, t := range good {
		if answers[t] = err; err == nil {
			answers[t] = known[t.Topic].is(t.ID)
		}
	}
	return answers
}

// topicID is a topic's id as one broker knows it, or why it does not.
type topicID struct {
	id  [16]byte
	err error
	ok  bool
}

func (k topicID) is(id [16]byte) error {
	switch {
	case !k.ok:
		return ErrNoAnswer
	case k.err != nil:
		return k.err
	case k.id != id:
		return fmt.Errorf("%w: %x, now %x", ErrTopicID, id, k.id)
	}
	return nil
}

// requester takes one request to one broker, as kgo.Broker does.
type requester interface {
	Request(context.Context, kmsg.Request) (kmsg.Response, error)
}

func topicIDs(ctx context.Context, to requester, names []string) (map[string]topicID, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("compare topic ids: %w", err)
	}
	resp, ok := kresp.(*kmsg.MetadataResponse)
	if !ok {
		return nil, fmt.Errorf("compare topic ids: answered by %T", kresp)
	}
	known := make(map[string]topicID, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.Topic != nil {
			known[*t.Topic] = topicID{id: t.TopicID, err: kerr.ErrorForCode(t.ErrorCode), ok: true}
		}
	}
	return known, nil
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
	all := make([]routed, 0, len(targets))
	for _, t := range targets {
		l, err := a.route(t)
		if err != nil {
			note(t, -1, err)
			continue
		}
		all = append(all, routed{t, l})
	}
	slices.SortFunc(all, func(a, b routed) int { return cmp.Compare(a.leader.Broker, b.leader.Broker) })
	return runs(all, func(r routed) int32 { return r.leader.Broker })
}

// runs groups what is sorted by a key. The groups share memory with all.
func runs[K comparable](all []routed, key func(routed) K) map[K][]routed {
	out := make(map[K][]routed)
	for lo := 0; lo < len(all); {
		hi := lo + 1
		for hi < len(all) && key(all[hi]) == key(all[lo]) {
			hi++
		}
		out[key(all[lo])] = all[lo:hi:hi]
		lo = hi
	}
	return out
}

// topicRuns are one leader's targets the way requests name them, and found by what
// answers name: each topic's are sorted by partition.
type topicRuns map[string][]routed

func byTopic(about []routed) topicRuns {
	all := slices.Clone(about)
	slices.SortFunc(all, func(a, b routed) int {
		if c := cmp.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return cmp.Compare(a.Partition, b.Partition)
	})
	return runs(all, func(r routed) string { return r.Topic })
}

func (m topicRuns) find(topic string, partition int32) (routed, bool) {
	rs := m[topic]
	i, ok := slices.BinarySearchFunc(rs, partition, func(r routed, n int32) int { return cmp.Compare(r.Partition, n) })
	if !ok {
		return routed{}, false
	}
	return rs[i], true
}
