package reverse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/fetcher/feed"
	"klink/linker/remote"
)

// toldEnds is what a cluster tells of one log.
type toldEnds struct {
	Ends
	err error
}

var errNoAnswer = errors.New("the answer does not hold the partition")

// readEnds asks a cluster for the ends of all logs of topics, many at once
// (ListOffsets), and for the true log ends beyond the high watermarks
// (OffsetForLeaderEpoch of the current epochs) where leaders tell them. Answers go
// by name; so the ids are compared after them, and another topic's ends are an
// error. So is what is not told of a partition. The error beside the map is a
// *remote.Fault.
func readEnds(ctx context.Context, cl *kgo.Client, ids map[string]feed.TopicID) (map[feed.Partition]toldEnds, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	adm, names := kadm.NewClient(cl), slices.Sorted(maps.Keys(ids))
	before, err := see(ctx, cl, names)
	if err != nil {
		return nil, err
	}
	var lists [3]kadm.ListedOffsets
	for i, list := range []func(context.Context, ...string) (kadm.ListedOffsets, error){adm.ListStartOffsets, adm.ListCommittedOffsets, adm.ListEndOffsets} {
		if lists[i], err = list(ctx, names...); err != nil && len(lists[i]) == 0 {
			return nil, remote.Classify("list offsets", remote.Right("Describe", "topic", "*"), err)
		}
	}
	logEnds := trueEnds(ctx, adm, before)
	after, err := see(ctx, cl, names)
	if err != nil {
		return nil, err
	}
	out := make(map[feed.Partition]toldEnds)
	for name, t := range before.topics {
		for n := range t.partitions {
			p := feed.Partition{Topic: name, Partition: n}
			e := listed(lists, p)
			if now, there := after.topics[name]; e.err == nil && (!there || another(now.id, ids[name])) {
				e.err = fmt.Errorf("topic %s is not the one with id %s any more", name, ids[name])
			}
			e.End = max(e.End, logEnds[p])
			out[p] = e
		}
	}
	return out, nil
}

// listed puts together what three lists say of one partition.
func listed(lists [3]kadm.ListedOffsets, p feed.Partition) (e toldEnds) {
	var got [3]int64
	for i, l := range lists {
		o, ok := l.Lookup(p.Topic, p.Partition)
		switch {
		case !ok:
			e.err = errNoAnswer
		case o.Err != nil:
			e.err = o.Err
		}
		got[i] = o.Offset
	}
	if e.err != nil {
		e.err = remote.Classify("list offsets of "+p.String(), remote.Right("Describe", "topic", p.Topic), e.err)
	}
	e.Ends = Ends{Start: got[0], Stable: got[1], End: got[2]}
	return e
}

// trueEnds asks leaders where their logs end. What they do not tell is left out: the
// high watermark has to do then.
func trueEnds(ctx context.Context, adm *kadm.Client, s seen) map[feed.Partition]int64 {
	var req kadm.OffsetForLeaderEpochRequest
	for name, t := range s.topics {
		for n, epoch := range t.epochs {
			if epoch >= 0 {
				req.Add(name, n, epoch)
			}
		}
	}
	out := make(map[feed.Partition]int64)
	if len(req) == 0 {
		return out
	}
	answers, err := adm.OffsetForLeaderEpoch(ctx, req)
	if err != nil && len(answers) == 0 {
		return out
	}
	for name, ps := range answers {
		for n, a := range ps {
			if a.Err == nil {
				out[feed.Partition{Topic: name, Partition: n}] = a.EndOffset
			}
		}
	}
	return out
}

// toldProducers is what a leader remembers of producers.
type toldProducers struct {
	ids map[int64]bool
	// holder is the one with the oldest open transaction.
	holder *feed.Producer
}

// readProducers asks the leaders of topics what they remember of producers
// (DescribeProducers, KIP-664, brokers from 2.8 on; needs Read on the topics). What
// is not told is no obstacle: what is on record has to do then.
func readProducers(ctx context.Context, cl *kgo.Client, ids map[string]feed.TopicID, of map[string]seenTopic) map[feed.Partition]toldProducers {
	all := make(kadm.TopicsSet)
	for name := range ids {
		for n := range of[name].partitions {
			all.Add(name, n)
		}
	}
	out := make(map[feed.Partition]toldProducers)
	if len(all) == 0 {
		return out
	}
	answers, err := kadm.NewClient(cl).DescribeProducers(ctx, all)
	if err != nil && len(answers) == 0 {
		return out
	}
	for name, t := range answers {
		for n, p := range t.Partitions {
			if p.Err == nil {
				out[feed.Partition{Topic: name, Partition: n}] = producersOf(p)
			}
		}
	}
	return out
}

func producersOf(p kadm.DescribedProducersPartition) toldProducers {
	t := toldProducers{ids: make(map[int64]bool, len(p.ActiveProducers))}
	for id, x := range p.ActiveProducers {
		t.ids[id] = true
		if start := x.CurrentTxnStartOffset; start >= 0 && (t.holder == nil || start < t.holder.TxnStart) {
			t.holder = &feed.Producer{ID: id, Epoch: int32(x.ProducerEpoch), TxnStart: start}
		}
	}
	return t
}
